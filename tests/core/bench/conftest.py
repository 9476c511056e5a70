"""A tiny chat with untrained heads and a small tree, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.chat import Chat, open_folder
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, save_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.tiny import save_tiny_model
from medusa_core.tree import RankedTree, Tree

TREE = RankedTree(Tree((0, 0, 0, 1, 0, 1)), (0, 0, 1, 0, 2, 1))


def opened(folder: Path, heads: Path | None) -> Chat:
    loading = open_folder(folder, heads, name="Tiny", heads_name="own", dtype="fp32", device="cpu")
    while True:
        try:
            next(loading)
        except StopIteration as finished:
            chat: Chat = finished.value
            return chat


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("bench") / "tiny", tied=True, seed=5)


@pytest.fixture(scope="session")
def tiny_heads(tiny_folder: Path) -> Path:
    backbone = opened(tiny_folder, None).backbone
    spec = backbone.spec
    shape = HeadsShape(
        num_heads=2,
        num_layers=1,
        hidden_size=spec.hidden_size,
        vocab_size=spec.vocab_size,
        draft_vocab_size=spec.vocab_size,
        shared_output=True,
    )
    base = BaseModel(spec.name, spec.family, spec.fingerprint)
    heads = tiny_folder.parent / "heads"
    save_heads(heads, HeadsCheckpoint(MedusaHeads(shape, backbone.output_weight), TREE, base))
    return heads


@pytest.fixture(scope="session")
def tiny_chat(tiny_folder: Path, tiny_heads: Path) -> Chat:
    return opened(tiny_folder, tiny_heads)
