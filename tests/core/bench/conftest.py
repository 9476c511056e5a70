"""A tiny chat with untrained heads and a small tree, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.chat import Chat, open_folder
from medusa_core.tiny import save_tiny_model, save_untrained_heads
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
    return save_untrained_heads(tiny_folder.parent / "heads", opened(tiny_folder, None).backbone, TREE)


@pytest.fixture(scope="session")
def tiny_chat(tiny_folder: Path, tiny_heads: Path) -> Chat:
    return opened(tiny_folder, tiny_heads)
