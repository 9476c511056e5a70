"""Published heads on a loaded model: another model's are refused with both sides, and what lies beside them is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core import hub
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.chat import open_folder
from medusa_core.errors import CheckpointError, CheckpointMismatch
from medusa_core.head_statistics import HeadStatistics, PathStatistics
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint
from medusa_core.heads.formats.load import check_model, open_heads, usual_tree
from medusa_core.heads.formats.read import read_published
from medusa_core.heads.notes import calibration_due, heads_note
from medusa_core.tiny import save_untrained_heads
from medusa_core.tree import RankedTree, Tree
from medusa_core.tree_search import paths_of

Written = Callable[..., Path]
TREE = RankedTree(Tree((0, 0, 1)), (0, 0, 0))


def statistics(heads: int, precision: str = "fp32") -> HeadStatistics:
    part = PathStatistics(10, (10,) * heads, ((5, 1),) * heads, (((0,), 5),))
    return HeadStatistics(part, part, (1.0,) * heads, precision)


@pytest.fixture
def folder(made: Any, written: Written) -> Path:
    return written("v2", made().published(own=False), base_model_name_or_path="lmsys/vicuna-7b-v1.3")


def test_without_statistics_a_usual_tree_serves(folder: Path, backbone: LeanBackbone) -> None:
    loaded = open_heads(folder, backbone)
    assert loaded.source == "TGI/LoRAX v2"
    assert loaded.statistics is None
    assert loaded.tree == usual_tree(loaded.heads.shape)
    assert len(loaded.tree.tree) == 65
    assert loaded.tree.depth == 3
    assert paths_of(loaded.tree)[:3] == [(0,), (1,), (0, 0)]
    assert loaded.base == BaseModel(backbone.spec.name, "llama", backbone.spec.fingerprint)
    assert not any(parameter.requires_grad for parameter in loaded.heads.parameters())
    few = replace(loaded.heads.shape, draft_vocab_size=2)
    assert max(usual_tree(few).ranks) == 1


@pytest.mark.parametrize("by_file", [False, True])
def test_what_calibration_left_beside_them_is_used(folder: Path, backbone: LeanBackbone, by_file: bool) -> None:
    TREE.save(folder / "tree.json")
    statistics(3).save(folder / "statistics.json")
    loaded = open_heads(folder / "medusa_lm_head.safetensors" if by_file else folder, backbone)
    assert (loaded.tree, loaded.statistics) == (TREE, statistics(3))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("statistics.json", statistics(2).to_json(), "is about 2 heads; there are 3"),
        ("statistics.json", "{", "What lies beside the heads in"),
        ("tree.json", "{", "What lies beside the heads in"),
        ("tree.json", RankedTree(Tree((0, 0)), (0, 500)).to_json(), "asks for the guess of rank 500"),
    ],
)
def test_what_is_broken_beside_them_is_said(
    folder: Path, backbone: LeanBackbone, name: str, content: str, said: str
) -> None:
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=said):
        open_heads(folder, backbone)


def test_our_own_format_by_folder_and_by_file(tmp_path: Path, backbone: LeanBackbone) -> None:
    own = save_untrained_heads(tmp_path / "own", backbone, TREE)
    for path in (own, own / "heads.safetensors"):
        assert open_heads(path, backbone).source == ""
        assert hub.heads_folder(str(path)) == own


def test_another_models_heads_are_refused_with_both_sides(
    made: Any, written: Written, vllm_config: Callable[..., dict[str, Any]], folder: Path, backbone: LeanBackbone
) -> None:
    spec = backbone.spec
    with pytest.raises(CheckpointMismatch) as caught:
        check_model(read_published(folder), replace(spec, hidden_size=128))
    assert "another model lmsys/vicuna-7b-v1.3: hidden size 64; the model is tiny-llama: hidden size 128" in str(
        caught.value
    )
    own = read_published(written("v01", made().published()))
    with pytest.raises(CheckpointMismatch, match=r"vocabulary 264; the model is tiny-llama: .*vocabulary 300"):
        check_model(own, replace(spec, vocab_size=300))
    told = {"name": "tiny", "family": "llama", "vocab_size": 264, "fingerprint": "0123456789abcdef"}
    hashed = read_published(written("hashed", made().published(own=False), base_model=told))
    with pytest.raises(CheckpointMismatch, match=rf"fingerprint 0123456789abcdef; .*{spec.fingerprint}"):
        check_model(hashed, spec)
    check_model(hashed, replace(spec, fingerprint="0123456789abcdef"))
    whole = {"model_type": "mistral", "num_hidden_layers": 32, "vocab_size": 264, "hidden_size": 64}
    full = read_published(written("full", made().published("medusa_head."), "model.safetensors", **whole))
    with pytest.raises(CheckpointMismatch, match=r"family mistral, layers 32; .*family llama, layers 2"):
        check_model(full, spec)
    tokens = made(rows=2).vllm() | {"token_map": torch.tensor([3, 700])}
    wide = read_published(written("wide", tokens, "model.safetensors", **vllm_config(vocab_size=None)))
    with pytest.raises(CheckpointMismatch, match="and guess token 700"):
        check_model(wide, spec)


def test_heads_in_use_say_what_to_know_of_them(backbone: LeanBackbone, folder: Path) -> None:
    published = open_heads(folder, backbone)
    assert heads_note(published, "fp32") == (
        "The heads were read from the format of TGI/LoRAX v2. They were never measured on held-out replies: a usual "
        "tree is used until they are calibrated."
    )
    measured = HeadsCheckpoint(published.heads, TREE, published.base, statistics=statistics(3, "bf16"))
    assert heads_note(measured, "bf16 (no int8: numba is not installed)") == ""
    assert "were measured in bf16 and the model runs in int8: they work" in heads_note(measured, "int8")
    assert calibration_due(measured, "int8")
    assert not calibration_due(measured, "bf16 (no int8: numba is not installed)")
    assert heads_note(replace(measured, statistics=None), "int8") == (
        "The heads were never measured on held-out replies: their tree stays as it came until they are calibrated."
    )


def test_a_chat_takes_them_and_says_so(folder: Path, model: Path) -> None:
    loading = open_folder(model, folder, name="tiny", heads_name="v2", dtype="bf16", device="cpu")
    while True:
        try:
            next(loading)
        except StopIteration as finished:
            chat = finished.value
            break
    assert (chat.info.num_heads, chat.info.heads_name, chat.info.heads_problem) == (3, "v2", "")
    assert "a usual tree is used" in chat.info.heads_note
    assert chat.checkpoint.heads.w1.dtype == torch.bfloat16
