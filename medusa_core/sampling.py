"""One row of logits becomes the distribution that the next token is drawn from; and the seeded draw itself.

Penalty, temperature, top-k, top-p and min-p mean what they mean in transformers and come in its order. A draw depends
on the seed and on the number of tokens before it, on nothing else. Knows nothing of trees, drafts or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from medusa_core.config import SamplingAcceptance

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """The S tokens that can come next, in the order of their ids."""

    token_ids: NDArray[np.int64]  # (S,), ascending
    probabilities: NDArray[np.float64]  # (S,), all above 0, their sum is 1

    def draw(self, uniform: float) -> int:
        """The token whose share of [0, 1), laid out in the order of token ids, holds `uniform`.

        Ids are an order that no rounding changes: were it by probability, two nearly equal tokens could change places
        between a pass over a tree and a pass over one row, and with them what the same seed draws.
        """
        shares = self.probabilities.cumsum()
        place = int(shares.searchsorted(uniform * shares[-1], side="right"))
        return int(self.token_ids[min(place, len(shares) - 1)])

    def probability(self, token_id: int) -> float:
        """p(token); 0 for a token that was filtered out."""
        place = int(self.token_ids.searchsorted(token_id))
        found = place < len(self.token_ids) and self.token_ids[place] == token_id
        return float(self.probabilities[place]) if found else 0.0

    @property
    def most_likely(self) -> int:
        """The token of the highest probability."""
        return int(self.token_ids[self.probabilities.argmax()])

    @property
    def entropy(self) -> float:
        """In nats."""
        return float(-(self.probabilities * np.log(self.probabilities)).sum()) + 0.0  # never -0.0


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1), by the counter-based generator Philox: any position's without those before it."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=position)).random())


def distribution(logits: torch.Tensor, options: SamplingAcceptance, prefix: Sequence[int]) -> Distribution:
    """What the token after `prefix` (T) is drawn from, by logits (V,): penalty, temperature, top-k, top-p, min-p.

    Of V tokens, all of a probability below (1 - top_p) / V weigh less than 1 - top_p together, so none of them is among
    the most likely that make up top_p: they are left out before anything is compared. In NumPy, on one thread: a row is
    too short to share among threads, and waiting for them takes longer than the work where the cores are busy.
    """
    scores = _penalised(logits.float().cpu().numpy(), options.repetition_penalty, prefix)
    if options.temperature == 0:
        return Distribution(np.array([scores.argmax()], dtype=np.int64), np.ones(1))
    # A temperature near 0 makes the differences infinite, and the weights 0, as they should be.
    with np.errstate(over="ignore"):
        weights: NDArray[np.float32] = np.exp((scores - scores.max()) / np.float32(max(options.temperature, _TINY)))
    if 0 < options.top_k < len(weights):
        weights[scores < np.partition(scores, -options.top_k)[-options.top_k]] = 0.0
    total = float(weights.sum(dtype=np.float64))
    # Half of the bound leaves room for rounding; what is let through needlessly is dropped afterwards.
    bound = 0.5 * (1.0 - options.top_p) * total / len(weights)
    ids = (weights >= np.float32(max(options.min_p, bound, _TINY))).nonzero()[0]
    kept = weights[ids]
    if options.top_p < 1:
        nucleus = _nucleus(kept, total, options.top_p)
        ids, kept = ids[nucleus], kept[nucleus]
    return Distribution(ids, kept / kept.sum(dtype=np.float64))


def _penalised(scores: NDArray[np.float32], penalty: float, prefix: Sequence[int]) -> NDArray[np.float32]:
    """Scores (V,) with those of tokens seen before divided by the penalty, or multiplied where they are negative."""
    if penalty == 1:
        return scores
    seen = np.array(prefix, dtype=np.int64)
    before = scores[seen]
    penalised = scores.copy()
    # A token seen twice is penalised once: both times the same value is written.
    penalised[seen] = np.where(before < 0, before * np.float32(penalty), before / np.float32(penalty))
    return penalised


def _nucleus(weights: NDArray[np.float32], total: float, top_p: float) -> NDArray[np.bool_]:
    """Which of S weights (S,) are the fewest of the most likely that make up `top_p` of the total; at least one.

    What the weights lack of the total belongs to tokens that are less likely than all of them. Positive floats are in
    the order of their bits, so the highest 16 bits sort all tokens into buckets by one pass; only those of the bucket
    at the edge are compared with each other.
    """
    cut = (1.0 - top_p) * total
    buckets = weights.view(np.int32) >> 16
    mass = np.bincount(buckets, weights)
    missing = total - mass.sum()
    if missing > cut:
        return np.ones(len(weights), dtype=np.bool_)
    below = missing + mass.cumsum()  # the probability of each bucket and of everything less likely
    edge = min(int(below.searchsorted(cut, side="right")), len(mass) - 1)
    keep: NDArray[np.bool_] = buckets > edge
    at_edge = (buckets == edge).nonzero()[0]
    at_edge = at_edge[weights[at_edge].argsort(kind="stable")]
    within = below[edge] - mass[edge] + weights[at_edge].cumsum(dtype=np.float64) > cut
    within[-1] = True
    keep[at_edge[within]] = True
    return keep
