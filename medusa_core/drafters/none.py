"""No drafting: the tree is its root, so each step is plain decoding. Knows nothing of heads."""

from __future__ import annotations

from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State
from medusa_core.tree import ROOT_ONLY


class NoDrafter:
    """Proposes the root alone."""

    def propose(self, state: State, room: int) -> CandidateTree:
        """The root, whatever the room."""
        return CandidateTree(ROOT_ONLY, (state.root,), (0,), (None,), (Source.MODEL,))

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Nothing to learn."""
