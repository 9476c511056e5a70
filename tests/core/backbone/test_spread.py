"""A model whose layers lie on several devices: through transformers' own pass, with the words of the whole model.

Here the second device is the disk, whose layers are moved as those of a second GPU are.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core.backbone import load as room
from medusa_core.backbone.cost import cost_key
from medusa_core.backbone.load import load_backbone
from medusa_core.backbone.stock import StockBackbone
from medusa_core.chat import open_folder
from medusa_core.config import DecodingConfig, GreedyAcceptance
from medusa_core.events import Finished
from medusa_core.tiny import save_tiny_model, save_untrained_heads
from medusa_core.tree import RankedTree, Tree

PLACES = {
    "model.embed_tokens": "cpu",
    "model.rotary_emb": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.norm": "disk",
    "lm_head": "cpu",  # heads share its weights, which must be in memory
}


def finish(work: Generator[Any, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as finished:
            return finished.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "tiny", seed=3)


@pytest.fixture
def spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        room, "_placed", lambda *_: {"device_map": dict(PLACES), "offload_folder": str(tmp_path / "offloaded")}
    )


@pytest.fixture
def heads(folder: Path, tmp_path: Path) -> Path:
    backbone, _, _ = finish(load_backbone(folder, "fp32", "cpu"))
    save_untrained_heads(tmp_path / "heads", backbone, RankedTree(Tree((0, 0, 0, 1)), (0, 0, 1, 0)))
    return tmp_path / "heads"


def rows(backbone: Any) -> torch.Tensor:
    """Logits of a tree after a prefix."""
    cache, ids = backbone.new_cache(), torch.arange(9)
    with torch.inference_mode():
        backbone.forward(ids[:5], torch.arange(5), None, cache)
        mask = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
        logits: torch.Tensor = backbone.logits(backbone.forward(ids[5:], torch.tensor([5, 6, 6, 7]), mask, cache))
    return logits


def test_it_computes_what_the_whole_model_does(folder: Path, spread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, _, _ = finish(load_backbone(folder, "fp32", "cpu"))
    assert isinstance(backbone, StockBackbone)
    assert backbone.spec.gpus == 2
    assert dict(cost_key(backbone, "fp32", "none"))["gpus"] == "2"
    monkeypatch.undo()
    whole, _, _ = finish(load_backbone(folder, "fp32", "cpu"))
    assert whole.spec.gpus == 1
    assert "gpus" not in cost_key(whole, "fp32", "none"), "tables that were measured before hold on"
    torch.testing.assert_close(rows(backbone), rows(whole), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("heads", "spread")  # in this order: the heads are made by the whole model
def test_it_answers_with_heads(folder: Path, heads: Path, tmp_path: Path) -> None:
    def answer(heads: Path | None) -> tuple[int, ...]:
        opening = open_folder(
            folder, heads, name="tiny", heads_name="h", dtype="fp32", device="cpu", costs=tmp_path / "costs"
        )
        chat = finish(opening)
        assert not chat.info.heads_problem
        config = DecodingConfig(acceptance=GreedyAcceptance(), max_new_tokens=10, drafter="medusa" if heads else "none")
        *_, last = chat.reply([{"role": "user", "content": "Hi"}], config)
        assert isinstance(last, Finished)
        return last.token_ids

    assert answer(heads) == answer(None)


def test_the_gpus_are_filled_as_far_as_they_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.fit, "spread_bytes", lambda: {0: 5, 1: 7})
    assert room._placed(torch.device("cuda"), 2) == {"device_map": "auto", "max_memory": {0: 5, 1: 7}}
    assert room._placed(torch.device("cuda"), 1) == {"device_map": {"": torch.device("cuda")}}
