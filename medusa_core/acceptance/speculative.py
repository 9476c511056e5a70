"""Exact sampling (speculative sampling on a tree): one token is drawn at each node, and the walk follows it.

At every node one token is drawn from the model's own distribution after that node. Is it a child, the walk goes there;
else it is the next root, and the step ends. Every token of the reply is thus a draw from the model's own distribution,
whatever the tree holds: guesses change how many passes a reply takes, never its words. For children without
probabilities of their own this is the sequential rejection of speculative sampling (Leviathan et al., 2023), with the
same chance to go on: the sum of the children's probabilities. Knows nothing of how the tree was drafted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from medusa_core.config import SamplingAcceptance
from medusa_core.events import Verdict
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.sampling import Distribution, distribution, uniform


class SamplingRule:
    """Keep a node when it is the token drawn at its parent.

    The draw for a position is made of the seed and the number of tokens before it: the same seed gives the same reply
    with any drafter and any size of tree, as far as a pass over a tree and one over a single row compute the same.
    """

    def __init__(self, config: SamplingAcceptance, seed: int, *, explain: bool = False) -> None:
        """`explain`: also the probabilities of nodes that the walk does not reach."""
        self._config, self._seed, self._explain = config, seed, explain

    def first(self, logits: torch.Tensor, context: Sequence[int]) -> int:
        """The first root: drawn, as every token after it."""
        return self._draw(distribution(logits, self._config, context), context)

    def accept(self, candidates: CandidateTree, scores: Scores, context: Sequence[int]) -> Accepted:
        """Walk from the root with the draws. Rows off the walk are not looked at, unless they are to be explained."""
        path, verdicts = [0], dict[int, Verdict]()
        visited: dict[int, Distribution] = {}
        while True:
            here = path[-1]
            prefix = _prefix(candidates, context, here)
            visited[here] = distribution(scores.logits[here], self._config, prefix)
            drawn = self._draw(visited[here], prefix)
            children = candidates.tree.children[here]
            verdicts |= _verdicts(candidates, children, visited[here], drawn)
            match = next((child for child in children if candidates.token_ids[child] == drawn), None)
            if match is None:
                break
            path.append(match)
        probabilities = self._probabilities(candidates, scores, context, visited) if self._explain else None
        return Accepted(tuple(path), drawn, verdicts, model_probabilities=probabilities)

    def _draw(self, own: Distribution, prefix: Sequence[int]) -> int:
        return own.draw(uniform(self._seed, len(prefix)))

    def _probabilities(
        self, candidates: CandidateTree, scores: Scores, context: Sequence[int], known: dict[int, Distribution]
    ) -> tuple[float, ...]:
        """p(node | parent) of every node (N,), each parent's distribution made with its own prefix."""
        probabilities = [1.0] * len(candidates.tree)
        for parent, children in enumerate(candidates.tree.children):
            if not children:
                continue
            own = known.get(parent) or distribution(
                scores.logits[parent], self._config, _prefix(candidates, context, parent)
            )
            for child in children:
                probabilities[child] = own.probability(candidates.token_ids[child])
        return tuple(probabilities)


def _prefix(candidates: CandidateTree, context: Sequence[int], node: int) -> list[int]:
    """The tokens before the one that comes after `node`: the context, and the path to the node with its end."""
    return [*context, *(candidates.token_ids[ancestor] for ancestor in candidates.tree.path(node))]


def _verdicts(candidates: CandidateTree, children: Sequence[int], own: Distribution, drawn: int) -> dict[int, Verdict]:
    if not children:
        return {}
    entropy, choice = own.entropy, own.most_likely
    return {
        child: Verdict(
            passed=candidates.token_ids[child] == drawn,
            probability=own.probability(candidates.token_ids[child]),
            threshold=None,
            entropy=entropy,
            choice=choice,
            drawn=drawn,
        )
        for child in children
    }
