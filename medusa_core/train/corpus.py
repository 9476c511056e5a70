"""Self-written replies as one long row of tokens and hidden states, split into training and held-out replies.

Shapes: T tokens of all replies, H hidden. Knows nothing of heads or optimizers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from medusa_core.errors import TrainingError
from medusa_core.train.shards import Reply


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


def split(replies: Iterable[Reply], held_out: float) -> tuple[Corpus, Corpus]:
    """Training and held-out replies; every 1 / held_out-th prompt is held out, the same ones in every run."""
    every = max(round(1 / held_out), 2)
    training: list[Reply] = []
    kept: list[Reply] = []
    for reply in replies:
        (kept if reply.job % every == 0 else training).append(reply)
    if not training or not kept:
        raise TrainingError(
            f"There are {len(training)} training and {len(kept)} held-out replies; at least one of each is needed. "
            "Let the model write more tokens (--tokens)."
        )
    return _join(training), _join(kept)


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


def _join(replies: list[Reply]) -> Corpus:
    return Corpus(
        tokens=torch.tensor([token for reply in replies for token in reply.token_ids]),
        hidden=torch.cat([reply.hidden for reply in replies]),
        left=torch.cat([torch.arange(len(reply.token_ids) - 1, -1, -1) for reply in replies]),
        replies=len(replies),
    )
