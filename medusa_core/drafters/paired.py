"""Guess with Medusa heads below any node of a growing tree, corrected by the token the node holds (`heads/pairs.py`).

The heads run once a step; what they say of a place is then sharpened for every node that is looked below, at the cost
of a few array operations. Knows nothing of training or of files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

from medusa_core.drafters.base import Guess
from medusa_core.drafters.medusa import CLASSES, probability_class
from medusa_core.events import Source
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.heads.pairs import Floats, Ints, PairTable
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

_GUESSES = 10  # below every node, at most
_LEAST = 0.005  # what is less likely is not guessed: it hardly ever becomes a node, and takes as long

Cursor = tuple[int, int]  # how deep the node is, and the token it holds


class PairedGuesser:
    """Head d + 1 guesses below every node at depth d, given the token of that node."""

    source = Source.HEAD

    def __init__(self, heads: MedusaHeads, pairs: PairTable, temperatures: Sequence[float] | None) -> None:
        """`temperatures`: by head; None where they were never measured."""
        self.kinds = heads.shape.num_heads * CLASSES
        self._heads, self._pairs = heads, pairs
        device = heads.device
        self._scale = 1 / torch.tensor(temperatures or (1.0,) * heads.shape.num_heads, device=device)[:, None]
        self._width = min(_GUESSES, heads.shape.draft_vocab_size)
        self._gains = [np.exp(np.float32(strength) * pairs.boosts) for strength in pairs.strengths]
        vocab = torch.arange(heads.shape.vocab_size) if heads.token_map is None else heads.token_map.cpu()
        self._token_ids: list[int] = vocab.tolist()
        # Compiled now rather than in the first reply.
        _sharpener()(np.ones(1, np.float32), np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        self._made: dict[Cursor, list[Guess]] = {}
        self._probabilities = np.empty((0, 0), np.float32)
        self._top = np.empty((0, 0), np.int64)

    def begin(self, state: State) -> Cursor:
        """Run the heads."""
        roots = torch.tensor([state.root], device=state.hidden.device)
        probabilities, places = self._heads.likeliest(state.hidden, roots, self._scale, self._width)
        self._probabilities, self._top = probabilities.cpu().numpy(), places.cpu().numpy()
        self._made = {}
        return 0, state.root

    def advance(self, cursor: Cursor, token: int) -> Cursor:
        """One deeper, below another token."""
        return cursor[0] + 1, token

    def guesses(self, cursor: Cursor) -> list[Guess]:
        """The next head's given the token before, none below the last head's."""
        if cursor[0] >= len(self._gains):
            return []
        if cursor not in self._made:
            self._made[cursor] = self._guess(*cursor)
        return self._made[cursor]

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Heads and pairs do not change while decoding."""

    def _guess(self, depth: int, token: int) -> list[Guess]:
        after = self._pairs.after(token)
        sharpen = _sharpener()
        total, places, worths = sharpen(
            self._probabilities[depth], self._top[depth], self._pairs.followers[after], self._gains[depth][after]
        )
        first, guesses = depth * CLASSES, []
        for rank, (place, worth) in enumerate(zip(places.tolist(), worths, strict=True)):
            share = worth / total
            if share < _LEAST:
                break
            guesses.append(Guess(self._token_ids[place], share, first + probability_class(share), rank))
        return guesses


@cache
def _sharpener() -> Callable[[Floats, Ints, Ints, Floats], tuple[float, Ints, list[float]]]:
    """From probabilities (V',), the likeliest places (W,), followers and gains (F,) to a sum, places and worths."""
    try:
        from medusa_core.drafters.sharpening import sharpen
    except (ImportError, OSError):  # numba is not there, or does not work here
        return sharpened

    def run(plain: Floats, top: Ints, followers: Ints, gains: Floats) -> tuple[float, Ints, list[float]]:
        places, worths = np.empty(len(top), np.int64), np.empty(len(top), np.float32)
        return sharpen(plain, top, followers, gains, places, worths), places, worths.tolist()

    return run


def sharpened(plain: Floats, top: Ints, followers: Ints, gains: Floats) -> tuple[float, Ints, list[float]]:
    """The likeliest of p(y) g(y), where only `followers` (F,) have gains other than 1; and the sum of all."""
    before = plain[followers]
    worth_more = before * gains
    total = 1.0 + float((worth_more - before).sum())
    # Whoever is not likelier than the head's last guess was cannot be among the best.
    raised = worth_more >= plain[top[-1]]
    worth = dict(zip(top.tolist(), plain[top].tolist(), strict=True))
    worth.update(zip(followers[raised].tolist(), worth_more[raised].tolist(), strict=True))
    ranked = sorted(worth.items(), key=lambda item: (-item[1], item[0]))[: len(top)]
    return total, np.array([place for place, _ in ranked]), [value for _, value in ranked]
