"""The Rule protocol, and the model's probabilities that verdicts are made from. Knows no particular rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from medusa_core.records import Accepted, CandidateTree, Scores


class Rule(Protocol):
    """Decides the path of one step. `context`: the tokens before the root."""

    def first(self, logits: torch.Tensor, context: Sequence[int]) -> int:
        """Choose the first root of a reply, by the logits (V,) after the prompt."""
        ...

    def accept(self, candidates: CandidateTree, scores: Scores, context: Sequence[int]) -> Accepted:
        """Choose the path to keep, and the root of the next step."""
        ...


def node_log_probabilities(candidates: CandidateTree, log_p: torch.Tensor) -> torch.Tensor:
    """log p(node | parent) of every node (N,), from log-probabilities (N, V); the root's is 0."""
    parents = torch.tensor(candidates.tree.parents, device=log_p.device)
    tokens = torch.tensor(candidates.token_ids, device=log_p.device)
    chosen = log_p[parents, tokens]
    chosen[0] = 0.0
    return chosen


def entropies(log_p: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of every row (N,), from log-probabilities (N, V)."""
    # A token of probability 0 has log p = -inf and adds nothing; 0 * -inf would be nan.
    return -(log_p.exp() * log_p.clamp_min(torch.finfo(log_p.dtype).min)).sum(-1)
