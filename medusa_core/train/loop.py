"""The training loop: AdamW, cosine with warm-up, clipping, checkpoints; killed at any time it goes on where it was.

What a step computes is a function it is given, so Medusa-1 and its relatives share it. The order of the data follows
from the seed and the step number alone, hence a resumed run repeats the unbroken one. Knows nothing of heads.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import time
from collections.abc import Callable, Generator
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from medusa_core.config import TrainConfig
from medusa_core.errors import DiskFull, TrainingError
from medusa_core.events import HeadFit, TrainingStep

_REPORT_SECONDS = 2.0
_RUN = 16  # neighbouring positions that stay together in the shuffled order


def fit(
    module: nn.Module,
    loss: Callable[[torch.Tensor], torch.Tensor],
    evaluate: Callable[[], tuple[HeadFit, ...]],
    positions: int,
    config: TrainConfig,
    work: Path,
) -> Generator[TrainingStep, None, float]:
    """Train `module`'s trainable parameters in place; returns the loss at the end, smoothed.

    `loss` takes the positions (M,) of a batch, numbers below `positions`; `evaluate` is called after every epoch.
    Checkpoints go to the folder `work`; one of another configuration is refused. Raises TrainingError or DiskFull.
    """
    per_epoch = max(math.ceil(positions / config.batch_positions), 1)
    total = per_epoch * config.epochs
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        raise TrainingError("There is nothing to train: every parameter is frozen.")
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    checkpoint = _Checkpoint(work / "training.pt", config, positions)
    step, smoothed = checkpoint.restore(module, optimizer)
    reported = saved = started = time.monotonic()
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
        if not bool(nn.utils.clip_grad_norm_(parameters, 1.0).isfinite()):
            # Before the step: a checkpoint must never hold weights that are not numbers.
            raise TrainingError(
                f"The gradient is no longer finite at step {step + 1}. Lower the learning rate (--learning-rate)."
            )
        optimizer.step()
        step += 1
        smoothed = value.item() if math.isnan(smoothed) else 0.98 * smoothed + 0.02 * value.item()
        now = time.monotonic()
        if now - saved >= config.checkpoint_seconds or step == total:
            checkpoint.save(module, optimizer, step, smoothed)
            saved = now
        if step % per_epoch == 0:
            yield TrainingStep(step, total, smoothed, rate, now - started, evaluate())
        elif now - reported >= _REPORT_SECONDS:
            reported = now
            yield TrainingStep(step, total, smoothed, rate, now - started)
    return smoothed


def _order(positions: int, seed: int, epoch: int) -> torch.Tensor:
    """Every position once: runs of neighbours, the runs shuffled, their borders elsewhere in every epoch.

    Neighbours stay together because labels that look ahead overlap, and a shared label is computed once.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    shift = int(torch.randint(_RUN, (), generator=generator))
    starts = torch.arange(-shift, positions, _RUN)
    starts = starts[torch.randperm(len(starts), generator=generator)]
    order = (starts[:, None] + torch.arange(_RUN)).flatten()
    return order[(order >= 0) & (order < positions)]


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

    def restore(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
        """Load what is there; returns the steps already done and the smoothed loss, NaN before the first step."""
        if not self._path.exists():
            return 0, float("nan")
        try:
            state = torch.load(self._path, map_location="cpu", weights_only=True)
            key, step, smoothed = state["key"], int(state["step"]), float(state["loss"])
        except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
            raise TrainingError(f"{self._path} is damaged ({error}); delete it to train from the start.") from error
        if key != self._key:
            raise TrainingError(
                f"{self._path} belongs to a training with other options or other data. "
                "Give the same options to go on with it, or delete it to start anew."
            )
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        return step, smoothed

    def save(self, module: nn.Module, optimizer: torch.optim.Optimizer, step: int, smoothed: float) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        state = {
            "key": self._key,
            "module": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "loss": smoothed,
        }
        try:
            torch.save(state, part)
            os.replace(part, self._path)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError without an errno
            part.unlink(missing_ok=True)
            raise DiskFull(
                f"The checkpoint {self._path} could not be written ({error}); free some space and start again. "
                "The checkpoint before it is kept."
            ) from error
