"""Guess by recycling: what the model itself thought should follow a token when it last saw it.

Token Recycling (Luo et al., 2024): every pass gives logits for every node of its tree, also for those that are then
thrown away; their best successors are kept for the next time the token comes up. Beyond the paper, the successors of
pairs of tokens are kept too, and how sure the model was of each. Knows nothing of heads.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from medusa_core.backbone.picking import KEPT, best_of
from medusa_core.drafters.base import Guess
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

_PAIRS = 32_768  # pairs of tokens kept, the least recently seen are dropped: some ten megabytes
_SURE = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95)  # least share of each class but the lowest
_LEAST = 0.01  # successors the model thought less likely are not guessed
_BELIEF = (0.55, 0.85)  # what of the model's own share to believe, where one token is the same, and where two are

Pair = tuple[int, int]
Successors = tuple[list[int], list[float]]


class RecyclingGuesser:
    """Best successors of every token (V, 8) and of the pairs seen last; it lasts as long as its model is loaded."""

    source = Source.RECYCLING
    kinds = len(_BELIEF) * (len(_SURE) + 1)

    def __init__(self, vocab_size: int) -> None:
        self._tokens: npt.NDArray[np.int32] = np.zeros((vocab_size, KEPT), dtype=np.int32)
        # Softmax over the successors alone: what the rest of the vocabulary had is not worth another pass over it.
        self._shares: npt.NDArray[np.float32] = np.zeros((vocab_size, KEPT), dtype=np.float32)
        self._pairs: dict[Pair, Successors] = {}
        self._root: Pair | None = None  # of the step that is under way

    def begin(self, state: State) -> Pair:
        """The last token of the context and the root."""
        self._root = (state.context[-1] if state.context else -1, state.root)
        return self._root

    def advance(self, cursor: Pair, token: int) -> Pair:
        """The node's token and its child's."""
        return (cursor[1], token)

    def guesses(self, cursor: Pair) -> list[Guess]:
        """The successors of the pair where it was seen, else those of the token alone."""
        found = self._pairs.get(cursor)
        order = 1
        if found is None:
            token = cursor[1]
            order, found = 0, (self._tokens[token].tolist(), self._shares[token].tolist())
        guesses = []
        for rank, (token, share) in enumerate(zip(*found, strict=True)):
            if share < _LEAST:
                break
            sure = bisect_right(_SURE, share)  # classes whose least share it has
            guesses.append(Guess(token, share * _BELIEF[order], order * (len(_SURE) + 1) + sure, rank))
        return guesses

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Keep the best successors of every node; where a token is there twice, those of the kept or later node."""
        values, indices = best_of(scores)
        rows, shares = indices.tolist(), values.float().softmax(-1).tolist()
        parents, tokens = candidates.tree.parents, candidates.token_ids
        kept = set(accepted.path)
        order = [node for node in range(len(tokens)) if node not in kept]
        for node in (*order, *accepted.path):
            self._tokens[tokens[node], : len(rows[node])] = rows[node]
            self._shares[tokens[node], : len(rows[node])] = shares[node]
            pair = (tokens[parents[node]], tokens[node]) if node else self._root
            if pair is not None:
                self._remember(pair, (rows[node], shares[node]))
        self._root = None

    def _remember(self, pair: Pair, successors: Successors) -> None:
        self._pairs.pop(pair, None)
        self._pairs[pair] = successors
        if len(self._pairs) > _PAIRS:
            del self._pairs[next(iter(self._pairs))]
