"""The training loop: AdamW, cosine with warm-up, clipping, checkpoints; killed at any time it goes on where it was.

What a step computes is an `Objective`, so Medusa-1 and its relatives share the loop. The order of the data follows
from the seed and the step number alone, hence a resumed run repeats the unbroken one, and every process of several
knows the whole batch: the loss of a step does not depend on how many processes or parts share it.
Knows nothing of heads.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from medusa_core.config import TrainConfig
from medusa_core.errors import TrainingError
from medusa_core.events import HeadFit, TrainingStep
from medusa_core.train.resume import Resume

if TYPE_CHECKING:
    from accelerate import Accelerator

_REPORT_SECONDS = 2.0

Evaluation = Generator[None, None, tuple[HeadFit, ...]]  # yields on its way, so that it can be stopped there


class Objective(nn.Module, ABC):
    """What is trained, and its loss: J terms with weights w_j, each a mean over the labels that it has in a batch.

    The module holds everything that is trained. Items are numbers below `Batches.items`: positions, replies, ....
    Tensors of items and counts may arrive on the device of the parameters.
    """

    @abstractmethod
    def counts(self, items: torch.Tensor) -> torch.Tensor:
        """How many labels each loss term has in these items: (J,) int64. Cheap: called on whole batches, and once on
        all items."""

    @abstractmethod
    def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The share that these items (M,), M at least 1, have in their batch's loss, a scalar:

        sum over j of w_j * (sum of the items' losses of term j) / counts_j, `counts` (J,) being those of the whole
        batch, of which the items may be a part. Where counts_j is 0 the term is 0.
        """

    def at(self, progress: float) -> None:
        """Called before each step with the share of the steps that is done, 0 <= progress < 1."""

    def parameter_groups(self) -> list[tuple[Sequence[nn.Parameter], float]]:
        """Groups of parameters to train, each with its multiple of the learning rate."""
        return [([parameter for parameter in self.parameters() if parameter.requires_grad], 1.0)]

    def frozen(self) -> dict[str, torch.Tensor]:
        """What training must not change, by name: its sums are compared at the end. Plain (dense) tensors."""
        fixed = {name: tensor for name, tensor in self.named_parameters() if not tensor.requires_grad}
        return {**fixed, **dict(self.named_buffers())}

    def term(self, number: int) -> str:
        """The name of a loss term, for messages."""
        return f"head {number + 1}"


@dataclass(frozen=True, slots=True)
class Batches:
    """Every item once an epoch: runs of neighbours, the runs shuffled, their borders elsewhere in every epoch.

    Neighbours stay together because labels that look ahead overlap, and a shared label is computed once.
    """

    items: int
    size: int
    seed: int
    run: int = 1  # neighbouring items that stay together

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch; the last one can be smaller."""
        return max(math.ceil(self.items / self.size), 1)

    def order(self, epoch: int) -> torch.Tensor:
        """The items (items,) in the order of this epoch."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        shift = int(torch.randint(self.run, (), generator=generator))
        starts = torch.arange(-shift, self.items, self.run)
        starts = starts[torch.randperm(len(starts), generator=generator)]
        order = (starts[:, None] + torch.arange(self.run)).flatten()
        return order[(order >= 0) & (order < self.items)]


def fit(
    objective: Objective,
    evaluate: Callable[[], Evaluation],
    batches: Batches,
    config: TrainConfig,
    work: Path,
    accelerator: Accelerator,
) -> Generator[TrainingStep, None, float]:
    """Train the objective's parameters in place; returns the loss at the end, smoothed.

    Only the main process of several yields events, writes and calls `evaluate`, after every epoch. Checkpoints go to
    the folder `work`; one of another configuration is refused. Raises TrainingError or DiskFull.
    """
    guard = _Guard(objective, batches)
    training = _Training(objective, batches, config, accelerator)
    resume = Resume(work / "training.pt", config, batches.items)
    training.step, training.loss = resume.restore(objective, training.optimizer)
    accelerator.wait_for_everyone()  # before the main process replaces the checkpoint
    reported = saved = started = time.monotonic()
    while training.step < training.total:
        rate = training.advance()
        step, total, loss = training.step, training.total, training.loss
        if step == total:
            guard.check()
        if not accelerator.is_main_process:
            continue
        now = time.monotonic()
        if now - saved >= config.checkpoint_seconds or step == total:
            resume.save(objective, training.optimizer, step, loss)
            saved = now
        evaluated = step % batches.per_epoch == 0
        if evaluated or now - reported >= _REPORT_SECONDS:
            reported = now
            try:
                report = TrainingStep(step, total, loss, rate, now - started)
                yield replace(report, heads=(yield from _evaluated(evaluate, report))) if evaluated else report
            except GeneratorExit:  # paused: nothing of what was learned is lost
                resume.save(objective, training.optimizer, step, loss)
                raise
    training.end()
    return training.loss


def _evaluated(
    evaluate: Callable[[], Evaluation], report: TrainingStep
) -> Generator[TrainingStep, None, tuple[HeadFit, ...]]:
    """What was found; until then the step is reported again and again."""
    work, reported = evaluate(), time.monotonic()
    while True:
        try:
            next(work)
        except StopIteration as end:
            fits: tuple[HeadFit, ...] = end.value
            return fits
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            yield report


