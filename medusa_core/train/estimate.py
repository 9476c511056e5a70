"""How long a training will take and what it needs on the disk, from a few seconds of the real thing.

The model writes replies for a while, which are kept and count; then the heads take a few steps on made-up states.
Knows nothing of command lines or windows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.events import Progress
from medusa_core.prompt_file import FilePrompt
from medusa_core.text import ChatText
from medusa_core.train import processes
from medusa_core.train.corpus import Corpus
from medusa_core.train.distill import distill
from medusa_core.train.medusa1 import HeadsObjective, new_heads
from medusa_core.train.one_by_one import batched
from medusa_core.train.room import exclusive

PROBE_SECONDS = 20.0
_WRITING = 0.75  # of the seconds
_LEAST_REPORTS = 3  # of the writing: where filling the places takes long, the probe does too
_TIMED_STEPS = 3
_TOKEN_BYTES = 8  # beside its hidden state
_STATE_BYTES = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was found; asked for any number of tokens."""

    written: int  # reply tokens that are there already
    tokens_per_second: float  # that the model writes; 0 where nothing had to be written
    step_seconds: float  # of training
    token_bytes: int  # that a reply token takes on the disk
    batch: int  # tokens learned from in a step
    epochs: int

    def seconds(self, tokens: int) -> float:
        """Until heads trained on so many tokens are there, measuring them left out."""
        writing = max(0, tokens - self.written) / self.tokens_per_second if self.tokens_per_second else 0.0
        return writing + math.ceil(tokens / self.batch) * self.epochs * self.step_seconds

    def disk_bytes(self, tokens: int) -> int:
        """What the replies will have taken in the end."""
        return tokens * self.token_bytes


def estimate(
    backbone: Backbone,
    text: ChatText,
    work: Path,
    data: DistillConfig,
    config: TrainConfig,
    file: Sequence[FilePrompt] = (),
    *,
    seconds: float = PROBE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Progress, None, Estimate]:
    """Try it for about so many seconds. Raises what the training itself would raise."""
    writer, writing = batched(backbone, data)
    started = clock()
    seen: list[tuple[float, float]] = []  # when, and how many reply tokens there were
    with exclusive(work), closing(distill(writer, text, work / "replies", writing, file)) as replies:
        for progress in replies:
            now = clock()
            seen.append((now, progress.done))
            yield Progress("Trying how fast the model writes", min(now - started, seconds), seconds, "s")
            if now - started >= _WRITING * seconds and len(seen) >= _LEAST_REPORTS:
                break
    # Before the second report all places were filled, which says nothing of how fast it goes on.
    (first, before), (last, after) = seen[1 if len(seen) >= _LEAST_REPORTS else 0], seen[-1]
    step = yield from _step_seconds(backbone, config, clock, started, seconds)
    hidden = backbone.spec.hidden_size
    return Estimate(
        written=int(seen[0][1]),
        tokens_per_second=(after - before) / (last - first) if last > first else 0.0,
        step_seconds=step,
        token_bytes=hidden * _STATE_BYTES + _TOKEN_BYTES,
        batch=config.batch_positions,
        epochs=config.epochs,
    )


def _step_seconds(
    backbone: Backbone, config: TrainConfig, clock: Callable[[], float], started: float, seconds: float
) -> Generator[Progress, None, float]:
    """Time of a training step, the median of a few, on states and tokens that mean nothing."""
    count = 2 * config.batch_positions
    tokens = (torch.arange(count) % backbone.spec.vocab_size).tolist()
    states = torch.randn(count, backbone.spec.hidden_size, generator=torch.Generator().manual_seed(0))
    corpus = Corpus([(tokens, states.bfloat16())])
    heads, _ = new_heads(backbone, corpus, config)
    objective = HeadsObjective(heads, corpus, backbone.output_weight, config)
    optimizer = torch.optim.AdamW([each for each in objective.parameters() if each.requires_grad], lr=0.0)
    items = torch.arange(config.batch_positions)
    half = processes.precision(backbone.device, config.mixed_precision) == "bf16"
    times: list[float] = []
    for _ in range(1 + _TIMED_STEPS):
        yield Progress("Trying how fast heads learn", min(clock() - started, seconds), seconds, "s")
        before = clock()
        with torch.autocast(backbone.device.type, torch.bfloat16, enabled=half):
            loss = objective(items, objective.counts(items))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if backbone.device.type == "cuda":
            torch.cuda.synchronize(backbone.device)
        times.append(clock() - before)
    return sorted(times[1:])[_TIMED_STEPS // 2]
