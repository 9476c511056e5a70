"""Both files land whole in the folder or in a copy; shipped heads stay as they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from medusa_core.calibrate.statistics import path_statistics
from medusa_core.calibrate.store import check_store, store
from medusa_core.errors import ConfigError
from medusa_core.head_statistics import HeadStatistics
from medusa_core.tree import ROOT_ONLY, RankedTree

COUNTS = path_statistics([(0,), (1,)], 1, 2)
STATISTICS = HeadStatistics(COUNTS, COUNTS, (1.0,), "fp32")
TREE = STATISTICS.together.tree(2)


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    folder = tmp_path / "heads"
    folder.mkdir()
    (folder / "heads.safetensors").write_bytes(b"weights")
    RankedTree(ROOT_ONLY, (0,)).save(folder / "tree.json")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_in_place(heads: Path) -> None:
    store(heads, heads, TREE, STATISTICS)
    assert names(heads) == ["heads.safetensors", "statistics.json", "tree.json"]
    assert RankedTree.load(heads / "tree.json") == TREE
    assert HeadStatistics.load(heads / "statistics.json") == STATISTICS


@pytest.mark.parametrize("there_before", [False, True])
def test_a_copy(heads: Path, tmp_path: Path, there_before: bool) -> None:
    out = tmp_path / "out"
    if there_before:
        out.mkdir()
        (out / "old").write_text("", encoding="utf-8")
    store(heads, out, TREE, STATISTICS)
    assert names(out) == ["heads.safetensors", "statistics.json", "tree.json"]
    assert RankedTree.load(out / "tree.json") == TREE
    assert len(RankedTree.load(heads / "tree.json").tree) == 1, "the heads themselves stay as they are"
    assert names(tmp_path) == ["heads", "out"]


def test_a_kill_on_the_way_leaves_what_was_there(heads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    for out in (heads, tmp_path / "out"):
        with pytest.raises(KeyboardInterrupt):
            store(heads, out, TREE, STATISTICS)
    assert len(RankedTree.load(heads / "tree.json").tree) == 1
    assert not (tmp_path / "out").exists()


def test_shipped_heads_and_read_only_folders_are_refused(
    heads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="come with the program"):
        check_store(heads, heads, tmp_path)
    check_store(heads, heads, tmp_path / "resources")
    check_store(heads, tmp_path / "out", tmp_path / "resources")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written"):
        check_store(heads, heads, tmp_path / "resources")


def test_a_copy_of_what_can_only_be_read_can_be_written(heads: Path, tmp_path: Path) -> None:
    (heads / "tree.json").chmod(0o444)
    store(heads, tmp_path / "out", TREE, STATISTICS)
    assert (tmp_path / "out" / "tree.json").stat().st_mode & stat.S_IWUSR
    assert (tmp_path / "out").stat().st_mode & stat.S_IWUSR
