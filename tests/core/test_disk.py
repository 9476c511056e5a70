"""A full disk is told from every other failure, whichever library reports it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from safetensors import SafetensorError

from medusa_core.disk import flush, is_full


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), True),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"), False),
        (OSError(errno.EACCES, "Permission denied"), False),
        (SafetensorError("Error while serializing: I/O error: Permission denied (os error 13)"), False),
    ],
)
def test_which_errors_mean_a_full_disk(error: Exception, full: bool) -> None:
    assert is_full(error) is full


def test_flushing_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b").write_bytes(b"")
    flush(tmp_path)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "inner" / "b").read_bytes() == b""
