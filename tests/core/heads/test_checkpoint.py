"""Heads on disk: what was saved comes back, and every kind of damage is said."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.errors import CheckpointError, CheckpointMismatch, DiskFull
from medusa_core.heads import checkpoint as room
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, load_heads, save_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads
from medusa_core.tree import RankedTree, Tree

TREE = RankedTree(Tree((0, 0, 1, 0)), (0, 0, 0, 1))
TOKEN_MAP = torch.tensor([5, 0, 263, 17, 40, 41])


def made(
    backbone: LeanBackbone, *, shared: bool = True, one: bool = False, token_map: torch.Tensor | None = TOKEN_MAP
) -> HeadsCheckpoint:
    spec = backbone.spec
    shape = HeadsShape(
        num_heads=2,
        num_layers=1,
        hidden_size=spec.hidden_size,
        vocab_size=spec.vocab_size,
        draft_vocab_size=spec.vocab_size if token_map is None else len(token_map),
        shared_output=shared,
        one_output=one,
    )
    torch.manual_seed(1)
    heads = MedusaHeads(shape, backbone.output_weight, token_map)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_()
    return HeadsCheckpoint(heads, TREE, BaseModel(spec.name, spec.family, spec.fingerprint), {"epochs": 3})


def test_heads_that_see_the_root_come_back_as_such(tmp_path: Path, backbone: LeanBackbone) -> None:
    plain = made(backbone)
    heads = RootedHeads(plain.heads.shape, backbone.output_weight, backbone.embedding_weight, TOKEN_MAP)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_()
        heads.root_scale.fill_(12.5)
    save_heads(tmp_path / "rooted", HeadsCheckpoint(heads, TREE, plain.base), torch.float32)
    loaded = load_heads(tmp_path / "rooted", backbone).heads
    assert type(loaded) is RootedHeads
    states, roots = torch.randn(4, backbone.spec.hidden_size), torch.tensor([1, 2, 200, 1])
    assert torch.equal(loaded(states, roots), heads(states, roots))
    edit_config(tmp_path / "rooted", kind="medusa")
    with pytest.raises(CheckpointError, match=r"unexpected root_scale.*unexpected w_root"):
        load_heads(tmp_path / "rooted", backbone)


@pytest.fixture
def backbone(tiny_backbone: Callable[..., LeanBackbone]) -> LeanBackbone:
    return tiny_backbone()


@pytest.fixture
def folder(tmp_path: Path, backbone: LeanBackbone) -> Path:
    save_heads(tmp_path / "heads", made(backbone), torch.float32)
    return tmp_path / "heads"


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "heads.safetensors")
    change(tensors)
    save_file(tensors, folder / "heads.safetensors")


@pytest.mark.parametrize(("shared", "one"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("token_map", [None, TOKEN_MAP])
def test_what_was_saved_comes_back(
    tmp_path: Path, backbone: LeanBackbone, shared: bool, one: bool, token_map: torch.Tensor | None
) -> None:
    saved = made(backbone, shared=shared, one=one, token_map=token_map)
    save_heads(tmp_path / "heads", saved, torch.float32)
    loaded = load_heads(tmp_path / "heads", backbone)
    states = torch.randn(3, backbone.spec.hidden_size)
    assert torch.equal(loaded.heads(states), saved.heads(states))
    assert loaded.heads.shape == saved.heads.shape
    assert (loaded.tree, loaded.base, loaded.training) == (TREE, saved.base, {"epochs": 3})
    assert torch.equal(loaded.heads.token_ids(torch.arange(6)), saved.heads.token_ids(torch.arange(6)))
    assert not any(parameter.requires_grad for parameter in loaded.heads.parameters())


def test_shared_output_weights_are_not_stored(folder: Path) -> None:
    assert sorted(load_file(folder / "heads.safetensors")) == ["b1", "token_map", "w1"]


def test_heads_of_before_there_was_one_output_for_all(folder: Path, backbone: LeanBackbone) -> None:
    edit_config(folder, one_output=...)
    assert load_heads(folder, backbone).heads.shape.one_output is False


def test_heads_are_stored_in_16_bit_unless_said_otherwise(tmp_path: Path, backbone: LeanBackbone) -> None:
    save_heads(tmp_path / "heads", made(backbone))
    stored = load_file(tmp_path / "heads" / "heads.safetensors")
    assert (stored["w1"].dtype, stored["token_map"].dtype) == (torch.bfloat16, torch.int32)
    loaded = load_heads(tmp_path / "heads", backbone)
    assert loaded.heads.w1.dtype == torch.float32  # the backbone's


@pytest.mark.parametrize("name", ["config.json", "heads.safetensors", "tree.json"])
def test_a_missing_file_is_named(folder: Path, backbone: LeanBackbone, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load_heads(folder, backbone)


@pytest.mark.parametrize("name", ["config.json", "heads.safetensors", "tree.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[1, 2]", None])
def test_a_damaged_file_is_named(folder: Path, backbone: LeanBackbone, name: str, content: bytes | None) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(CheckpointError, match=name):
        load_heads(folder, backbone)


def test_missing_unexpected_and_misshapen_tensors_are_all_listed(folder: Path, backbone: LeanBackbone) -> None:
    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["b1"]
        tensors["w9"] = torch.zeros(2)
        tensors["w1"] = tensors["w1"][:, :, :, :-1].contiguous()

    edit_weights(folder, damage)
    with pytest.raises(CheckpointError) as caught:
        load_heads(folder, backbone)
    for part in ("missing b1 (1, 2, 64)", "unexpected w9 (2,)", "w1 is (1, 2, 64, 63) instead of (1, 2, 64, 64)"):
        assert part in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(folder: Path, backbone: LeanBackbone, value: float) -> None:
    edit_weights(folder, lambda tensors: tensors["w1"].view(-1)[7:8].fill_(value))
    with pytest.raises(CheckpointError, match="not finite"):
        load_heads(folder, backbone)


@pytest.mark.parametrize(
    ("token_map", "message"),
    [
        ([5, 0, 264, 17, 40, 41], "outside 0 to 263"),
        ([5, 0, -1, 17, 40, 41], "outside 0 to 263"),
        ([5, 0, 17, 17, 40, 41], "names a token twice"),
        ([5, 0, 17], r"token_map has shape \(3,\); the draft vocabulary has 6"),
        ([], "outside 0 to 263"),
    ],
)
def test_a_wrong_draft_vocabulary_is_refused(
    folder: Path, backbone: LeanBackbone, token_map: list[int], message: str
) -> None:
    edit_weights(folder, lambda tensors: tensors.update(token_map=torch.tensor(token_map, dtype=torch.int32)))
    with pytest.raises(CheckpointError, match=message):
        load_heads(folder, backbone)


def test_a_lost_draft_vocabulary_is_refused(folder: Path, backbone: LeanBackbone) -> None:
    edit_weights(folder, lambda tensors: tensors.__delitem__("token_map"))
    with pytest.raises(CheckpointError, match="needs a token_map"):
        load_heads(folder, backbone)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2; this program reads .*version 1.* A newer program"),
        ({"kind": "hydra"}, "kind 'hydra'"),
        ({"format": "other"}, "not a heads file"),
        ({"num_heads": ...}, "num_heads"),
        ({"num_heads": 0}, "num_heads is 0"),
        ({"num_heads": "2"}, "num_heads is '2'; it must be of type int"),
        ({"num_heads": 10**9}, "instead of"),
        ({"shared_output": "false"}, "shared_output is 'false'; it must be of type bool"),
        ({"shared_output": False}, "missing w2"),
        ({"one_output": 1}, "one_output is 1; it must be of type bool"),
        ({"one_output": True}, "not both"),
        ({"shared_output": False, "one_output": True}, r"missing w2 \(1, 6, 64\)"),
        ({"base_model": None}, "incomplete or wrong"),
        ({"base_model": {"name": "x"}}, "incomplete or wrong"),
    ],
)
def test_a_wrong_configuration_is_refused(
    folder: Path, backbone: LeanBackbone, change: dict[str, Any], message: str
) -> None:
    edit_config(folder, **change)
    with pytest.raises(CheckpointError, match=message):
        load_heads(folder, backbone)


def test_another_models_heads_name_both_sides(
    folder: Path, backbone: LeanBackbone, tiny_backbone: Callable[..., LeanBackbone]
) -> None:
    other = tiny_backbone("qwen2")
    with pytest.raises(CheckpointMismatch) as caught:
        load_heads(folder, other)
    for part in ("tiny llama", "tiny qwen2", backbone.spec.fingerprint, other.spec.fingerprint):
        assert part in str(caught.value)


def test_the_same_model_in_another_precision_is_the_same_model(folder: Path, backbone: LeanBackbone) -> None:
    loaded = load_heads(folder, backbone)
    assert loaded.base.fingerprint == backbone.spec.fingerprint


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"parents": [0, 2, 1], "ranks": [0, 0, 0]}, "node 1 has parent 2"),
        ({"parents": [0, 0], "ranks": [0]}, "2 nodes but 1 ranks"),
        ({"parents": [0, 0], "ranks": [0, 6]}, "guess of rank 6; these heads choose among 6 tokens"),
        ({"parents": [0, 0], "ranks": [0, 0], "version": 7}, "version 7"),
    ],
)
def test_a_wrong_tree_is_refused(folder: Path, backbone: LeanBackbone, tree: dict[str, Any], message: str) -> None:
    (folder / "tree.json").write_text(json.dumps({"format": "medusa-tree", "version": 1} | tree))
    with pytest.raises(CheckpointError, match=message):
        load_heads(folder, backbone)


class Killed(BaseException):
    """The process ends here."""


def die(*arguments: object, **options: object) -> None:
    raise Killed


@pytest.mark.parametrize("moment", ["weights", "tree", "first rename", "second rename"])
def test_a_killed_save_leaves_the_old_heads_usable(
    folder: Path, backbone: LeanBackbone, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    renames: list[Path] = []

    def replace_until(source: Path, target: Path) -> None:
        renames.append(source)
        if len(renames) == (1 if moment == "first rename" else 2):
            raise Killed
        shutil.move(source, target)

    with monkeypatch.context() as patch:
        if moment == "weights":
            patch.setattr(room, "save_file", die)
        elif moment == "tree":
            patch.setattr(RankedTree, "save", die)
        else:
            patch.setattr(os, "replace", replace_until)
        with pytest.raises(Killed):
            save_heads(folder, made(backbone, token_map=None), torch.float32)
    assert load_heads(folder, backbone).heads.shape.draft_vocab_size == len(TOKEN_MAP)
    save_heads(folder, made(backbone, token_map=None), torch.float32)
    assert load_heads(folder, backbone).heads.shape.draft_vocab_size == backbone.spec.vocab_size
    assert [path.name for path in folder.parent.iterdir()] == ["heads"]


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("where", "name", "calls_before", "error"),
    [
        (room, "save_file", 0, SafetensorError("I/O error: No space left on device (os error 28)")),
        (RankedTree, "save", 0, FULL),
        (os, "fsync", 0, FULL),
        (os, "fsync", 2, FULL),
        (os, "replace", 0, FULL),
        (os, "replace", 1, FULL),
    ],
)
def test_a_full_disk_is_said_and_the_old_heads_stay(
    folder: Path,
    backbone: LeanBackbone,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    calls_before: int,
    error: Exception,
) -> None:
    real, calls = getattr(where, name), []

    def failing(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == calls_before + 1:
            raise error
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, failing)
        with pytest.raises(DiskFull, match=f"disk that holds {folder} is full"):
            save_heads(folder, made(backbone, token_map=None), torch.float32)
    assert load_heads(folder, backbone).heads.shape.draft_vocab_size == len(TOKEN_MAP)
    assert [path.name for path in folder.parent.iterdir()] == ["heads"]


def test_every_file_is_on_the_disk_before_the_folder_gets_its_name(
    tmp_path: Path, backbone: LeanBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (order.append("fsync"), fsync(number))[1])
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("rename"), replace(*paths))[1])
    save_heads(tmp_path / "heads", made(backbone))
    assert order == ["fsync"] * 3 + ["rename"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, backbone: LeanBackbone) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written to"):
        save_heads(tmp_path / "file" / "heads", made(backbone))


def test_the_working_folder_itself_can_hold_heads(
    tmp_path: Path, backbone: LeanBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    save_heads(Path(), made(backbone))
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [
        "config.json",
        "heads.safetensors",
        "tree.json",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
