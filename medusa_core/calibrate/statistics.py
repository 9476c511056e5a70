"""Measure a set of heads on held-out replies: paths of ranks, accuracies, and how far to trust its probabilities.

Replies written greedily and replies drawn at random are counted apart. Knows nothing of where replies come from, of
training or of decoding.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence

import torch

from medusa_core.calibrate.ranks import Ranks, observe_ranks
from medusa_core.events import Progress
from medusa_core.head_statistics import HeadStatistics, PathStatistics, most_frequent
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.tree_search import count_paths

_KEPT_PATHS = 2000  # the best tree of 256 nodes never looks further
_FIT_POSITIONS = 2048  # temperatures are one number a head: more positions change nothing that shows
_FIT_LOGITS = 2**26  # of one head at once: 256 MiB
_COLDEST, _WARMEST = 0.1, 10.0
_NEWTON_STEPS = 30
_STAGE = "Measuring the heads"
_REPORT_SECONDS = 1.0

DTYPE_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}  # as options call them

HeldOut = tuple[torch.Tensor, torch.Tensor]  # hidden (n, H), tokens (n,)


def calibrate_heads(
    heads: MedusaHeads,
    replies: Iterable[HeldOut],
    temperatures: Iterable[float],
    *,
    max_rank: int,
    precision: str,
) -> HeadStatistics:
    """Statistics over held-out replies: states (n, H), tokens (n,), and the temperature each was written at.

    `statistics.together.tree(draft_nodes)` is the best tree.
    """
    work = measure_heads(heads, list(replies), list(temperatures), max_rank=max_rank, precision=precision)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: HeadStatistics = end.value
            return found


def measure_heads(
    heads: MedusaHeads, replies: Sequence[HeldOut], temperatures: Sequence[float], *, max_rank: int, precision: str
) -> Generator[Progress, None, HeadStatistics]:
    """The same, with its progress in positions; stopped between two reports nothing is left behind."""
    num_heads, total = heads.shape.num_heads, sum(len(tokens) for _, tokens in replies)
    observed: dict[bool, list[Ranks]] = {True: [], False: []}
    sample, done, reported = _Sample(heads), 0, time.monotonic()
    for (hidden, tokens), temperature in zip(replies, temperatures, strict=True):
        observed[temperature == 0] += observe_ranks(heads, [(hidden, tokens)], max_rank)
        sample.add(hidden, tokens)
        done += len(tokens)
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            yield Progress(_STAGE, done, total, "positions")
    fitted: list[float] = []
    for head in range(num_heads):
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            yield Progress(_STAGE, done, total, "positions")
        fitted.append(sample.temperature(head))
    return HeadStatistics(
        greedy=path_statistics(observed[True], num_heads, max_rank),
        sampled=path_statistics(observed[False], num_heads, max_rank),
        temperatures=tuple(fitted),
        precision=precision,
    )


def path_statistics(observed: list[Ranks], num_heads: int, max_rank: int) -> PathStatistics:
    """Counts over observed steps, as `observe_ranks` gives them."""
    tried, hits = [], []
    for head in range(num_heads):
        ranks = [row[head] for row in observed if len(row) > head]
        tried.append(len(ranks))
        hits.append(tuple(ranks.count(rank) for rank in range(max_rank)))
    return PathStatistics(
        steps=len(observed),
        tried=tuple(tried),
        hits=tuple(hits),
        paths=most_frequent(count_paths(observed, max_rank), _KEPT_PATHS),
    )


class _Sample:
    """Positions spread evenly over the replies, for fitting each head's temperature."""

    def __init__(self, heads: MedusaHeads) -> None:
        self._heads = heads
        self._limit = max(min(_FIT_POSITIONS, _FIT_LOGITS // heads.shape.draft_vocab_size), 1)
        self._stride, self._seen = 1, 0
        self._rows: list[tuple[torch.Tensor, torch.Tensor]] = []  # state (H,), the root and what followed (1 + K,)

    def add(self, hidden: torch.Tensor, tokens: torch.Tensor) -> None:
        """Take every `stride`-th position; once there are too many, every other one is dropped."""
        num_heads = self._heads.shape.num_heads
        for position in range(len(tokens)):
            if self._seen % self._stride == 0:
                ahead = tokens.new_full((1 + num_heads,), -1)
                known = tokens[position : position + 1 + num_heads]
                ahead[: len(known)] = known
                self._rows.append((hidden[position].clone(), ahead))  # a view would keep the whole reply
                if len(self._rows) > 2 * self._limit:
                    self._rows, self._stride = self._rows[::2], 2 * self._stride
            self._seen += 1

    @torch.inference_mode()
    def temperature(self, head: int) -> float:
        """Of the head (0-based) whose probabilities, softmax(logits / T), give the tokens that came most likelihood.

        Tokens that the head cannot guess are left out; where none is left the temperature is 1.
        """
        logits, labels = self._scored(head)
        return fit_temperature(logits, labels) if len(labels) else 1.0

    def _scored(self, head: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (M, V') of one head and the index of the token that came (M,), where there is one."""
        shape, device = self._heads.shape, self._heads.device
        index = torch.arange(shape.vocab_size, device=device)
        if self._heads.token_map is not None:
            index = torch.full_like(index, -1)
            index[self._heads.token_map] = torch.arange(shape.draft_vocab_size, device=device)
        parts, labels = [torch.empty(0, shape.draft_vocab_size, device=device)], [index[:0]]
        for states, ahead in self._chunks():
            wanted = ahead[:, 1 + head].to(device)
            label = torch.where(wanted >= 0, index[wanted.clamp_min(0)], -1)
            logits = self._heads(states.to(device), ahead[:, 0].to(device))[head]
            parts.append(logits[label >= 0].float())
            labels.append(label[label >= 0])
        return torch.cat(parts), torch.cat(labels)

    def _chunks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        rows = self._rows[:: -(-len(self._rows) // self._limit) or 1]
        size = 256  # all K heads are computed for it
        for start in range(0, len(rows), size):
            states, ahead = zip(*rows[start : start + size], strict=True)
            yield torch.stack(states), torch.stack(ahead)


def fit_temperature(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """The T that minimises the mean of -log softmax(logits / T)[label]; logits (M, V'), labels (M,).

    In 1 / T that mean is convex, its slope being E[z] - z_label and its curvature Var[z], z the logits under the
    scaled distribution: Newton's method, kept within T from 0.1 to 10 and to a factor of two a step.
    """
    wanted = logits.gather(1, labels[:, None])[:, 0].double().mean()
    scale = 1.0  # 1 / T
    for _ in range(_NEWTON_STEPS):
        probabilities = (logits * scale).softmax(-1)
        mean = (probabilities * logits).sum(-1)
        slope = float(mean.double().mean() - wanted)
        curvature = float(((probabilities * logits.square()).sum(-1) - mean.square()).double().mean())
        target = scale - slope / max(curvature, 1e-9)
        moved = min(max(target, scale / 2, 1 / _WARMEST), scale * 2, 1 / _COLDEST)
        if abs(moved - scale) < 1e-5 * scale:
            break
        scale = moved
    return round(1 / scale, 4)
