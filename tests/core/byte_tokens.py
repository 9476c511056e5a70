"""Text as tokens of one byte each, for the tests of texts and of prompts."""

from __future__ import annotations

from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_tokenizer

TINY = tiny_tokenizer()
BYTES = ChatText(TINY, [END_ID])  # one token a byte


def ids_of(text: str) -> list[int]:
    """Byte tokens of a text; slices of them are any bytes at all."""
    ids: list[int] = TINY.encode(text, add_special_tokens=False)
    return ids
