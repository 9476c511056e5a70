"""What is in the folder of models, whether it is whole, and that removing never reaches outside."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from medusa_core import hub
from medusa_core.errors import CheckpointError, LibraryError, ModelNotFound, ModelUnsupported
from medusa_core.heads.formats.read import read_any
from medusa_core.hub.bring_in import gguf_folder, import_model
from medusa_core.hub.check import CheckReport, check
from medusa_core.hub.library import discard, find, folder_size, installed, licence_of, mark_used, remove
from medusa_core.hub.listing import is_library_name
from medusa_core.hub.manifest import FILE, read_manifest
from medusa_core.tiny import save_tiny_model
from tests.core.hub.getting import models


def finish(work: Generator[Any, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as finished:
            return finished.value


@pytest.fixture
def source(tmp_path: Path, tiny_files: dict[str, bytes]) -> Path:
    """A model's folder somewhere, with things in it that nobody needs."""
    folder = tmp_path / "elsewhere" / "Tiny"
    for name, data in tiny_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "models"


def checked(cache: Path, name: str) -> CheckReport:
    report: CheckReport = finish(check(find(cache, name)))
    return report


def test_an_empty_library(cache: Path) -> None:
    assert installed(cache) == []
    with pytest.raises(ModelNotFound, match="There is nothing"):
        find(cache, "Tiny")


def test_an_imported_folder_is_described(source: Path, cache: Path) -> None:
    folder = finish(import_model(source, cache, "Maker/Tiny"))
    (entry,) = installed(cache)
    assert (entry.name, entry.folder, entry.kind) == ("Maker/Tiny", folder, "model")
    assert (entry.licence, entry.dtype, entry.source, entry.problem) == ("apache-2.0", "fp32", "folder", "")
    assert entry.size == sum(path.stat().st_size for path in folder.iterdir()) == folder_size(folder)
    assert entry.origin == str(source)
    assert entry.last_used is None
    assert {path.name for path in folder.iterdir()}.isdisjoint({"pytorch_model.bin", "onnx", "flax_model.msgpack"})
    assert (folder / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    assert find(cache, "Maker/Tiny") == entry


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


def test_using_a_model_is_remembered_but_only_in_the_library(source: Path, cache: Path) -> None:
    folder = finish(import_model(source, cache))
    before = datetime.now(UTC) - timedelta(minutes=1)
    mark_used(folder, cache)
    mark_used(source, cache)
    used = installed(cache)[0].last_used
    assert used is not None
    assert used > before
    assert sorted(path.name for path in source.iterdir() if path.name.startswith(".")) == []


def test_heads_are_told_from_models(cache: Path) -> None:
    for name, config in (
        ("ours", {"format": "medusa-heads"}),
        ("Maker/vllm", {"model_type": "medusa"}),
        ("Maker/old", {"medusa_num_heads": 2}),
    ):
        (cache / name).mkdir(parents=True)
        (cache / name / "config.json").write_text(json.dumps(config))
    (cache / "Maker" / "full").mkdir()
    (cache / "Maker" / "full" / "config.json").write_text('{"model_type": "llama", "medusa_num_heads": 5}')
    (cache / "Maker" / "full" / "pytorch_model.bin").touch()
    kinds = {entry.name: entry.kind for entry in installed(cache)}
    assert kinds == {"Maker/full": "model", "Maker/old": "heads", "Maker/vllm": "heads", "ours": "heads"}


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: mit\n---\nlicense: gpl", "mit"),
        ("---\ntags: [x]\nlicense: other\nlicense_name: llama3.2\n---\n", "llama3.2"),
        ("---\nlicense: 'apache-2.0'\n---\n", "apache-2.0"),
        ("---\nlicense: other\n---\n", "other"),
        ("---\ntags: [x]\n---\n", ""),
        ("# Card\nlicense: mit\n", ""),
    ],
)
def test_the_licence_is_read_from_the_card(tmp_path: Path, card: str, licence: str) -> None:
    (tmp_path / "README.md").write_text(card)
    assert licence_of(tmp_path) == licence
    assert licence_of(tmp_path / "nothing") == ""


