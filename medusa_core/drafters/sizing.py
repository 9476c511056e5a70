"""How many draft nodes a step gets: a fixed number, or as many as pay on this machine for this step's guesses.

What a pass costs was measured (`backbone/cost.py`), and is corrected by what passes take now: processors grow hot and
are shared, and were so perhaps when it was measured. What goes by between two steps counts as well: where every step is
shown in a window, fewer and larger ones are faster. What a node adds is estimated when the tree grows. Most tokens a
second in the long run come from taking a node exactly when it adds more tokens than the time it takes would bring
otherwise, at the rate reached so far. Knows nothing of sources or tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from medusa_core.backbone.cost import CostTable

SIZES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # few, so that passes have few shapes
_NODE_SECONDS = 40e-6  # a node's share of what is plain Python in a step: growing, judging, telling
_DRAFT_SECONDS, _SHOWN_SECONDS = 1e-4, 5e-3  # more than that is believed by and by: of a draft, and between two steps
_LEAST_GAIN, _MOST_LEAST_GAIN = 0.002, 0.1
_WINDOW = 48  # steps that the rate is averaged over, more or less
_TRIAL = 24  # steps of drafting before it is judged
_FORGETTING, _JUMP = 1 / 48, 1.25  # of passes before one more is noted, and how far that may be from what they say
_TOGETHER = 0.05  # how much speaks for one factor of both parts of a pass; a pass that is noted counts as 1
_LEAST_SHARE = 0.1  # of the other part's factor
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


class _Correction:
    """What passes take now, in multiples of what was measured: `first` of one row's time, `further` of what others add.

    Two numbers for all sizes, so that what small trees take tells of large ones that nobody dares to try: least
    squares over the passes, the older the less they count. Where all have one size, both numbers are one.
    """

    def __init__(self) -> None:
        self.first = self.further = 1.0
        # Sums of squares and products of the two parts, and of parts and what came, as if some passes were as measured.
        self._squares, self._both, self._values = [5.0, 1.0], 1.0, [6.0, 2.0]

    def expected(self, first: float, further: float) -> float:
        """Of a pass whose parts were measured as `first` and `further`."""
        return self.first * first + self.further * further

    def note(self, first: float, further: float, passing: float) -> None:
        """A pass with these parts took so long."""
        told = first + further
        x, y = first / told, further / told
        # A pass that was held up, or the first one of a shape, must not count for many.
        usual = self.expected(x, y)
        came = min(max(passing / told, usual / _JUMP), usual * _JUMP)
        kept = 1 - _FORGETTING
        self._squares = [kept * self._squares[0] + x * x, kept * self._squares[1] + y * y]
        self._both = kept * self._both + x * y
        self._values = [kept * self._values[0] + x * came, kept * self._values[1] + y * came]
        a, b, c = self._squares[0] + _TOGETHER, self._both - _TOGETHER, self._squares[1] + _TOGETHER
        scale = a * c - b * b
        first_now = (self._values[0] * c - self._values[1] * b) / scale
        further_now = (self._values[1] * a - self._values[0] * b) / scale
        self.first = max(first_now, _LEAST_SHARE * further_now)
        self.further = max(further_now, _LEAST_SHARE * first_now)


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


class MeasuredSize:
    """As many as bring most tokens a second; none at all for a while where drafting does not pay."""

    def __init__(self, costs: CostTable) -> None:
        self._costs = costs
        self._overhead = costs.draft_seconds  # of drafting, beside the pass
        self._between = 0.0  # two steps, drafted or not
        self._plain = costs.seconds(1, 0)  # of a plain step, at the context of the last one
        self._tokens, self._seconds = 1.0, self._plain  # of a drafted step, averaged
        self._drafted = 0  # steps since the last rest
        self._resting = 0  # steps of rest left
        self._next_rest = _REST
        self._note = ""
        self._times: tuple[int, list[float]] = (-1, [])
        self._correction = _Correction()

    def plan(self, context: int) -> Plan:
        """Nothing while drafting rests, else as many as can be worth it."""
        if self._resting:
            return Plan((), self._note)
        seconds, rate = self._seconds_by_size(context), self.rate
        least: tuple[float, ...] = ()
        asked = _MOST_LEAST_GAIN
        # From the largest size down: nodes beyond a size that would not pay at the cheapest of the larger ones are not
        # looked for. The worst node of a size that pays may pay less than its share.
        for index in reversed(range(len(SIZES) - 1)):
            size, cheapest = SIZES[index], min(self._shares(index, seconds))
            asked = min(asked, max(0.5 * rate * cheapest, _LEAST_GAIN))
            least = (asked,) * (SIZES[index + 1] - size) + least
        return Plan(least)

    @staticmethod
    def _shares(index: int, seconds: Sequence[float]) -> list[float]:
        """What each further node costs with every size larger than that of `index`."""
        return [
            (more - seconds[index]) / (size - SIZES[index])
            for more, size in zip(seconds[index + 1 :], SIZES[index + 1 :], strict=True)
        ]

    def choose(self, gains: Sequence[float], context: int) -> int:
        """The size whose expected tokens exceed most what its time would bring at the rate reached so far."""
        expected = list(accumulate(gains, initial=1.0))
        seconds, rate = self._seconds_by_size(context), self.rate
        sizes = [index for index, size in enumerate(SIZES) if size < len(expected)]
        return SIZES[max(sizes, key=lambda index: expected[SIZES[index]] - rate * seconds[index])]

    def observe(self, draft_nodes: int, tokens: int, context: int, times: StepTimes) -> None:
        """Average the step in; at the end of a trial that did not pay, rest."""
        self._correct(draft_nodes, context, times.passing)
        self._between = _followed(self._between, times.between, _SHOWN_SECONDS)
        if self._resting:
            self._resting -= 1
            return
        self._overhead = _followed(self._overhead, times.drafting, _DRAFT_SECONDS)
        table = self._seconds_by_size(context)
        size = max(index for index, size in enumerate(SIZES) if size <= draft_nodes)
        self._drafted += 1
        weight = 1 / min(self._drafted, _WINDOW)
        self._tokens += weight * (tokens - self._tokens)
        self._seconds += weight * (table[size] + self._overhead + self._between - self._seconds)
        self._plain = table[0] + self._between
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
        self._drafted = 0

    def _told(self, context: int) -> list[float]:
        """What was measured of a pass with each size, drafting itself not counted: that is spent before."""
        step = context // 64
        if self._times[0] != step:
            self._times = (step, [self._costs.seconds(size + 1, context) + size * _NODE_SECONDS for size in SIZES])
        return self._times[1]

    def _seconds_by_size(self, context: int) -> list[float]:
        """The same as it is now."""
        told = self._told(context)
        return [self._correction.expected(told[0], seconds - told[0]) for seconds in told]

    def _correct(self, draft_nodes: int, context: int, passing: float) -> None:
        first = self._told(context)[0]
        told = self._costs.seconds(draft_nodes + 1, context) + draft_nodes * _NODE_SECONDS
        self._correction.note(first, max(told - first, 0.0), passing)


def _followed(average: float, seconds: float, usual: float) -> float:
    """The average moved on. One step that was held up, by whatever else the machine does, must not count for many."""
    return average + (min(seconds, 3 * average + usual) - average) / 16
