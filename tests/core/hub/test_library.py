"""What is in the folder of models, whether it is whole, and that removing never reaches outside."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from medusa_core.errors import LibraryError, ModelNotFound
from medusa_core.hub.bring_in import import_model
from medusa_core.hub.library import discard, find, folder_size, installed, licence_of, mark_used, remove
from medusa_core.hub.listing import is_library_name
from medusa_core.hub.manifest import FILE, read_manifest
from medusa_core.tiny import save_tiny_model
from tests.core.hub.getting import checked, finish, models


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
