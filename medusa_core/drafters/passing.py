"""What passes of every size take now: as they were measured once, corrected by those that have gone by since.

Processors grow hot and are shared, and were so perhaps when the times were measured (`backbone/cost.py`).
Knows nothing of trees, or of who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import mul

from medusa_core.backbone.cost import CostTable

SAME_CONTEXT = 64  # tokens that change little
_NODE_SECONDS = 20e-6  # a node's share of what a step does besides: growing, judging, telling
_FORGETTING, _JUMP = 1 / 48, 1.25  # of passes before one more is noted, and how far that may be from what they say
_TOGETHER = 0.05  # how much speaks for one factor of both parts of a pass; a pass that is noted counts as 1
_LEAST_SHARE = 0.1  # of the other part's factor
_UNKNOWN = 2.0  # passes that say nothing of a size

_Point = tuple[int, float]  # a size and its seconds


class PassTimes:
    """Seconds of a pass with each of some sizes, in draft nodes; drafting itself is not counted."""

    def __init__(self, costs: CostTable, sizes: Sequence[int]) -> None:
        """`sizes` ascend, from 0."""
        self._costs, self._sizes = costs, tuple(sizes)
        self._told: tuple[int, list[float]] = (-1, [])
        self._correction, self._leftover = _Correction(), _Leftover(len(sizes))

    def now(self, context: int) -> list[float]:
        """By size, ascending, and each further node takes no less than the one before."""
        told = self._measured(context)
        expected = [self._correction.expected(told[0], each - told[0]) for each in told]
        return _straightened(self._sizes, list(map(mul, expected, self._leftover.factors())))

    def note(self, index: int, context: int, passing: float) -> None:
        """A pass of the size with this number took so long."""
        told = self._measured(context)
        first, further = told[0], told[index] - told[0]
        self._leftover.note(index, passing / self._correction.expected(first, further))
        self._correction.note(first, further, passing)

    def _measured(self, context: int) -> list[float]:
        place = context // SAME_CONTEXT
        if self._told[0] != place:
            told = [self._costs.seconds(size + 1, context) + size * _NODE_SECONDS for size in self._sizes]
            self._told = (place, _straightened(self._sizes, told))
        return self._told[1]


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


class _Leftover:
    """What passes of each size take beside what all of them together say, as a factor: each tells most of its own size.

    A mean of the passes of all sizes, by how near they are, the older the less they count; and a few that say nothing.
    """

    def __init__(self, sizes: int) -> None:
        self._counts, self._sums = [0.0] * sizes, [0.0] * sizes
        self._nearness = [[2.0 ** -abs(i - j) for j in range(sizes)] for i in range(sizes)]

    def note(self, index: int, factor: float) -> None:
        """A pass of a size took so many times what was expected of it."""
        kept = 1 - _FORGETTING
        self._counts = [kept * count for count in self._counts]
        self._sums = [kept * total for total in self._sums]
        self._counts[index] += 1
        self._sums[index] += min(max(factor, 1 / _JUMP), _JUMP)

    def factors(self) -> list[float]:
        """By size."""
        found = []
        for near in self._nearness:
            count = _UNKNOWN + sum(map(mul, near, self._counts))
            found.append((_UNKNOWN + sum(map(mul, near, self._sums))) / count)
        return found


def _straightened(sizes: Sequence[int], seconds: Sequence[float]) -> list[float]:
    """Times by size, brought down to the straight lines between the cheapest: each further node costs no less.

    What was measured beside that is mostly noise, and one time that is too long or too short would rule out sizes.
    """
    descending = accumulate(reversed(seconds), min)  # nor is a smaller size dearer
    points = list(zip(sizes, reversed(list(descending)), strict=True))
    cheapest: list[_Point] = []
    for point in points:
        while len(cheapest) > 1 and _slope(*cheapest[-2:]) >= _slope(cheapest[-1], point):
            cheapest.pop()
        cheapest.append(point)
    straight = [points[0][1]]
    for left, right in pairwise(cheapest):
        between = [size for size in sizes if left[0] < size <= right[0]]
        straight += [left[1] + _slope(left, right) * (size - left[0]) for size in between]
    return straight


def _slope(left: _Point, right: _Point) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])
