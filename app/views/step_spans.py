"""Which characters of a reply each decoding step wrote, and how long it took.

Knows nothing of widgets, or of how the text is shown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.events import Step


@dataclass(frozen=True, slots=True)
class StepSpan:
    """Which characters one step wrote: [start, end), those of drafted tokens from `drafted` on."""

    start: int
    drafted: int
    end: int


def span_of(token_spans: Sequence[tuple[int, int]]) -> StepSpan | None:
    """The span of a step from its tokens': the first is the model's own, the others were drafted."""
    if not token_spans:
        return None
    end = token_spans[-1][1]
    return StepSpan(token_spans[0][0], token_spans[1][0] if len(token_spans) > 1 else end, end)


class StepSpans:
    """The spans of all steps of a reply, in order."""

    def __init__(self) -> None:
        self._spans: list[StepSpan | None] = []  # by step index
        self._starts: list[int] = []  # for bisection
        self._spent: list[tuple[float, int]] = [(0.0, 0)]  # seconds and tokens before each step, and after the last

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, index: int) -> StepSpan | None:
        """The span of a step; None where it wrote nothing, or is not there."""
        return self._spans[index] if 0 <= index < len(self._spans) else None

    def append(self, steps: Sequence[Step]) -> None:
        """Add what the next steps wrote."""
        for step in steps:
            span = span_of(step.spans)
            self._spans.append(span)
            self._starts.append(span.start if span else self._starts[-1] if self._starts else 0)
            seconds, tokens = self._spent[-1]
            self._spent.append((seconds + step.seconds, tokens + len(step.token_ids)))

    def spent(self, end: int) -> tuple[float, int]:
        """The seconds and the tokens of the steps that began before this character."""
        return self._spent[bisect_left(self._starts, end)]

    def drafted(self) -> list[tuple[int, int]]:
        """The spans of drafted tokens."""
        return [(span.drafted, span.end) for span in self._spans if span and span.drafted < span.end]

    def among(self, start: int, end: int) -> range:
        """The steps that may have written one of the characters [start, end)."""
        return range(max(0, bisect_left(self._starts, start) - 1), bisect_right(self._starts, end))

    def at(self, offset: int) -> int:
        """The step that wrote the character at `offset`, or -1."""
        index = bisect_right(self._starts, offset) - 1
        while index >= 0 and not ((span := self._spans[index]) and span.start <= offset < span.end):
            if span and span.end <= offset and span.start < span.end:
                return -1
            index -= 1  # steps that released no whole character share a start with the next one
        return index