class _Training:
    """The state between steps: parameters, optimizer, the step reached and the smoothed loss."""

    def __init__(self, objective: Objective, batches: Batches, config: TrainConfig, accelerator: Accelerator) -> None:
        self._objective, self._batches, self._config, self._accelerator = objective, batches, config, accelerator
        self.total = batches.per_epoch * config.epochs
        self.step, self.loss = 0, float("nan")
        groups: list[dict[str, Any]] = [
            {"params": list(parameters), "lr": config.learning_rate, "multiple": multiple}
            for parameters, multiple in objective.parameter_groups()
        ]
        self._trained = [parameter for group in groups for parameter in group["params"]]
        optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        self._model, self.optimizer = accelerator.prepare(objective, optimizer)
        self._order, self._epoch = torch.empty(0, dtype=torch.long), -1

    def advance(self) -> float:
        """One step; returns its learning rate."""
        batch = self._batch()
        self._objective.at(self.step / self.total)
        rate = _learning_rate(self.step, self.total, self._config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["multiple"]
        self.optimizer.zero_grad(set_to_none=True)
        counts = self._objective.counts(batch)
        loss = _gradients(self._model, counts, batch, self._config.accumulate, self._accelerator)
        _check_finite(loss, self._accelerator.clip_grad_norm_(self._trained, 1.0), self.step)
        self.optimizer.step()
        self.step += 1
        self.loss = loss if math.isnan(self.loss) else 0.98 * self.loss + 0.02 * loss
        return rate

    def end(self) -> None:
        """Wait for the others; the objective is again what it was before."""
        self._accelerator.wait_for_everyone()
        self._accelerator.unwrap_model(self._model, keep_fp32_wrapper=False)
        self._accelerator.free_memory()

    def _batch(self) -> torch.Tensor:
        epoch, place = divmod(self.step, self._batches.per_epoch)
        if epoch != self._epoch:
            self._order, self._epoch = self._batches.order(epoch), epoch
        return self._order[place * self._batches.size : (place + 1) * self._batches.size]


def _gradients(
    model: nn.Module, counts: torch.Tensor, batch: torch.Tensor, accumulate: int, accelerator: Accelerator
) -> float:
    """The gradients of one batch, of which this process computes its share in parts; returns the batch's loss."""
    parts = batch.tensor_split(accelerator.num_processes * accumulate)
    first = accelerator.process_index * accumulate
    # Gradients are averaged over the processes, and divided by the parts that the launcher was told of.
    scale = accelerator.num_processes * accelerator.gradient_accumulation_steps
    total = torch.zeros((), device=accelerator.device)
    for number, items in enumerate(parts[first : first + accumulate], 1):
        with nullcontext() if number == accumulate else accelerator.no_sync(model):
            # A process that has no items still takes part in the exchange of gradients, with zeros.
            share = model(items, counts) if len(items) else 0.0 * model(batch[:1], counts)
            total += share.detach()
            accelerator.backward(share * scale)
    return float(accelerator.reduce(total, "sum"))


def _check_finite(value: float, norm: torch.Tensor, step: int) -> None:
    """Before the weights are changed: a checkpoint must never hold weights that are not numbers."""
    if not math.isfinite(value):
        raise TrainingError(
            f"The loss became {value} at step {step + 1}. Lower the learning rate, or have the replies written anew."
        )
    if not bool(norm.isfinite()):
        raise TrainingError(f"The gradient is no longer finite at step {step + 1}. Lower the learning rate.")


def _learning_rate(step: int, total: int, config: TrainConfig) -> float:
    """Linear warm-up, then half a cosine to a tenth."""
    warmup = max(round(config.warmup * total), 1)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(total - warmup, 1)
    return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


class _Guard:
    """Refuses an objective that cannot be trained, and notices what was trained and should not have been."""

    def __init__(self, objective: Objective, batches: Batches) -> None:
        self._objective = objective
        trained = {id(parameter) for group, _ in objective.parameter_groups() for parameter in group}
        if not trained:
            raise TrainingError("There is nothing to train: every parameter is frozen.")
        for name, parameter in objective.named_parameters():
            if parameter.requires_grad != (id(parameter) in trained):
                raise TrainingError(f"{name} must be either trained or frozen; freeze it with requires_grad_(False).")
        memory = {p.untyped_storage().data_ptr() for p in objective.parameters() if p.requires_grad}
        for name, tensor in objective.frozen().items():
            if tensor.requires_grad or tensor.untyped_storage().data_ptr() in memory:
                raise TrainingError(f"{name} is not frozen: it would be trained too. Train a copy of it.")
        counts = objective.counts(torch.arange(batches.items)).tolist()
        for number, count in enumerate(counts):
            if count == 0:
                raise TrainingError(
                    f"In these replies {objective.term(number)} has no token to learn. "
                    "Let the model write more tokens of replies, or train fewer heads."
                )
        self._sums = _sums(objective.frozen())

    def check(self) -> None:
        """Raises TrainingError where a frozen tensor changed."""
        moved = [name for name, total in _sums(self._objective.frozen()).items() if total != self._sums.get(name)]
        if moved:
            raise TrainingError(
                f"Training changed what is frozen: {', '.join(moved)}. This is an error of the program; "
                "the heads are not saved."
            )


def _sums(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """A checksum of each tensor's bits: that of NaN equals itself, and tiny changes count as much as large ones."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = {name: tensor.detach().contiguous().view(kinds[tensor.element_size()]) for name, tensor in tensors.items()}
    return {name: (tuple(tensor.shape), int(tensor.sum(dtype=torch.int64))) for name, tensor in bits.items()}
