"""A tiny model that ends its replies now and then, shared by the tests of training."""

from __future__ import annotations

import pytest

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import make_spec
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_model, tiny_tokenizer


@pytest.fixture(scope="session")
def backbone() -> LeanBackbone:
    model = tiny_model("llama", context=4096)  # the longest prompt has 1 500 bytes, one token each
    return LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))


@pytest.fixture(scope="session")
def text() -> ChatText:
    """One token in twenty ends a turn, so that replies of a random model differ in length."""
    return ChatText(tiny_tokenizer(), [END_ID, *range(5, 256, 20)])
