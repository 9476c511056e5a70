"""What the closed forms say of heads of given accuracy, beside what was measured. Knows nothing of widgets.

The forms assume that heads err independently of one another and of the text; real heads do not, so the difference
between predicted and measured is worth seeing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import Measured
from medusa_core.theory import effective_accuracy, expected_tokens_of_candidates, speed_up

MOST_CANDIDATES = 10
HEADS = 4  # where nobody knows better
_GUESS = (0.6, 0.45, 0.35, 0.25)  # accuracies to begin with where nothing was measured
_MOST_TRIED = 4  # candidates of one head, where the best numbers are looked for
_PRESET_CANDIDATES = (3, 2, 1, 1)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Heads of these accuracies, of which a tree takes so many candidates each."""

    accuracies: tuple[float, ...]
    candidates: tuple[int, ...]

    @property
    def effective(self) -> tuple[float, ...]:
        """1 - (1 - a)^s of each head."""
        pairs = zip(self.accuracies, self.candidates, strict=True)
        return tuple(effective_accuracy(accuracy, count) for accuracy, count in pairs)

    @property
    def tokens_per_step(self) -> float:
        """1 + the sum over k of the product of the first k effective accuracies."""
        return expected_tokens_of_candidates(self.accuracies, self.candidates)

    @property
    def nodes(self) -> int:
        """Draft nodes of the full tree with so many children at every depth."""
        total, level = 0, 1
        for count in self.candidates:
            level *= count
            total += level
        return total

    def overhead(self, measured: Measured) -> float:
        """Time of a step with that tree in plain steps."""
        return measured.overhead(self.nodes)

    def speed_up(self, measured: Measured) -> float:
        """Against plain decoding on this machine."""
        return speed_up(self.tokens_per_step, self.overhead(measured))


def of_calibration(measured: Measured) -> Expectation | None:
    """The accuracy of every head's first guess on held-out replies; None where they were never measured.

    With as many candidates as pay most on this machine, where that was measured too.
    """
    if not measured.accuracies:
        return None
    accuracies = tuple(head[0] for head in measured.accuracies)
    if not measured.pass_seconds:
        return Expectation(accuracies, _candidates(len(accuracies)))
    counts = combinations_with_replacement(range(_MOST_TRIED, 0, -1), len(accuracies))
    return max((Expectation(accuracies, found) for found in counts), key=lambda shown: shown.speed_up(measured))


def of_conversation(metrics: ReplyMetrics) -> Expectation | None:
    """How often the k-th guess was kept where the one before was: with one candidate each, exactly what happened."""
    shares = metrics.acceptance_per_head
    if not shares or not shares[0]:
        return None
    before, rates = 1.0, []
    for share in filter(None, shares):  # they descend: what was never kept comes last
        rates.append(share / before)
        before = share
    return Expectation(tuple(rates), (1,) * len(rates))


def at_first() -> Expectation:
    """Something to move the sliders from."""
    return Expectation(_GUESS, _candidates(HEADS))


def _candidates(heads: int) -> tuple[int, ...]:
    return (*_PRESET_CANDIDATES, *[1] * heads)[:heads]


def measured_speed_up(metrics: ReplyMetrics, plain_tokens_per_second: float) -> float | None:
    """Of the conversation against plain decoding; None where either is unknown."""
    if not metrics.steps or plain_tokens_per_second <= 0:
        return None
    return metrics.tokens_per_second / plain_tokens_per_second
