"""Draft with Medusa heads: their top guesses in a calibrated sparse tree (Medusa, section 2.1), or in one that grows.

The heads run once a step, on the hidden state the root was chosen from, all in one batched product.
Knows nothing of training or of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from medusa_core.drafters.guessed import MOST, Ints
from medusa_core.drafters.sharpening import CLASSES, Heads, Singles
from medusa_core.events import Source
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State
from medusa_core.transfer import download, upload
from medusa_core.tree import RankedTree


class MedusaDrafter:
    """The node at depth d and rank i is the i-th likeliest guess of head d."""

    def __init__(
        self, heads: MedusaHeads, tree: RankedTree, nodes: int, temperatures: Sequence[float] | None = None
    ) -> None:
        """`nodes`: draft nodes at most, the root not counted."""
        self._tree = tree.within(heads.shape.num_heads).first(nodes + 1)
        self._guesses = TopGuesses(heads, max(self._tree.ranks) + 1, temperatures)
        self._where: tuple[torch.Tensor, torch.Tensor] | None = None

    def propose(self, state: State, room: int) -> CandidateTree:
        """Fill the tree with the heads' guesses; duplicates among siblings cannot occur, ranks differ."""
        tree = self._tree.first(room)
        guesses = self._guesses.tensors(state)
        depths, ranks = (numbers[: len(tree.ranks) - 1] for numbers in self._places(guesses.tokens.device))
        # Picked where they were computed: a GPU goes on to verify them before anybody waits for them here.
        return CandidateTree(
            tree=tree.tree,
            token_ids=download(torch.cat((guesses.roots, guesses.tokens[depths, ranks]))),
            ranks=tree.ranks,
            draft_probabilities=download(guesses.probabilities[depths, ranks], (None,)),
            sources=(Source.MODEL, *(Source.HEAD,) * (len(tree.ranks) - 1)),
        )

    def _places(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Head and rank of every draft node, as indices; the tree stays."""
        if self._where is None:
            depths = upload([depth - 1 for depth in self._tree.tree.depths[1:]], device)
            self._where = depths, upload(self._tree.ranks[1:], device)
        return self._where

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """A calibrated tree does not change while decoding."""


class HeadGuesser:
    """Head d + 1 guesses below every node at depth d, whichever path leads there."""

    source = Source.HEAD

    def __init__(self, heads: MedusaHeads, temperatures: Sequence[float] | None) -> None:
        """`temperatures`: by head; None where they were never measured."""
        self.kinds = heads.shape.num_heads * CLASSES
        self._top = TopGuesses(heads, MOST, temperatures)
        # Whatever token is before, no pair changes anything.
        self._starts = np.zeros(heads.shape.vocab_size + 1, np.int64)
        self._no_gains = np.empty((heads.shape.num_heads, 0), np.float32)

    def begin(self, state: State) -> Heads:
        """Run the heads."""
        tokens, probabilities = self._top(state)
        ranks = np.tile(np.arange(tokens.shape[1]), (len(tokens), 1))
        return Heads(probabilities, ranks, tokens, self._starts, np.empty(0, np.int64), self._no_gains)

    def prepare(self) -> None:
        """Nothing is learnt in a kernel."""

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Heads do not change while decoding."""


@dataclass(frozen=True, slots=True)
class GuessTensors:
    """What the heads guess, on their device."""

    roots: torch.Tensor  # (1,)
    tokens: torch.Tensor  # (K, width)
    probabilities: torch.Tensor  # (K, width)


class TopGuesses:
    """The likeliest guesses of every head, from one product."""

    def __init__(self, heads: MedusaHeads, width: int, temperatures: Sequence[float] | None) -> None:
        self._heads, self._width = heads, min(width, heads.shape.draft_vocab_size)
        self._scale = 1 / torch.tensor(temperatures or (1.0,) * heads.shape.num_heads, device=heads.device)[:, None]

    def __call__(self, state: State) -> tuple[Ints, Singles]:
        """Token ids and probabilities by head and rank, (K, width), from the root and the state it was chosen from."""
        guesses = self.tensors(state)
        # One transfer instead of two; token ids are whole in 64 bit.
        both = torch.stack((guesses.tokens.double(), guesses.probabilities.double())).cpu().numpy()
        return both[0].astype(np.int64), both[1].astype(np.float32)

    def tensors(self, state: State) -> GuessTensors:
        """The same, where they were computed."""
        roots = upload([state.root], state.hidden.device)
        probabilities, places = self._heads.likeliest(state.hidden, roots, self._scale, self._width)
        return GuessTensors(roots, self._heads.token_ids(places), probabilities.gather(1, places))
