"""Guess by recycling: what the model itself thought should follow a token when it last saw it.

Token Recycling (Luo et al., 2024): every pass gives logits for every node of its tree, also for those that are then
thrown away; their best successors are kept for the next time the token comes up. Beyond the paper, the successors of
pairs of tokens are kept too, and how sure the model was of each. Knows nothing of heads.
"""

from __future__ import annotations

import numpy as np

from medusa_core.backbone.picking import KEPT, best_of
from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.successors import NOTHING, UNKNOWN, Successors, find, learn, new_successors
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

_PAIRS = 32_768  # pairs of tokens kept, the least recently seen are dropped: some megabytes
_SURE = np.array((0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95))  # least share of each class but the lowest
_CLASSES = len(_SURE) + 1
_LEAST = 0.01  # successors the model thought less likely are not guessed
_BELIEF = np.array((0.55, 0.85))  # what of the model's own share to believe: one token is the same, or two are


@compiled
def guess(successors, before, token, tokens, probabilities, kinds):  # type: ignore[no-untyped-def]
    """The successors of the pair where it was seen, else those of the token alone; none of one beyond the vocabulary.

    Returns how many guesses. `tokens`, `probabilities` and `kinds` (G,) take them, the likeliest first.
    """
    if token >= successors.tokens.shape[0]:
        return 0
    pair = find(successors, before, token)
    order = 0 if pair < 0 else 1
    found = successors.tokens[token] if pair < 0 else successors.pair_tokens[pair]
    shares = successors.shares[token] if pair < 0 else successors.pair_shares[pair]
    width = min(found.shape[0], tokens.shape[0])
    for k in range(width):
        share = shares[k]
        if share < _LEAST:
            return k
        sure = 0  # classes whose least share it has
        while sure < _CLASSES - 1 and share >= _SURE[sure]:
            sure += 1
        tokens[k], probabilities[k], kinds[k] = found[k], share * _BELIEF[order], order * _CLASSES + sure
    return width


class RecyclingGuesser:
    """Best successors of every token (V, 8) and of the pairs seen last; it lasts as long as its model is loaded."""

    source = Source.RECYCLING
    kinds = len(_BELIEF) * _CLASSES

    def __init__(self, vocab_size: int) -> None:
        self._successors = new_successors(vocab_size, _PAIRS, KEPT)
        self._before = UNKNOWN  # the token before the root of the step that is under way

    def begin(self, state: State) -> Successors:
        """What is known so far."""
        self._before = state.context[-1] if state.context else NOTHING
        return self._successors

    def prepare(self) -> None:
        """Learn from a tree of no nodes."""
        none = np.empty(0, np.int64)
        learn(self._successors, UNKNOWN, none, none, none, none.reshape(0, 0), np.empty((0, 0), np.float32))

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Keep the best successors of every node."""
        values, indices = best_of(scores)
        tokens, parents = np.array(candidates.token_ids), np.array(candidates.tree.parents)
        path = np.array(accepted.path)
        best, logits = indices.cpu().numpy(), values.float().cpu().numpy()
        learn(self._successors, self._before, tokens, parents, path, best, logits)
        self._before = UNKNOWN
