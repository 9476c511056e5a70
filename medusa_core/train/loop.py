"""The training loop: AdamW, cosine with warm-up, clipping, checkpoints; killed at any time it goes on where it was.

What a step computes is a function it is given, so Medusa-1 and its relatives share it. The order of the data follows
from the seed and the step number alone, hence a resumed run repeats the unbroken one. Knows nothing of heads.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from medusa_core.config import TrainConfig
from medusa_core.errors import TrainingError
from medusa_core.events import HeadFit, TrainingStep

_REPORT_SECONDS = 2.0


def fit(
    module: nn.Module,
    loss: Callable[[torch.Tensor], torch.Tensor],
    evaluate: Callable[[], tuple[HeadFit, ...]],
    positions: int,
    config: TrainConfig,
    work: Path,
) -> Iterator[TrainingStep]:
    """Train `module`'s trainable parameters in place.

    `loss` takes the positions (M,) of a batch, numbers below `positions`; `evaluate` is called after every epoch.
    Checkpoints go to the folder `work`; one of another configuration is refused with TrainingError.
    """
    per_epoch = max(math.ceil(positions / config.batch_positions), 1)
    total = per_epoch * config.epochs
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        raise TrainingError("There is nothing to train: every parameter is frozen.")
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    checkpoint = _Checkpoint(work / "training.pt", config, positions)
    step = checkpoint.restore(module, optimizer)
    smoothed, started = float("nan"), time.monotonic()
    reported = saved = started
    order, order_epoch = torch.empty(0, dtype=torch.long), -1
    while step < total:
        epoch, place = divmod(step, per_epoch)
        if epoch != order_epoch:
            order, order_epoch = _order(positions, config.seed, epoch), epoch
        rate = _learning_rate(step, total, config)
        for group in optimizer.param_groups:
            group["lr"] = rate
        value = loss(order[place * config.batch_positions : (place + 1) * config.batch_positions])
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        smoothed = value.item() if math.isnan(smoothed) else 0.98 * smoothed + 0.02 * value.item()
        now = time.monotonic()
        if now - saved >= config.checkpoint_seconds or step == total:
            checkpoint.save(module, optimizer, step)
            saved = now
        if step % per_epoch == 0:
            yield TrainingStep(step, total, smoothed, rate, now - started, evaluate())
        elif now - reported >= _REPORT_SECONDS:
            reported = now
            yield TrainingStep(step, total, smoothed, rate, now - started)


def _order(positions: int, seed: int, epoch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return torch.randperm(positions, generator=generator)


def _learning_rate(step: int, total: int, config: TrainConfig) -> float:
    """Linear warm-up, then half a cosine to a tenth."""
    warmup = max(round(config.warmup * total), 1)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(total - warmup, 1)
    return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


class _Checkpoint:
    """The state of an unfinished training, written whole or not at all."""

    def __init__(self, path: Path, config: TrainConfig, positions: int) -> None:
        self._path = path
        described = json.dumps({**asdict(config), "positions": positions}, sort_keys=True)
        self._key = hashlib.sha256(described.encode()).hexdigest()

    def restore(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Load what is there; returns the steps already done."""
        if not self._path.exists():
            return 0
        try:
            state = torch.load(self._path, weights_only=True)
        except (OSError, RuntimeError, EOFError) as error:
            raise TrainingError(f"{self._path} is damaged ({error}); delete it to train from the start.") from error
        if state["key"] != self._key:
            raise TrainingError(
                f"{self._path} belongs to a training with other options or other data. "
                "Give the same options to go on with it, or delete it to start anew."
            )
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])

    def save(self, module: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        state = {
            "key": self._key,
            "module": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
        }
        torch.save(state, part)
        os.replace(part, self._path)
