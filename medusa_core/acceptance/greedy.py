"""Greedy acceptance: follow the model's own most likely tokens as long as the tree holds them.

The output equals plain greedy decoding. Knows nothing of how the tree was drafted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from medusa_core.acceptance.base import entropies, node_log_probabilities
from medusa_core.backbone.picking import choices_of, likeliest
from medusa_core.events import Verdict
from medusa_core.records import Accepted, CandidateTree, Scores


class GreedyRule:
    """Keep a node when it is the model's most likely token at its parent."""

    def __init__(self, *, explain: bool = False) -> None:
        """`explain`: also compute probabilities and entropies, which the rule itself does not need."""
        self._explain = explain

    def first(self, logits: torch.Tensor, context: Sequence[int] = ()) -> int:
        """The model's most likely token."""
        return likeliest(logits[None])[0]

    def accept(self, candidates: CandidateTree, scores: Scores, context: Sequence[int] = ()) -> Accepted:
        """Walk from the root to the child that the model wants, until there is none."""
        choices = choices_of(scores)
        path = [0]
        tried: list[int] = []
        while True:
            children = candidates.tree.children[path[-1]]
            tried += children
            wanted = choices[path[-1]]
            match = next((child for child in children if candidates.token_ids[child] == wanted), None)
            if match is None:
                break
            path.append(match)
        probabilities, entropy = self._numbers(candidates, scores)
        verdicts = {}
        for node in tried:
            parent = candidates.tree.parents[node]
            verdicts[node] = Verdict(
                passed=candidates.token_ids[node] == choices[parent],
                probability=None if probabilities is None else probabilities[node],
                threshold=None,
                entropy=None if entropy is None else entropy[parent],
                choice=choices[parent],
            )
        return Accepted(tuple(path), choices[path[-1]], verdicts, probabilities)

    def _numbers(
        self, candidates: CandidateTree, scores: Scores
    ) -> tuple[tuple[float, ...] | None, list[float] | None]:
        if not self._explain:
            return None, None
        log_p = scores.logits.float().log_softmax(-1)
        return tuple(node_log_probabilities(candidates, log_p).exp().tolist()), entropies(log_p).tolist()
