"""How many draft nodes a step gets: a fixed number, or as many as pay on this machine for this step's guesses.

What a pass takes is known from passes (`passing.py`). What goes by between two steps counts as well: where every
step is shown in a window, fewer and larger ones are faster. What a node adds is estimated when the tree grows. Most
tokens a second in the long run come from taking a node exactly when it adds more tokens than the time it takes would
bring otherwise, at the rate reached so far. Knows nothing of sources or tokens.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from medusa_core.backbone.cost import CostTable
from medusa_core.drafters.passing import SAME_CONTEXT, PassTimes

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64)  # few, so that passes have few shapes
_DRAFT_SECONDS, _SHOWN_SECONDS = 1e-4, 5e-3  # more than that is believed by and by: of a draft, and between two steps
_LEAST_GAIN, _MOST_LEAST_GAIN = 0.002, 0.1
_FORESEEN = 8  # steps that are foreseen at once, after the trial
_WINDOW = 48  # steps that the rate is averaged over, more or less
_TRIAL = 24  # steps of drafting before it is judged
_HELD_UP = 2.0  # times what a pass is expected to take, at most, count
_REST, _LONGEST_REST = 32, 512  # steps without drafting after a trial that failed; twice as many after the next


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step may do: as many draft nodes as `least` has numbers, the n-th where it adds as many tokens."""

    least: tuple[float, ...]  # ascending
    note: str = ""  # why nothing is drafted


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of one step."""

    drafting: float  # before the pass, and learning from it
    passing: float  # the pass with all that belongs to it
    between: float = 0.0  # since the step before, for whoever is told of it; 0 at a reply's first


class Sizing(Protocol):
    """Decides the number of draft nodes."""

    def plan(self, context: int) -> Plan:
        """Before anything is guessed; `context` rows are cached."""
        ...

    def choose(self, gains: Sequence[float], context: int) -> int:
        """How many of these nodes, whose gains descend."""
        ...

    def observe(self, draft_nodes: int, tokens: int, context: int, times: StepTimes) -> None:
        """The step had so many draft nodes and brought so many tokens."""
        ...


class FixedSize:
    """Always so many, as far as there are guesses: passes keep one shape."""

    def __init__(self, draft_nodes: int) -> None:
        self._plan = Plan((0.0,) * draft_nodes)

    def plan(self, context: int) -> Plan:
        """The number."""
        return self._plan

    def choose(self, gains: Sequence[float], context: int) -> int:
        """All of them."""
        return len(gains)

    def observe(self, draft_nodes: int, tokens: int, context: int, times: StepTimes) -> None:
        """Nothing to learn."""


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """What is worked out for some steps at once: it takes as long as growing a tree, and hardly changes."""

    place: int  # in the context, of the steps that it holds for
    seconds: list[float]  # of a pass, by size
    plan: Plan


class MeasuredSize:
    """As many as bring most tokens a second; none at all for a while where drafting does not pay."""

    def __init__(self, costs: CostTable) -> None:
        self._overhead = costs.draft_seconds  # of drafting, beside the pass
        self._between = 0.0  # two steps, drafted or not
        self._plain = costs.seconds(1, 0)  # of a plain step, at the context of the last one
        self._tokens, self._seconds = 1.0, self._plain  # of a drafted step, averaged
        self._drafted = 0  # steps since the last rest
        self._resting = 0  # steps of rest left
        self._next_rest = _REST
        self._note = ""
        self._times = PassTimes(costs, SIZES)
        self._foreseen: _Foreseen | None = None

    def plan(self, context: int) -> Plan:
        """Nothing while drafting rests, else as many as can be worth it."""
        return Plan((), self._note) if self._resting else self._now(context).plan

    def choose(self, gains: Sequence[float], context: int) -> int:
        """The size whose expected tokens exceed most what its time would bring at the rate reached so far."""
        seconds, rate = self._now(context).seconds, self.rate
        expected, chosen, most = list(accumulate(gains, initial=1.0)), 0, -math.inf
        for size, taken in zip(SIZES, seconds, strict=True):
            if size >= len(expected):
                break
            if (worth := expected[size] - rate * taken) > most:
                chosen, most = size, worth
        return chosen

    def observe(self, draft_nodes: int, tokens: int, context: int, times: StepTimes) -> None:
        """Average the step in; at the end of a trial that did not pay, rest."""
        index = bisect_right(SIZES, draft_nodes) - 1  # of the size, or where it was another, the next smaller
        self._times.note(index, context, times.passing)
        self._between = _followed(self._between, times.between, _SHOWN_SECONDS)
        if self._resting:
            self._resting -= 1
            return
        self._overhead = _followed(self._overhead, times.drafting, _DRAFT_SECONDS)
        seconds = self._now(context).seconds
        self._drafted += 1
        weight = 1 / min(self._drafted, _WINDOW)
        self._tokens += weight * (tokens - self._tokens)
        passing = min(times.passing, _HELD_UP * seconds[index])
        self._seconds += weight * (passing + self._overhead + self._between - self._seconds)
        self._plain = seconds[0] + self._between
        if self._drafted % _FORESEEN == 0 or self._drafted < _TRIAL:
            self._foreseen = None
        if self._drafted >= _TRIAL and self._tokens * self._plain < self._seconds:
            self._rest()
        elif self._drafted >= 2 * _TRIAL:
            self._next_rest = _REST

    @property
    def rate(self) -> float:
        """Tokens a second that a step of average size brings: drafted, or plain where that is more."""
        return max(self._tokens / self._seconds, 1 / self._plain)

    def _rest(self) -> None:
        self._note = (
            f"Drafting does not pay here at present: about {self._tokens / self._seconds:.1f} tokens/s with it, "
            f"{1 / self._plain:.1f} without. It is tried again every so often."
        )
        self._resting, self._next_rest = self._next_rest, min(2 * self._next_rest, _LONGEST_REST)
        self._drafted, self._foreseen = 0, None

    def _now(self, context: int) -> _Foreseen:
        place = context // SAME_CONTEXT
        if self._foreseen is None or self._foreseen.place != place:
            seconds = self._times.now(context)
            self._foreseen = _Foreseen(place, seconds, Plan(_least(seconds, self.rate)))
        return self._foreseen


def _least(seconds: Sequence[float], rate: float) -> tuple[float, ...]:
    """What each further node has to add, for passes that take so long by size; each costs no less than the one before.

    The worst node of a size that pays may pay less than its share.
    """
    least: tuple[float, ...] = ()
    asked = _LEAST_GAIN
    for (size, taken), (larger, more) in pairwise(zip(SIZES, seconds, strict=True)):
        share = (more - taken) / (larger - size)
        asked = max(asked, min(0.5 * rate * share, _MOST_LEAST_GAIN))  # equal shares differ by their rounding
        least += (asked,) * (larger - size)
    return least


def _followed(average: float, seconds: float, usual: float) -> float:
    """The average moved on. One step that was held up, by whatever else the machine does, must not count for many."""
    return average + (min(seconds, 3 * average + usual) - average) / 16
