"""Guess with Medusa heads below any node of a growing tree, corrected by the token the node holds (`heads/pairs.py`).

The heads run once a step; what they say of a place is then sharpened for every node that is looked below
(`sharpening.py`). Knows nothing of training or of files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from medusa_core.drafters.guessed import MOST
from medusa_core.drafters.sharpening import CLASSES, Heads
from medusa_core.events import Source
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.heads.pairs import PairTable
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State
from medusa_core.transfer import upload


class PairedGuesser:
    """Head d + 1 guesses below every node at depth d, given the token of that node."""

    source = Source.HEAD

    def __init__(self, heads: MedusaHeads, pairs: PairTable, temperatures: Sequence[float] | None) -> None:
        """`temperatures`: by head; None where they were never measured."""
        self.kinds = heads.shape.num_heads * CLASSES
        self._heads, self._pairs = heads, pairs
        device = heads.device
        self._scale = 1 / torch.tensor(temperatures or (1.0,) * heads.shape.num_heads, device=device)[:, None]
        self._width = min(MOST, heads.shape.draft_vocab_size)
        self._gains = np.exp(np.array(pairs.strengths, np.float32)[:, None] * pairs.boosts)
        vocab = torch.arange(heads.shape.vocab_size) if heads.token_map is None else heads.token_map.cpu()
        self._token_ids = vocab.numpy()[None]

    def begin(self, state: State) -> Heads:
        """Run the heads."""
        roots = upload([state.root], state.hidden.device)
        probabilities, places = self._heads.likeliest(state.hidden, roots, self._scale, self._width)
        return Heads(
            np.ascontiguousarray(probabilities.cpu().numpy()),  # else all would be compiled for another layout again
            places.cpu().numpy(),
            self._token_ids,
            self._pairs.starts,
            self._pairs.followers,
            self._gains,
        )

    def prepare(self) -> None:
        """Nothing is learnt in a kernel."""

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Heads and pairs do not change while decoding."""
