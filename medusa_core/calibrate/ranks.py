"""The ranks that heads gave to the tokens that really came, on held-out replies, and the sparse tree they call for.

One observation is one position of a reply: for each head the rank of the token it should have guessed. Paths are
counted as they occurred, so no independence of the heads is assumed. Knows nothing of training or decoding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch

from medusa_core.events import HeadFit
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.tree import RankedTree
from medusa_core.tree_search import Path, count_paths, expected_tokens, tree_from_paths

Ranks = tuple[int, ...]
_CHUNK_LOGITS = 2**25  # at once: 128 MiB, whatever the vocabulary


@torch.inference_mode()
def observe_ranks(
    heads: MedusaHeads, replies: Iterable[tuple[torch.Tensor, torch.Tensor]], max_rank: int
) -> list[Ranks]:
    """For every position of every reply (hidden (n, H), tokens (n,)): the rank by head, `max_rank` where beyond it.

    Near a reply's end fewer heads have a token to guess, so the tuple is shorter there.
    """
    chunk = max(_CHUNK_LOGITS // (heads.shape.num_heads * heads.shape.draft_vocab_size), 1)
    observed: list[Ranks] = []
    for hidden, tokens in replies:
        for start in range(0, len(tokens), chunk):
            observed += _chunk_ranks(heads, hidden[start : start + chunk], tokens[start:], max_rank)
    return observed


def head_fits(observed: list[Ranks], num_heads: int) -> tuple[HeadFit, ...]:
    """Top-1 and top-5 accuracy by head."""
    fits = []
    for head in range(num_heads):
        ranks = [row[head] for row in observed if len(row) > head]
        count = max(len(ranks), 1)
        fits.append(HeadFit(sum(r < 1 for r in ranks) / count, sum(r < 5 for r in ranks) / count))
    return tuple(fits)


def calibrated_tree(observed: list[Ranks], draft_nodes: int, max_rank: int) -> tuple[RankedTree, Counter[Path]]:
    """The best tree of `draft_nodes` draft nodes for these observations, and the path counts behind it."""
    counts = count_paths(observed, max_rank)
    return tree_from_paths(counts, draft_nodes + 1), counts


def expected_by_size(tree: RankedTree, counts: Counter[Path], steps: int) -> dict[int, float]:
    """Expected tokens a step for 4, 8, 16, 32 and 64 draft nodes, as far as the tree has them."""
    sizes = [size for size in (4, 8, 16, 32, 64) if size < len(tree.tree)]
    return {size: round(expected_tokens(tree.first(size + 1), counts, steps), 4) for size in sizes}


def _chunk_ranks(heads: MedusaHeads, hidden: torch.Tensor, tokens: torch.Tensor, max_rank: int) -> list[Ranks]:
    """`hidden` (M, H); `tokens` from the same position to the reply's end."""
    width = min(max_rank, heads.shape.draft_vocab_size)
    device = heads.w1.device
    logits = heads(hidden.to(device), tokens[: len(hidden)].to(device))
    guesses = heads.token_ids(logits.topk(width, dim=-1).indices)  # (K, M, width)
    rows: list[list[int]] = [[] for _ in range(len(hidden))]
    for head, ranked in enumerate(guesses):
        wanted = tokens[head + 1 : head + 1 + len(hidden)].to(device)
        hits = ranked[: len(wanted)] == wanted[:, None]
        ranks = torch.where(hits.any(-1), hits.int().argmax(-1), max_rank).tolist()
        for row, rank in zip(rows, ranks, strict=False):
            row.append(rank)
    return [tuple(row) for row in rows]