def test_a_whole_model_is_found_whole(source: Path, cache: Path) -> None:
    finish(import_model(source, cache))
    report = checked(cache, "Tiny")
    manifest = read_manifest(cache / "Tiny")
    assert manifest is not None
    assert report.whole
    assert report.files == len(manifest.files) > 4
    assert report.tensors > 10


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("flip", "model.safetensors is not what arrived"),
        ("cut", "has 99 bytes and arrived with"),
        ("header", "model.safetensors is damaged"),
        ("missing", "tokenizer.json is missing"),
        ("tokenizer", "there is no tokenizer"),
        ("config", "config.json is not what arrived"),
        ("manifest", f"{FILE} cannot be read"),
        ("old manifest", f"{FILE} is broken"),
    ],
)
def test_damage_is_found_and_named(source: Path, cache: Path, damage: str, problem: str) -> None:
    folder = finish(import_model(source, cache))
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    if damage == "flip":
        weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "cut":
        weights.write_bytes(data[:99])
    elif damage == "header":
        (folder / FILE).unlink()
        weights.write_bytes(data[:-10])
    elif damage in ("missing", "tokenizer"):
        (folder / "tokenizer.json").unlink()
    elif damage == "config":
        config = folder / "config.json"
        config.write_text(config.read_text().replace("llama", "lliam"))
    elif damage == "manifest":
        (folder / FILE).write_text("{")
    else:
        (folder / FILE).write_text('{"version": 0}')
    report = checked(cache, "Tiny")
    assert not report.whole
    assert any(problem in said for said in report.problems), report.problems


def test_without_a_manifest_headers_and_index_are_read(cache: Path) -> None:
    folder = save_tiny_model(cache / "bare")
    report = checked(cache, "bare")
    assert (report.whole, report.files) == (True, 0)
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert checked(cache, "bare").problems == ("model-00001-of-00002.safetensors is missing",)
    (folder / "model.safetensors.index.json").write_text("[]")
    assert "cannot be read" in checked(cache, "bare").problems[0]


def test_removing_says_what_it_frees(source: Path, cache: Path) -> None:
    folder = finish(import_model(source, cache, "Maker/Tiny"))
    size = folder_size(folder)
    finish(import_model(source, cache, "Maker/Other"))
    assert remove(cache, "Maker/Tiny") == size
    assert [entry.name for entry in installed(cache)] == ["Maker/Other"]
    remove(cache, "Maker/Other")
    assert models(cache) == []
    with pytest.raises(ModelNotFound):
        remove(cache, "Maker/Other")


@pytest.mark.parametrize("name", ["../elsewhere/Tiny", "..", "/etc", "a/b/c", "", "Maker/..", ".Tiny.download", "a\\b"])
def test_removing_never_leads_outside(source: Path, cache: Path, name: str) -> None:
    finish(import_model(source, cache))
    with pytest.raises(LibraryError, match="no name of a model in the library"):
        remove(cache, name)
    assert (source / "config.json").is_file()
    assert (cache / "Tiny" / "config.json").is_file()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_are_removed_and_not_followed(source: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "linked").symlink_to(source)
    assert [entry.name for entry in installed(cache)] == ["linked"]
    assert remove(cache, "linked") == 0
    assert (source / "model.safetensors").is_file()
    (cache / "Maker").symlink_to(source.parent)
    assert installed(cache) == []
    with pytest.raises(LibraryError, match="is a link, and links are not followed"):
        remove(cache, "Maker/Tiny")
    folder = finish(import_model(source, cache, "Own"))
    (folder / "inner").symlink_to(source)
    remove(cache, "Own")
    assert (source / "model.safetensors").is_file()


def test_folders_that_are_no_models_are_left_alone(cache: Path) -> None:
    (cache / "notes").mkdir(parents=True)
    (cache / "notes" / "diary.txt").write_text("dear")
    with pytest.raises(LibraryError, match="left alone"):
        remove(cache, "notes")
    assert (cache / "notes" / "diary.txt").is_file()


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


def test_names_that_a_library_may_have() -> None:
    for name in ("Tiny", "Maker/Tiny", "Qwen2.5-0.5B", "my model"):
        assert is_library_name(name), name
    for name in ("", ".x", "a/.b", "a/b/c", "a..b", "/a", "a/", "a\\b", "a:b", "a\n"):
        assert not is_library_name(name), name


def test_discarding_a_download_leaves_the_model_alone(tmp_path: Path) -> None:
    model, stage = tmp_path / "Maker" / "Tiny", tmp_path / "Maker" / ".Tiny.download"
    for folder in (model, stage):
        folder.mkdir(parents=True)
        (folder / "model.safetensors.part").write_bytes(b"12345")
    assert discard(tmp_path, "Maker/Tiny") == 5
    assert model.is_dir()
    assert not stage.exists()
    assert discard(tmp_path, "Maker/Tiny") == 0
    with pytest.raises(LibraryError):
        discard(tmp_path, "../Tiny")
