"""The Drafter protocol: from what is known to a candidate tree; and the Guesser's, which grown trees are made of.

Knows no particular method.
"""

from __future__ import annotations

from typing import Any, Protocol

from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State


class Drafter(Protocol):
    """Proposes the tree of one step."""

    def propose(self, state: State, room: int) -> CandidateTree:
        """A tree of at most `room` nodes, the root (`state.root`) counted; `room` is at least 1."""
        ...

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Learn from one step: what was proposed, what the model said of it, what was kept."""
        ...


class Guesser(Protocol):
    """Guesses the tokens after any node of a tree that grows, from arrays that the kernels of its room read."""

    @property
    def source(self) -> Source:
        """Who it is, in events."""
        ...

    @property
    def kinds(self) -> int:
        """How many kinds of guesses it makes; guesses of one kind earn together."""
        ...

    def begin(self, state: State) -> Any:
        """Start a step; returns what it knows, see `growing.Sources`."""
        ...

    def prepare(self) -> None:
        """Compile what learning needs; nothing is learnt."""
        ...

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Learn from one step."""
        ...
