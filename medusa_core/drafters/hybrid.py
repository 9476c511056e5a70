"""Draft from several sources at once: one tree, one pass, the nodes to whoever has been earning them.

With one source alone it is that source's own drafter. Knows no particular source.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from medusa_core.drafters.base import Guesser
from medusa_core.drafters.growth import Grower, Grown
from medusa_core.drafters.sizing import Sizing, StepTimes
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State
from medusa_core.tree import ROOT_ONLY


class HybridDrafter:
    """Grows a tree anew each step. Guessers, grower and sizing go on from reply to reply, and learn."""

    def __init__(self, guessers: Sequence[Guesser], grower: Grower, sizing: Sizing) -> None:
        """`grower` grows from these `guessers`."""
        self._guessers, self._grower, self._sizing = tuple(guessers), grower, sizing
        self._grown: Grown | None = None
        self._context = 0
        self._drafting = self._proposed = self._between = self._ended = 0.0

    def propose(self, state: State, room: int) -> CandidateTree:
        """The best tree of the size that the sizing chooses."""
        started = perf_counter()
        self._between = started - self._ended if state.reply and self._ended else 0.0
        self._context = state.cache.length
        plan = self._sizing.plan(self._context)
        least = plan.least[: room - 1]
        if not least:
            self._grown = None
            self._proposed = perf_counter()
            self._drafting = self._proposed - started
            return CandidateTree(ROOT_ONLY, (state.root,), (0,), (None,), (Source.MODEL,), plan.note)
        self._grown = self._grower.grow(state, least)
        count = self._sizing.choose(self._grown.gains, self._context)
        candidates = self._grown.first(count)
        self._proposed = perf_counter()
        self._drafting = self._proposed - started
        return candidates

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Let the guessers learn, settle what they claimed, and tell the sizing what the step brought."""
        started = perf_counter()
        for guesser in self._guessers:
            guesser.observe(candidates, scores, accepted)
        if self._grown is not None:
            self._grower.settle(self._grown, accepted)
        self._ended = perf_counter()
        times = StepTimes(self._drafting + self._ended - started, started - self._proposed, self._between)
        self._sizing.observe(len(candidates.tree) - 1, len(accepted.path), self._context, times)
