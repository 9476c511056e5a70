"""The Drafter protocol: from what is known to a candidate tree. Knows no particular method."""

from __future__ import annotations

from typing import Protocol

from medusa_core.records import Accepted, CandidateTree
from medusa_core.state import State


class Drafter(Protocol):
    """Proposes the tree of one step."""

    def propose(self, state: State, room: int) -> CandidateTree:
        """A tree of at most `room` nodes, the root (`state.root`) counted; `room` is at least 1."""
        ...

    def observe(self, state: State, accepted: Accepted) -> None:
        """Learn from what was kept."""
        ...
