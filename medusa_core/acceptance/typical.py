"""Typical acceptance (Medusa, section 2.3.1): keep what is not improbable for the model at that place.

Faster and approximate: the output is no longer the model's own distribution. Knows nothing of how the tree was drafted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from medusa_core.acceptance.base import entropies, node_log_probabilities
from medusa_core.backbone.picking import choices_of, likeliest
from medusa_core.config import TypicalAcceptance
from medusa_core.events import Verdict
from medusa_core.records import Accepted, CandidateTree, Scores


class TypicalRule:
    """Keep a node when p(node | parent) > min(epsilon, delta * exp(-H(parent))).

    p and the entropy H are the model's after `temperature`. Of the paths that pass, the longest is kept; of equally
    long ones the likeliest. The root is the model's greedy choice and is always kept.
    """

    def __init__(self, config: TypicalAcceptance) -> None:
        self._config = config

    def first(self, logits: torch.Tensor, context: Sequence[int] = ()) -> int:
        """The model's most likely token."""
        return likeliest(logits[None])[0]

    def accept(self, candidates: CandidateTree, scores: Scores, context: Sequence[int] = ()) -> Accepted:
        """Try every node whose ancestors passed; keep the best path."""
        tree = candidates.tree
        log_p = (scores.logits.float() / self._config.temperature).log_softmax(-1)
        node_log_p: list[float] = node_log_probabilities(candidates, log_p).tolist()
        entropy: list[float] = entropies(log_p).tolist()
        choices = choices_of(scores)
        verdicts: dict[int, Verdict] = {}
        likelihood = {0: 0.0}  # of the path to every node that passed, in nats
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            if parent not in likelihood:
                continue
            verdict = self._judge(node_log_p[node], entropy[parent], choices[parent])
            verdicts[node] = verdict
            if verdict.passed:
                likelihood[node] = likelihood[parent] + node_log_p[node]
        best = max(likelihood, key=lambda node: (tree.depths[node], likelihood[node]))
        probabilities = tuple(math.exp(value) for value in node_log_p)
        return Accepted(tree.path(best), choices[best], verdicts, probabilities)

    def _judge(self, log_p: float, entropy: float, choice: int) -> Verdict:
        probability = math.exp(log_p)
        threshold = min(self._config.epsilon, self._config.delta * math.exp(-entropy))
        return Verdict(
            passed=probability > threshold,
            probability=probability,
            threshold=threshold,
            entropy=entropy,
            choice=choice,
        )
