"""Grow the best tree for this very step: best-first over what all sources guess, each guess at its estimated worth.

A node adds to the expected tokens of a step the probability that its whole path is right, so the best tree of N nodes
is the N likeliest paths (as in `tree_search.py`, but from the guesses of this step instead of statistics). Every
guesser guesses below every node, whoever guessed that; what they say of a place is put together (`mixing.py`), and a
token that several guess is one node, of the source that believes in it most. Plain Python, no tensors: some twenty
microseconds a node. Knows no particular source.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from medusa_core.drafters.base import Guess, Guesser
from medusa_core.drafters.earnings import Earnings
from medusa_core.drafters.mixing import Mixer, Offer, alone
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree
from medusa_core.state import State
from medusa_core.tree import ROOT_ONLY, Tree


@dataclass(slots=True)
class Grown:
    """A tree in the order of its nodes' worth; any number of first nodes is the best tree of that size."""

    parents: list[int]
    tokens: list[int]
    ranks: list[int]
    probabilities: list[float]  # given the parent, as estimated; the root's is 1
    sources: list[Source]
    gains: list[float]  # of every draft node, descending: the probability of its whole path
    guesses: dict[int, list[list[Guess]]] = field(default_factory=dict)  # of every node looked below, by guesser

    def first(self, draft_nodes: int, note: str = "") -> CandidateTree:
        """The best tree of so many draft nodes, as far as there are any."""
        count = min(draft_nodes + 1, len(self.parents))
        return CandidateTree(
            tree=ROOT_ONLY if count == 1 else Tree(tuple(self.parents[:count])),
            token_ids=tuple(self.tokens[:count]),
            ranks=tuple(self.ranks[:count]),
            draft_probabilities=(None, *self.probabilities[1:count]),
            sources=tuple(self.sources[:count]),
            note=note,
        )


class Grower:
    """Grows trees from guessers, and keeps account of what each has been earning."""

    def __init__(self, guessers: Sequence[Guesser]) -> None:
        self._guessers = tuple(guessers)
        self.earnings = tuple(Earnings(guesser.kinds) for guesser in guessers)
        self._mixer = Mixer([guesser.source for guesser in guessers]) if len(guessers) > 1 else None

    def grow(self, state: State, least: Sequence[float]) -> Grown:
        """As many draft nodes as `least` has numbers, at most; the n-th adds no fewer tokens to the step than the n-th.

        `least` ascends.
        """
        grown = Grown([0], [state.root], [0], [1.0], [Source.MODEL], [])
        cursors: list[list[Any]] = [[guesser.begin(state) for guesser in self._guessers]]
        heap: list[tuple[float, int, int, int, float, int, int]] = []
        pushed = 0
        node, path = 0, 1.0
        while True:
            asked = least[len(grown.gains)]
            if path >= asked:  # else nothing below it is
                for token, (worth, index, rank) in self._offers(grown, node, cursors[node]).items():
                    gain = path * worth
                    if gain >= asked:
                        pushed += 1  # earlier pushed wins a tie, so the order does not depend on tokens
                        heapq.heappush(heap, (-gain, pushed, node, token, worth, index, rank))
            if not heap or -heap[0][0] < asked:
                return grown
            negative, _, parent, token, worth, index, rank = heapq.heappop(heap)
            node, path = len(grown.parents), -negative
            grown.parents.append(parent)
            grown.tokens.append(token)
            grown.ranks.append(rank)
            grown.probabilities.append(worth)
            grown.sources.append(self._guessers[index].source)
            grown.gains.append(path)
            if len(grown.gains) >= len(least):
                return grown
            cursors.append(
                [
                    guesser.advance(cursor, token)
                    for guesser, cursor in zip(self._guessers, cursors[parent], strict=True)
                ]
            )

    def settle(self, grown: Grown, accepted: Accepted) -> None:
        """Account for the guesses at every node of the kept path: what followed it is known now."""
        followers = [grown.tokens[node] for node in accepted.path[1:]] + [accepted.next_token]
        for node, came in zip(accepted.path, followers, strict=True):
            for earnings, guesses in zip(self.earnings, grown.guesses.get(node, ()), strict=False):
                earnings.settle(guesses, came)

    def _offers(self, grown: Grown, node: int, cursors: list[Any]) -> dict[int, Offer]:
        """Tokens that may follow the node."""
        made = [guesser.guesses(cursor) for guesser, cursor in zip(self._guessers, cursors, strict=True)]
        grown.guesses[node] = made
        if self._mixer is None:
            return alone(made[0], self.earnings[0].rates)
        return self._mixer.together(made, [earnings.rates for earnings in self.earnings])
