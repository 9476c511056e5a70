"""Self-written replies as one long row of tokens and hidden states, split into training and held-out replies.

Shapes: T tokens of all replies, H hidden. Knows nothing of heads or optimizers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from medusa_core.errors import TrainingError
from medusa_core.train.room import check_memory
from medusa_core.train.shards import Reply, ReplySize, read_shards, reply_sizes

_GOLDEN = 0.6180339887498949  # its multiples modulo 1 fall evenly, also those of every second or third job


@dataclass(frozen=True, slots=True)
class Corpus:
    """Replies end to end. `hidden[t]` is the state that `tokens[t]` was chosen from."""

    tokens: torch.Tensor  # (T,) int64
    hidden: torch.Tensor  # (T, H)
    left: torch.Tensor  # (T,) int64: tokens that follow in the same reply
    replies: int

    def ahead(self, positions: torch.Tensor, distance: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions `distance` tokens later in the same reply, and which of `positions` have one (bool)."""
        valid = self.left[positions] >= distance
        return (positions + distance).clamp_max(len(self.tokens) - 1), valid

    def pieces(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Hidden states (n, H) and tokens (n,) of each reply."""
        start = 0
        while start < len(self.tokens):
            end = start + int(self.left[start]) + 1
            yield self.hidden[start:end], self.tokens[start:end]
            start = end


def load(folder: Path, held_out: float) -> tuple[Corpus, Corpus]:
    """Training and held-out replies of the folder's shards; the same jobs are held out in every run.

    All hidden states are held in memory, 2 H bytes a token: raises OutOfMemory before reading where they do not fit,
    TrainingError where there are not at least two replies.
    """
    sizes = reply_sizes(folder)
    if len(sizes) < 2:
        raise TrainingError(
            f"{len(sizes)} replies are too few: at least one to learn from and one held out are needed. "
            "Let the model write more tokens (--tokens)."
        )
    kept = _held_out_jobs(sizes, held_out)
    hidden = next(read_shards(folder)).hidden
    tokens = sum(size.tokens for size in sizes)
    check_memory(
        torch.device("cpu"),
        tokens * (hidden.shape[1] * hidden.element_size() + 16),
        f"The hidden states of {tokens} training tokens",
        "Close other programs, or train on fewer tokens (another --data with a smaller --tokens).",
    )
    parts = tuple(_Filling([size for size in sizes if (size.job in kept) is part], hidden) for part in (False, True))
    for reply in read_shards(folder):
        parts[reply.job in kept].add(reply)
    return parts[0].corpus, parts[1].corpus


def _held_out_jobs(sizes: list[ReplySize], share: float) -> set[int]:
    """Not every n-th job: temperatures take turns too, and every held-out reply would have the same one."""
    by_place = sorted((size.job * _GOLDEN % 1, size.job) for size in sizes)
    kept = [job for place, job in by_place if place < share] or [by_place[0][1]]
    return set(kept[: len(sizes) - 1])


class _Filling:
    """A corpus of known size that replies are copied into one by one, so that no second copy is ever in memory."""

    def __init__(self, sizes: list[ReplySize], like: torch.Tensor) -> None:
        total = sum(size.tokens for size in sizes)
        self.corpus = Corpus(
            tokens=torch.empty(total, dtype=torch.long),
            hidden=like.new_empty(total, like.shape[1]),
            left=torch.empty(total, dtype=torch.long),
            replies=len(sizes),
        )
        self._end = 0

    def add(self, reply: Reply) -> None:
        count = len(reply.token_ids)
        rows = slice(self._end, self._end + count)
        self.corpus.tokens[rows] = torch.tensor(reply.token_ids)
        self.corpus.hidden[rows] = reply.hidden
        self.corpus.left[rows] = torch.arange(count - 1, -1, -1)
        self._end += count


def draft_vocabulary(corpus: Corpus, size: int, vocab_size: int) -> tuple[torch.Tensor | None, float]:
    """The `size` most frequent token ids (ascending), and the share of the corpus's tokens they cover.

    None where `size` is 0 or not smaller than the vocabulary: then nothing is left out.
    """
    if size == 0 or size >= vocab_size:
        return None, 1.0
    counts = torch.bincount(corpus.tokens, minlength=vocab_size)
    # Stable, so that ties go to the lower ids: byte-level vocabularies list the frequent pieces first.
    order = counts.argsort(descending=True, stable=True)[:size]
    return order.sort().values, float(counts[order].sum() / counts.sum())
