"""Files that are there whole or not at all: flushed before they get their name; a full disk told from other failures.

Knows nothing of what is in the files.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def flush_file(path: Path) -> None:
    """One file onto the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush(folder: Path) -> None:
    """Every file in the folder onto the disk. Without it, a power cut after a rename could leave empty files."""
    for path in folder.rglob("*"):
        if path.is_file():
            flush_file(path)


def is_full(error: BaseException) -> bool:
    """Whether a failed write says that there is no room; safetensors and torch say so in their text alone."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return True
    return "os error 28" in str(error) or "No space left on device" in str(error)
