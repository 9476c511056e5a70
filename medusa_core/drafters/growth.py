"""Grow the best tree for this very step: best-first over what all sources guess, each guess at its estimated worth.

A node adds to the expected tokens of a step the probability that its whole path is right, so the best tree of N nodes
is the N likeliest paths (as in `tree_search.py`, but from the guesses of this step instead of statistics). Every
guesser guesses below every node, whoever guessed that; what they say of a place is put together (`mixing.py`), and a
token that several guess is one node, of the source that believes in it most. The work is done in one kernel
(`growing.py`), some three microseconds a node. Knows nothing of how a source guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from medusa_core.drafters import earnings, growing, mixing
from medusa_core.drafters.base import Guesser
from medusa_core.drafters.sharpening import no_heads
from medusa_core.drafters.successors import NOTHING, new_successors
from medusa_core.drafters.suffixes import no_suffixes
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree
from medusa_core.state import State
from medusa_core.tree import ROOT_ONLY, SHAPES, SMALL, Tree

_NUMBERS = {Source.HEAD: growing.HEADS, Source.LOOKUP: growing.LOOKUP, Source.RECYCLING: growing.RECYCLING}
_NO_HEADS, _NO_SUFFIXES, _NO_SUCCESSORS = no_heads(), no_suffixes(), new_successors(0, 1, 0)
_NODES = 64  # that there is room for at first


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree in the order of its nodes' worth; any number of first nodes is the best tree of that size."""

    parents: list[int]
    tokens: list[int]
    ranks: list[int]
    probabilities: list[float]  # given the parent, as estimated; the root's is 1
    sources: list[Source]
    gains: list[float]  # of every draft node, descending: the probability of its whole path

    def first(self, draft_nodes: int, note: str = "") -> CandidateTree:
        """The best tree of so many draft nodes, as far as there are any."""
        count = min(draft_nodes + 1, len(self.parents))
        return CandidateTree(
            tree=ROOT_ONLY if count == 1 else _tree(tuple(self.parents[:count])),
            token_ids=tuple(self.tokens[:count]),
            ranks=tuple(self.ranks[:count]),
            draft_probabilities=(None, *self.probabilities[1:count]),
            sources=tuple(self.sources[:count]),
            note=note,
        )


_small_tree = lru_cache(maxsize=SHAPES)(Tree)


def _tree(parents: tuple[int, ...]) -> Tree:
    """The same tree for the same shape where that comes again, so that what it knows of itself is worked out once."""
    return (_small_tree if len(parents) <= SMALL else Tree)(parents)


class Grower:
    """Grows trees from guessers, and keeps account of what each has been earning."""

    def __init__(self, guessers: Sequence[Guesser]) -> None:
        """At least one guesser; of each source one at most."""
        self._guessers = tuple(guessers)
        self._order = np.array([_NUMBERS[guesser.source] for guesser in guessers])
        self._named = [*(guesser.source for guesser in guessers), Source.MODEL]  # the root's number is -1
        self._voices = mixing.voices([guesser.source for guesser in guessers])
        self._room = growing.new_room(_NODES + 1, len(self._guessers))
        self.earnings = earnings.new_earnings(len(self._guessers), max(guesser.kinds for guesser in guessers))

    def grow(self, state: State, least: Sequence[float]) -> Grown:
        """As many draft nodes as `least` has numbers, at most; the n-th adds at least the n-th number of tokens.

        `least` ascends, and has one number or more.
        """
        if len(least) >= len(self._room.gains):
            self._room = growing.new_room(len(least) + 1, len(self._guessers))
        known = {guesser.source: guesser.begin(state) for guesser in self._guessers}
        sources = growing.Sources(
            self._order,
            known.get(Source.HEAD, _NO_HEADS),
            known.get(Source.LOOKUP, _NO_SUFFIXES),
            known.get(Source.RECYCLING, _NO_SUCCESSORS),
        )
        before = state.context[-1] if state.context else NOTHING
        count = growing.grow(
            sources, self._voices, self.earnings.rates, np.array(least), before, state.root, self._room
        )
        parents, tokens, ranks, numbers = self._room.nodes[:count].T.tolist()
        return Grown(
            parents,
            tokens,
            ranks,
            self._room.worths[:count].tolist(),
            [self._named[number] for number in numbers],
            self._room.gains[1:count].tolist(),
        )

    def prepare(self, state: State) -> None:
        """Compile what growing and learning need; nothing is learnt."""
        self.grow(state, [0.0])
        for guesser in self._guessers:
            guesser.prepare()
        self._settle([], [])

    def settle(self, grown: Grown, accepted: Accepted) -> None:
        """Account for the guesses at every node of the kept path of the tree grown last: what followed is known now."""
        followers = [grown.tokens[node] for node in accepted.path[1:]] + [accepted.next_token]
        self._settle(accepted.path, followers)

    def _settle(self, path: Sequence[int], followers: Sequence[int]) -> None:
        nodes, came = np.array((path, followers), np.int64)
        earnings.settle(self.earnings, self._room.guessed, nodes, came)
