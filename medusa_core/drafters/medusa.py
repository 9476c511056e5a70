"""Draft with Medusa heads: their top guesses, laid into a calibrated sparse tree (Medusa, section 2.1).

The heads run once a step, on the hidden state the root was chosen from, all in one batched product.
Knows nothing of training or of files.
"""

from __future__ import annotations

import torch

from medusa_core.events import Source
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.records import Accepted, CandidateTree
from medusa_core.state import State
from medusa_core.tree import RankedTree


class MedusaDrafter:
    """The node at depth d and rank i is the i-th likeliest guess of head d."""

    def __init__(self, heads: MedusaHeads, tree: RankedTree, nodes: int) -> None:
        """`nodes`: draft nodes at most, the root not counted."""
        self._heads = heads
        self._tree = tree.within(heads.shape.num_heads).first(nodes + 1)
        self._width = min(max(self._tree.ranks) + 1, heads.shape.draft_vocab_size)

    def propose(self, state: State, room: int) -> CandidateTree:
        """Fill the tree with the heads' guesses; duplicates among siblings cannot occur, ranks differ."""
        tree = self._tree.first(room)
        tokens, probabilities = self._guesses(state)
        depths = tree.tree.depths
        return CandidateTree(
            tree=tree.tree,
            token_ids=(state.root, *(tokens[depths[n] - 1][tree.ranks[n]] for n in range(1, len(depths)))),
            ranks=tree.ranks,
            draft_probabilities=(
                None,
                *(probabilities[depths[n] - 1][tree.ranks[n]] for n in range(1, len(depths))),
            ),
            sources=(Source.MODEL, *(Source.HEAD,) * (len(depths) - 1)),
        )

    def observe(self, state: State, accepted: Accepted) -> None:
        """A calibrated tree does not change while decoding."""

    def _guesses(self, state: State) -> tuple[list[list[int]], list[list[float]]]:
        """Token ids and probabilities by head and rank, (K, width), from the root and the state it was chosen from."""
        roots = torch.tensor([state.root], device=state.hidden.device)
        logits = self._heads(state.hidden[None], roots)[:, 0]
        probabilities, indices = logits.float().softmax(-1).topk(self._width, dim=-1)
        return self._heads.token_ids(indices).tolist(), probabilities.tolist()
