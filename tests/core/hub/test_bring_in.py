"""A model's folder, a GGUF file or published heads are brought into the library whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from medusa_core import hub
from medusa_core.errors import CheckpointError, LibraryError, ModelNotFound, ModelUnsupported
from medusa_core.heads.formats.read import read_any
from medusa_core.hub.bring_in import gguf_folder, import_model
from medusa_core.hub.library import installed, remove
from tests.core.hub.getting import checked, finish, models


def test_heads_are_imported_with_all_that_belongs_to_them(tmp_path: Path, cache: Path) -> None:
    ours = {"config.json", "heads.safetensors", "tree.json", "adapters/adapter_model.safetensors"}
    vllm = {"config.json", "model.safetensors", "tree.json", "statistics.json"}
    for number, names in enumerate((ours, vllm)):
        source = tmp_path / f"heads{number}"
        (source / "adapters").mkdir(parents=True)
        for name in (*names, "adapters/notes.txt"):
            (source / name).write_text(name)
        folder = finish(import_model(source, cache))
        arrived = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert arrived == {*names, "medusa-model.json"}


def heads_tensors() -> dict[str, torch.Tensor]:
    """Of two published heads with one block each."""
    shapes = {"0.linear.weight": (8, 8), "0.linear.bias": (8,), "1.weight": (32, 8)}
    return {f"{head}.{name}": torch.ones(shape) for head in range(2) for name, shape in shapes.items()}


@pytest.mark.parametrize("form", ["medusa_lm_head.safetensors", "medusa_lm_head.pt", "mine.safetensors", "mine.pt"])
def test_one_file_of_published_heads_is_imported(tmp_path: Path, cache: Path, form: str) -> None:
    source = tmp_path / "vicuna heads" / form
    source.parent.mkdir()
    if source.suffix == ".pt":
        torch.save(heads_tensors(), source)
    else:
        save_file(heads_tensors(), source)
    (source.parent / "config.json").write_text('{"medusa_num_heads": 5, "base_model_name_or_path": "x/vicuna"}')
    folder = finish(import_model(source, cache))
    standard = form.startswith("medusa")
    assert folder.name == ("vicuna heads" if standard else "mine")
    # What stands beside a file of another name may belong to something else.
    assert (folder / "config.json").exists() is standard
    (entry,) = installed(cache)
    assert (entry.kind, entry.source) == ("heads", "folder")
    assert checked(cache, entry.name).whole
    assert hub.heads_folder(entry.name, cache) == folder
    assert read_any(folder).num_heads == 2


def test_heads_without_configuration_are_imported(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "bare"
    source.mkdir()
    torch.save(heads_tensors(), source / "medusa_lm_head.pt")
    finish(import_model(source, cache))
    assert [(entry.name, entry.kind) for entry in installed(cache)] == [("bare", "heads")]
    report = checked(cache, "bare")
    assert (report.whole, report.files) == (True, 1)
    (cache / "bare" / "medusa_lm_head.pt").write_bytes(b"bent")
    assert not checked(cache, "bare").whole
    assert remove(cache, "bare") > 0


def test_files_that_are_no_heads_are_not_imported(source: Path, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no Medusa heads"):
        finish(import_model(source / "model.safetensors", cache))
    whole = {f"medusa_head.{name}": tensor for name, tensor in heads_tensors().items()}
    save_file({**whole, "model.norm.weight": torch.ones(8)}, tmp_path / "whole.safetensors")
    with pytest.raises(ModelNotFound, match="a whole model with its heads"):
        finish(import_model(tmp_path / "whole.safetensors", cache))
    (tmp_path / "heads.safetensors").touch()
    with pytest.raises(ModelNotFound, match="Name their folder"):
        finish(import_model(tmp_path / "heads.safetensors", cache))
    assert models(cache) == []


def test_what_cannot_be_imported(source: Path, cache: Path, tmp_path: Path) -> None:
    finish(import_model(source, cache))
    with pytest.raises(LibraryError, match="already"):
        finish(import_model(source, cache))
    with pytest.raises(LibraryError, match="cannot name a model"):
        finish(import_model(source, cache, "../Tiny"))
    with pytest.raises(ModelNotFound, match="neither a folder nor a file"):
        finish(import_model(tmp_path / "nothing", cache))
    with pytest.raises(ModelNotFound, match=r"neither a GGUF file nor one of published heads"):
        finish(import_model(source / "config.json", cache))
    with pytest.raises(ModelNotFound, match="holds no model"):
        finish(import_model(cache, tmp_path / "other"))
    assert sorted(path.name for path in cache.iterdir()) == ["Tiny"]


def test_an_import_that_is_stopped_leaves_nothing(source: Path, cache: Path) -> None:
    work = import_model(source, cache)
    next(work)
    next(work)
    assert list(cache.iterdir())
    work.close()
    assert list(cache.iterdir()) == []


def test_a_gguf_file_is_imported(tiny_gguf: Path, cache: Path) -> None:
    folder = finish(import_model(tiny_gguf, cache, "small"))
    assert checked(cache, "small").whole
    (entry,) = installed(cache)
    assert (entry.dtype, entry.source, entry.origin) == ("bf16", "gguf", str(tiny_gguf.resolve()))
    assert folder == cache / "small"


def test_a_gguf_import_that_is_stopped_leaves_nothing(tiny_gguf: Path, cache: Path) -> None:
    for make in (lambda: import_model(tiny_gguf, cache), lambda: gguf_folder(tiny_gguf, cache)):
        work = make()
        while not next(work).stage.startswith("Reading model.safetensors"):
            pass
        work.close()
        assert list(cache.iterdir()) == []


def test_a_gguf_file_opened_where_it_is_is_converted_once(tiny_gguf: Path, cache: Path) -> None:
    folder = finish(gguf_folder(tiny_gguf, cache))
    assert folder == cache / "tiny.F32"
    assert list(gguf_folder(tiny_gguf, cache)) == []
    os.utime(tiny_gguf, (1, 1))  # another file by that name
    other = finish(gguf_folder(tiny_gguf, cache))
    assert other != folder
    assert other.name.startswith("tiny.F32-")
    tiny_gguf.write_bytes(b"GGUF" + bytes(99))
    with pytest.raises(ModelUnsupported):
        finish(gguf_folder(tiny_gguf, cache))
