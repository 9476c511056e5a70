"""Self-written replies as one long row of tokens and hidden states, split into training and held-out replies.

The hidden states stay in their files, which are mapped into memory: a page is read when a batch needs it, and the
system takes it back when it needs room. Shapes: T tokens of all replies, H hidden. Knows nothing of heads or
optimizers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import torch

from medusa_core.errors import TrainingError
from medusa_core.train.shards import ReplySize, read_shards, reply_sizes

_GOLDEN = 0.6180339887498949  # its multiples modulo 1 fall evenly, also those of every second or third job


class Corpus:
    """Replies end to end. The hidden state at position t is the one that `tokens[t]` was chosen from."""

    def __init__(
        self, replies: Sequence[tuple[Sequence[int], torch.Tensor]], temperatures: Sequence[float] | None = None
    ) -> None:
        """Token ids (n,) and hidden states (n, H) of each reply; the states are kept as they are, not copied.

        `temperatures`: what each reply was written at; greedily where nothing is said.
        """
        self.temperatures = tuple(temperatures) if temperatures is not None else (0.0,) * len(replies)
        lengths = torch.tensor([len(tokens) for tokens, _ in replies])
        self.tokens = torch.tensor([token for tokens, _ in replies for token in tokens])  # (T,) int64
        self._ends = lengths.cumsum(0)
        self.left = self._ends.repeat_interleave(lengths) - 1 - torch.arange(len(self.tokens))
        """(T,) int64: tokens that follow in the same reply."""
        self._states = [states for _, states in replies]

    @property
    def replies(self) -> int:
        """How many replies there are."""
        return len(self._states)

    @property
    def hidden_size(self) -> int:
        """H."""
        return self._states[0].shape[1]

    def states(self, positions: torch.Tensor) -> torch.Tensor:
        """The hidden states (M, H) at positions (M,); runs of neighbours are read together."""
        gathered = self._states[0].new_empty(len(positions), self.hidden_size)
        reply = torch.searchsorted(self._ends, positions, right=True)
        breaks = torch.ones(len(positions), dtype=torch.bool)
        breaks[1:] = (positions.diff() != 1) | (reply.diff() != 0)
        starts = breaks.nonzero()[:, 0]
        rows = (positions - self._ends[reply])[starts].tolist()  # counted from the reply's end: negative
        spans = pairwise([*starts.tolist(), len(positions)])
        for (start, end), number, row in zip(spans, reply[starts].tolist(), rows, strict=True):
            states = self._states[number]
            first = len(states) + row
            gathered[start:end] = states[first : first + end - start]
        return gathered

    def ahead(self, positions: torch.Tensor, distance: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions `distance` tokens later in the same reply, and which of `positions` have one (bool)."""
        valid = self.left[positions] >= distance
        return (positions + distance).clamp_max(len(self.tokens) - 1), valid

    def tokens_by_reply(self) -> Iterator[torch.Tensor]:
        """The tokens (n,) of each reply."""
        return (tokens for _, tokens in self.pieces())

    def pieces(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Hidden states (n, H) and tokens (n,) of each reply."""
        for states, end in zip(self._states, self._ends.tolist(), strict=True):
            yield states, self.tokens[end - len(states) : end]


def load(folder: Path, held_out: float) -> tuple[Corpus, Corpus]:
    """Training and held-out replies of the folder's shards; the same conversations are held out in every run.

    Raises TrainingError where there are not at least two conversations.
    """
    kept = held_out_jobs(reply_sizes(folder), held_out)
    parts: tuple[list[tuple[Sequence[int], torch.Tensor]], ...] = ([], [])
    temperatures: tuple[list[float], ...] = ([], [])
    for reply in read_shards(folder):
        part = reply.job in kept
        parts[part].append((reply.token_ids, reply.hidden))
        temperatures[part].append(reply.temperature)
    return Corpus(parts[0], temperatures[0]), Corpus(parts[1], temperatures[1])


def held_out_jobs(sizes: Sequence[ReplySize], share: float) -> set[int]:
    """The jobs of the replies to hold out: whole conversations, whose turns are the jobs 2 c and 2 c + 1.

    Not every n-th one: temperatures take turns too, and every held-out reply would have the same one. Raises
    TrainingError where there are not at least two conversations.
    """
    conversations = {size.job // 2 for size in sizes}
    if len(conversations) < 2:
        raise TrainingError(
            f"{len(sizes)} replies of {len(conversations)} conversations are too few: at least one conversation to "
            "learn from and one held out are needed. Let the model write more tokens of replies."
        )
    by_place = sorted((number * _GOLDEN % 1, number) for number in conversations)
    kept = [number for place, number in by_place if place < share] or [by_place[0][1]]
    held = set(kept[: len(conversations) - 1])
    return {size.job for size in sizes if size.job // 2 in held}


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
