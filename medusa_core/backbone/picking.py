"""The largest logits of every row: one pass over a vocabulary instead of a sort of it.

On the CPU in one kernel where numba is there, in PyTorch elsewhere. Knows nothing of who asks.
Shapes: N rows, V vocabulary.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from medusa_core.records import Largest, Scores

KEPT = 8  # of every row, for whoever asks
_CHUNK = 64  # of the vocabulary, whose largest decides whether it is looked at closer
_WORTH_THREADS = 2  # rows


def best(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest logits of every row and their token ids, (N, V) -> (N, count) each, descending."""
    rows, vocab = logits.shape
    count = min(count, vocab)
    pick = _kernel() if logits.device.type == "cpu" and logits.dtype == torch.float32 and count else None
    if pick is None:
        return _best(logits, count)
    values, ids = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    threads = torch.get_num_threads() if rows >= _WORTH_THREADS else 1
    pick(logits.detach().contiguous().numpy(), values.numpy(), ids.numpy(), threads)
    return values, ids


def largest(logits: torch.Tensor) -> Largest | None:
    """What rules and drafters want to know of logits (N, V), from one look at them; None where looking is cheap."""
    return Largest(*best(logits, KEPT)) if logits.device.type == "cpu" else None


def best_of(scores: Scores) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logits of every node and their token ids, (N, `KEPT`) each, descending."""
    if scores.largest is None:
        return best(scores.logits, KEPT)
    return scores.largest.values, scores.largest.token_ids


def choices_of(scores: Scores) -> list[int]:
    """The model's most likely token after every node."""
    if scores.largest is None:
        return likeliest(scores.logits)
    return list(scores.largest.token_ids[:, 0].tolist())


def likeliest(logits: torch.Tensor) -> list[int]:
    """The token id of the largest logit of every row (N, V)."""
    if logits.device.type != "cpu":
        return list(logits.argmax(-1).tolist())
    return [ids[0] for ids in best(logits, 1)[1].tolist()]


def _best(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The best of the vocabulary are among the best chunks of it by their maxima: one fast pass, not a slow one."""
    rows, vocab = logits.shape
    whole = vocab - vocab % _CHUNK
    if logits.device.type != "cpu" or whole < 4 * count * _CHUNK:
        values, indices = logits.topk(count, dim=-1)
        return values, indices
    chunks = logits[:, :whole].unflatten(1, (-1, _CHUNK))
    places = chunks.amax(-1).topk(count, dim=-1).indices
    values = chunks[torch.arange(rows)[:, None], places].flatten(1)
    ids = (places[..., None] * _CHUNK + torch.arange(_CHUNK)).flatten(1)
    rest = torch.arange(whole, vocab).expand(rows, -1)
    values, found = torch.cat((values, logits[:, whole:]), 1).topk(count, dim=-1)
    return values, torch.cat((ids, rest), 1).gather(1, found)


@cache
def _kernel() -> Any:
    try:
        from medusa_core.backbone.picking_kernel import pick
    except (ImportError, OSError):  # numba is not there, or does not work here
        return None
    return pick
