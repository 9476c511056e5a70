"""Where a model that thinks aloud thinks, and where it answers, told from the text of its reply alone.

Knows nothing of models, of how chat templates are rendered, or of how either part is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TAGS = ("think", "thinking", "thought", "reasoning")  # what models write in pointed brackets, by training

_OPENINGS = {name: re.compile(rf"\s*<({name})>") for name in TAGS}
_OPENING = re.compile(rf"\s*<({'|'.join(TAGS)})>")


@dataclass(frozen=True, slots=True)
class Parts:
    """A reply's parts as offsets into its text: [start, end) is thought, and the answer goes from `answer` to the end.

    Between them stand the tags. Without thinking, all is answer: 0, 0, 0.
    """

    start: int
    end: int
    answer: int
    is_closed: bool  # the thinking has ended, or there is none; else there is no answer yet
    settled: int  # the text up to here stays what it is, whatever follows: beyond may stand the first half of a tag

    @property
    def has_thinking(self) -> bool:
        """Whether the reply thinks; it may be about nothing."""
        return self.answer > 0 or not self.is_closed


def split(text: str, opened: str = "") -> Parts:
    """The parts of a reply as far as it is written; an unclosed tag opens thinking up to the end.

    Only a tag that the reply begins with counts, and the first that closes it. `opened`: the tag that the prompt ended
    with, so that the reply begins inside it; a model may write the same tag once more.
    """
    found = _OPENINGS.get(opened, _OPENING).match(text)
    name = found[1] if found else opened
    undecided = found is None and _may_open(text, (opened,) if opened else TAGS)
    if not name:
        return Parts(0, 0, 0, True, 0 if undecided else len(text))
    start, closing = found.end() if found else 0, f"</{name}>"
    end = text.find(closing, start)
    if end >= 0:
        return Parts(start, end, end + len(closing), True, len(text))
    settled = 0 if undecided else len(text) - _begun(text, start, closing)
    return Parts(start, len(text), len(text), False, settled)


def opened_by(prompt: str) -> str:
    """The tag of thinking that a prompt ends with, white space aside; "" where it ends with none."""
    ending = prompt[-64:].rstrip()
    return next((name for name in TAGS if ending.endswith(f"<{name}>")), "")


def answer_of(text: str, opened: str = "") -> str:
    """The reply without its thinking: what a model is told of its earlier replies, as it was trained to be."""
    parts = split(text, opened)
    return text[parts.answer :].lstrip("\r\n") if parts.has_thinking else text


def _may_open(text: str, names: tuple[str, ...]) -> bool:
    """Whether the text may yet turn out to begin with one of these tags."""
    begun = text.lstrip()
    return any(f"<{name}>".startswith(begun) for name in names)


def _begun(text: str, start: int, tag: str) -> int:
    """How many characters at the text's end may be the beginning of a tag."""
    longest = min(len(tag) - 1, len(text) - start)
    return next((size for size in range(longest, 0, -1) if text.endswith(tag[:size])), 0)
