"""Where words stand in texts, and which of the places comes first. Knows nothing of Qt, or of what the texts are.

Positions count as Qt does, where characters beyond U+FFFF count twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from app.views.lines import width_of

Span = tuple[int, int]  # [first, last)

# What is typed on a keyboard, and all that a text may have in its place.
_ALIKE = {" ": r"[^\S\n\u2029]", "'": "['\u2018\u2019]", '"': '["\u201c\u201d]', "-": "[-\u2010\u2011]"}


def pattern_of(words: str) -> re.Pattern[str] | None:
    """What to look for, as it was typed but for upper and lower case; None for nothing."""
    if not words.strip():
        return None
    return re.compile("".join(_ALIKE.get(character) or re.escape(character) for character in words), re.IGNORECASE)


def spans(pattern: re.Pattern[str], text: str) -> list[Span]:
    """Every place of the text, in order."""
    found = [match.span() for match in pattern.finditer(text)]
    if not found or width_of(text) == len(text):
        return found
    placed, done, position = [], 0, 0
    for first, last in found:
        position += width_of(text[done:first])
        width = width_of(text[first:last])
        placed.append((position, position + width))
        done, position = last, position + width
    return placed


def number_at(found: Sequence[Sequence[Span]], text: int, position: int) -> int:
    """How many places come before a position of that text."""
    return sum(len(spans) for spans in found[:text]) + bisect_left(found[text], (position, 0))


def nth(found: Sequence[Sequence[Span]], number: int) -> tuple[int, Span]:
    """The text and the span of that place; they are numbered through all texts."""
    for text, spans in enumerate(found):
        if number < len(spans):
            return text, spans[number]
        number -= len(spans)
    raise IndexError(f"there are {sum(map(len, found))} places, so none has the number {number}")
