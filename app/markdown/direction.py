"""Which way a piece of text runs: the rule of its first strong character. Knows nothing of blocks or widgets."""

from __future__ import annotations

from unicodedata import bidirectional

_OPENING, _CLOSING = ("LRI", "RLI", "FSI"), "PDI"


def is_right_to_left(text: str) -> bool | None:
    """Whether the text runs from right to left; None where no character says so (digits, signs).

    Unicode Standard Annex 9, rules P2 and P3: what stands in isolates says nothing. Code is always left to right: do
    not ask for it.
    """
    isolates = 0
    for character in text:
        kind = bidirectional(character)
        if kind in _OPENING:
            isolates += 1
        elif kind == _CLOSING:
            isolates = max(0, isolates - 1)
        elif not isolates and kind in ("L", "R", "AL"):
            return kind != "L"
    return None
