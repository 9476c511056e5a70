"""The Drafter protocol: from what is known to a candidate tree; and the Guesser's, which grown trees are made of.

Knows no particular method.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

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


class Guess(NamedTuple):
    """One token that may follow a node, and what its guesser thinks of it."""

    token: int
    probability: float  # as the guesser sees it, before anything was earned
    kind: int  # guesses of one kind earn together; at least 0 and below the guesser's `kinds`
    rank: int  # among the guesser's guesses here, 0 = likeliest


class Guesser(Protocol):
    """Guesses the tokens after any node of a tree that grows; its cursor is what it knows of a node."""

    @property
    def source(self) -> Source:
        """Who it is, in events."""
        ...

    @property
    def kinds(self) -> int:
        """How many kinds of guesses it makes."""
        ...

    def begin(self, state: State) -> Any:
        """Start a step; returns the cursor of the root."""
        ...

    def advance(self, cursor: Any, token: int) -> Any:
        """The cursor of the child that holds `token`."""
        ...

    def guesses(self, cursor: Any) -> list[Guess]:
        """What may follow the cursor's node, every token once."""
        ...

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Learn from one step."""
        ...
