"""Files of heads: pickles give tensors and nothing else; what is damaged or of another kind is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core.errors import CheckpointError
from medusa_core.heads.formats.files import open_files, weight_files
from medusa_core.heads.formats.read import read_published

Written = Callable[..., Path]


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm-was-done",)


def test_no_code_of_a_pickle_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"0.0.linear.weight": Harmful()}, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(CheckpointError, match="asks for code to be run, which is not done"):
        read_published(tmp_path)
    assert not (tmp_path / "harm-was-done").exists()


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"a": 1}, {1: torch.zeros(1)}])
def test_a_pickle_of_something_else(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(CheckpointError, match="something other than named tensors"):
        open_files(tmp_path)


def test_a_pickle_of_the_old_kind(made: Any, tmp_path: Path) -> None:
    torch.save(made().published(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert read_published(tmp_path / "old.pt").num_heads == 3


@pytest.mark.parametrize("file", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
@pytest.mark.parametrize("size", [0, 40, 5000])
def test_a_cut_file_is_named(made: Any, written: Written, file: str, size: int) -> None:
    path = written("cut", made().published(), file) / file
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=rf"{file} (is damaged|asks for code)"):
        read_published(path)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_config_is_named(made: Any, written: Written, text: str) -> None:
    folder = written("heads", made().published())
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json (cannot be read|is broken)"):
        read_published(folder)


def test_hydra_heads_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "hydra_lm_head.pt").touch()
    with pytest.raises(CheckpointError, match="holds Hydra heads"):
        read_published(tmp_path)


def test_safetensors_come_before_pickles(made: Any, written: Written) -> None:
    written("heads", made().published(), "medusa_lm_head.pt")
    folder = written("heads", made().published(), "medusa_lm_head.safetensors")
    assert weight_files(folder) == [folder / "medusa_lm_head.safetensors"]
    assert weight_files(folder / "medusa_lm_head.pt") == [folder / "medusa_lm_head.pt"]


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There are no heads in"):
        open_files(tmp_path)
