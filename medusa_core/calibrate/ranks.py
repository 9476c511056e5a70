"""The ranks that heads gave to the tokens that really came, on held-out replies.

One observation is one position of a reply: for each head the rank of the token it should have guessed.
Knows nothing of training or decoding, or of what follows from the ranks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import torch

from medusa_core.events import HeadFit
from medusa_core.heads.medusa import MedusaHeads

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


def measure_fits(
    heads: MedusaHeads, replies: Iterable[tuple[torch.Tensor, torch.Tensor]], max_rank: int
) -> Generator[None, None, tuple[HeadFit, ...]]:
    """The heads' accuracies on replies (see `observe_ranks`); yields after every reply, so that it can be stopped."""
    observed: list[Ranks] = []
    for reply in replies:
        observed += observe_ranks(heads, [reply], max_rank)
        yield
    return head_fits(observed, heads.shape.num_heads)


def head_fits(observed: list[Ranks], num_heads: int) -> tuple[HeadFit, ...]:
    """Top-1 and top-5 accuracy by head."""
    fits = []
    for head in range(num_heads):
        ranks = [row[head] for row in observed if len(row) > head]
        count = max(len(ranks), 1)
        fits.append(HeadFit(sum(r < 1 for r in ranks) / count, sum(r < 5 for r in ranks) / count))
    return tuple(fits)


def _chunk_ranks(heads: MedusaHeads, hidden: torch.Tensor, tokens: torch.Tensor, max_rank: int) -> list[Ranks]:
    """`hidden` (M, H); `tokens` from the same position to the reply's end."""
    width = min(max_rank, heads.shape.draft_vocab_size)
    device = heads.device
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
