"""What several tests share: the default model, converted once and kept in the checkout's ignored cache; tiny models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from medusa_core import hub
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import make_spec
from medusa_core.text import ChatText
from medusa_core.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="session")
def default_model_folder() -> Path:
    """The default model's folder. The first call converts it (half a minute); later runs find it in `.cache/models`."""
    models = Path(__file__).resolve().parents[2] / ".cache" / "models"
    conversion = hub.model_folder(hub.DEFAULT, models)
    while True:
        try:
            next(conversion)
        except StopIteration as finished:
            return Path(finished.value)


@pytest.fixture(scope="session")
def default_text(default_model_folder: Path) -> ChatText:
    """The default model's tokenizer and template."""
    return ChatText(AutoTokenizer.from_pretrained(default_model_folder), [])


@pytest.fixture(scope="session")
def tiny_backbone() -> Callable[..., LeanBackbone]:
    """Makes tiny random backbones: `tiny_backbone("qwen2", tied=True, context=64)`, each made once."""

    @cache
    def make(family: str = "llama", *, tied: bool = False, context: int = 256) -> LeanBackbone:
        model = tiny_model(family, tied=tied, context=context)
        return LeanBackbone(model, make_spec(model, tiny_tokenizer(), f"tiny {family}"), keep_model=True)

    return make
