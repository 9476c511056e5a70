"""The loop: every position once an epoch, and a run killed at any time ends like one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from medusa_core.config import TrainConfig
from medusa_core.errors import DiskFull, TrainingError
from medusa_core.events import TrainingStep
from medusa_core.train import loop, processes
from medusa_core.train.loop import Batches, Evaluation, Objective, fit

POSITIONS = 300
CONFIG = TrainConfig(epochs=3, batch_positions=32, learning_rate=0.01, checkpoint_seconds=0.0, mixed_precision="no")


class Toy(Objective):
    """A regression of two terms whose loss falls; `frozen` must not move. Every third item has no second label."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.zeros(8))
        self.frozen_weight = nn.Parameter(torch.ones(8), requires_grad=False)
        self.x = torch.randn(POSITIONS, 8, generator=generator)
        self.y = self.x @ torch.arange(8.0)

    def counts(self, items: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.tensor(len(items)), (items % 3 != 0).sum()])

    def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        losses = (self.x[items] @ (self.weight * self.frozen_weight) - self.y[items]).square()
        return losses.sum() / counts[0] + 0.1 * losses[items % 3 != 0].sum() / counts[1].clamp_min(1)


def unmeasured() -> Evaluation:
    yield from ()
    return ()


def training(toy: Objective, work: Path, config: TrainConfig = CONFIG) -> Generator[TrainingStep, None, float]:
    batches = Batches(POSITIONS, config.batch_positions, config.seed, run=16)
    accelerator = processes.join(torch.device("cpu"), config.mixed_precision)
    return fit(toy, unmeasured, batches, config, work, accelerator)


def run(work: Path, toy: Toy | None = None, config: TrainConfig = CONFIG) -> tuple[Toy, list[TrainingStep], float]:
    toy = toy or Toy()
    events: list[TrainingStep] = []
    steps = training(toy, work, config)
    while True:
        try:
            events.append(next(steps))
        except StopIteration as stop:
            return toy, events, stop.value


@pytest.mark.parametrize("positions", [1, 15, 16, 17, 300])
def test_every_position_once_an_epoch_in_another_order(positions: int) -> None:
    orders = [Batches(positions, 32, 1, 16).order(epoch) for epoch in range(3)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(positions))
    assert positions < 17 or not torch.equal(orders[0], orders[1])
    assert torch.equal(Batches(positions, 32, 1, 16).order(0), orders[0])


def test_neighbours_stay_together() -> None:
    order = Batches(300, 32, 1, 16).order(0)
    assert int((order.diff() != 1).sum()) <= 300 // 16 + 1


def test_the_loss_falls_and_the_frozen_stays(tmp_path: Path) -> None:
    toy, events, final = run(tmp_path)
    everything = torch.arange(POSITIONS)
    assert final < Toy()(everything, toy.counts(everything)).item()
    assert final == events[-1].loss
    assert torch.equal(toy.frozen_weight, torch.ones(8))
    assert toy.weight.any()
    assert events[-1].step == events[-1].total_steps == 3 * 10


def test_the_learning_rate_warms_up_and_cools_down() -> None:
    config = TrainConfig(learning_rate=1.0, warmup=0.1)
    rates = [loop._learning_rate(step, 100, config) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * i for i in range(1, 11)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.55)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("epochs_before", [1, 2])
def test_a_resumed_run_repeats_the_unbroken_one(tmp_path: Path, epochs_before: int) -> None:
    toy = Toy()
    broken = training(toy, tmp_path / "broken")
    for _ in range(epochs_before):
        next(broken)
    broken.close()
    resumed, events, final = run(tmp_path / "broken")
    unbroken, _, expected = run(tmp_path / "unbroken")
    assert events[0].step == (epochs_before + 1) * 10
    assert final == expected
    assert torch.equal(resumed.weight, unbroken.weight)


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
import test_loop as t
class Slow(t.Toy):
    def at(self, progress):
        print("step", flush=True)
        time.sleep(0.05)
t.run(Path({work!r}), Slow())
"""


def test_kill_minus_nine(tmp_path: Path) -> None:
    source = CHILD.format(folder=str(Path(__file__).parent), work=str(tmp_path / "killed"))
    child = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(14):
        assert child.stdout.readline() == "step\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    resumed, events, final = run(tmp_path / "killed")
    unbroken, all_events, expected = run(tmp_path / "unbroken")
    assert len(events) < len(all_events), "the first epoch was not trained again"
    assert final == expected
    assert torch.equal(resumed.weight, unbroken.weight)


def test_other_options_are_refused_and_the_checkpoint_left_alone(tmp_path: Path) -> None:
    run(tmp_path)
    before = (tmp_path / "training.pt").read_bytes()
    with pytest.raises(TrainingError, match="other options"):
        run(tmp_path, config=replace(CONFIG, epochs=4))
    assert (tmp_path / "training.pt").read_bytes() == before


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "training.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(TrainingError, match=r"training\.pt is damaged"):
        run(tmp_path)


class Breaking(Toy):
    """Breaks in its twelfth step."""

    def __init__(self, broken: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.broken, self.calls = broken, 0

    def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        loss = super().forward(items, counts)
        return loss + self.broken(self.weight) if self.calls == 12 else loss


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        # The root's slope at zero is infinite, its value is not.
        (lambda weight: (weight.sum() * 0).sqrt(), "gradient is no longer finite at step 12"),
        (lambda weight: weight.sum() * float("nan"), "loss became nan at step 12"),
        (lambda weight: weight.sum().abs() + float("inf"), "loss became inf at step 12"),
    ],
)
def test_what_is_no_number_stops_before_the_weights(
    tmp_path: Path, broken: Callable[[torch.Tensor], torch.Tensor], message: str
) -> None:
    toy = Breaking(broken)
    with pytest.raises(TrainingError, match=message):
        list(training(toy, tmp_path))
    assert toy.weight.isfinite().all()
    state = torch.load(tmp_path / "training.pt", weights_only=True)
    assert state["step"] == 11


@pytest.mark.parametrize("parts", [2, 3, 32, 40])
def test_parts_of_a_batch_add_up(tmp_path: Path, parts: int) -> None:
    """Also where there are more parts than items in the last batch of an epoch."""
    whole, _, loss = run(tmp_path / "whole", config=replace(CONFIG, batch_positions=41))
    toy, _, final = run(tmp_path / "parts", config=replace(CONFIG, batch_positions=41, accumulate=parts))
    assert final == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(toy.weight, whole.weight, rtol=1e-4, atol=1e-5)


def test_bf16_keeps_the_weights_in_32_bit(tmp_path: Path) -> None:
    seen = []

    class Watching(Toy):
        def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
            seen.append((self.x[items] @ self.weight[:, None]).dtype)
            return super().forward(items, counts)

    toy, _, _ = run(tmp_path / "half", Watching(), replace(CONFIG, mixed_precision="bf16"))
    assert set(seen) == {torch.bfloat16}
    assert toy.weight.dtype == torch.float32
    full, _, _ = run(tmp_path / "full")
    assert not torch.equal(toy.weight, full.weight)
    torch.testing.assert_close(toy.weight, full.weight, rtol=0.05, atol=0.02)


def test_groups_learn_at_multiples_of_the_rate_and_progress_is_told(tmp_path: Path) -> None:
    told = []

    class Grouped(Toy):
        def parameter_groups(self) -> list[tuple[Sequence[nn.Parameter], float]]:
            return [([self.weight], 1.0), ([self.slow], 0.5), ([self.fast], 2.0)]

        def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
            return super().forward(items, counts) - self.slow - self.fast

        def at(self, progress: float) -> None:
            told.append(progress)

    toy = Grouped()
    toy.slow, toy.fast = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
    run(tmp_path, toy)
    assert told == [step / 30 for step in range(30)]
    assert toy.fast.item() == pytest.approx(4 * toy.slow.item(), rel=1e-4)


def test_a_term_without_labels_is_named(tmp_path: Path) -> None:
    class Unlabelled(Toy):
        def counts(self, items: torch.Tensor) -> torch.Tensor:
            return super().counts(items) * torch.tensor([1, 0])

    with pytest.raises(TrainingError, match="head 2 has no token to learn"):
        run(tmp_path, Unlabelled())
    assert not any(tmp_path.iterdir())


def test_what_moves_though_frozen_is_named(tmp_path: Path) -> None:
    class Moving(Toy):
        def at(self, progress: float) -> None:
            with torch.no_grad():
                self.frozen_weight[3] += 1e-6

    with pytest.raises(TrainingError, match="Training changed what is frozen: frozen_weight"):
        run(tmp_path, Moving())


def test_a_frozen_tensor_that_shares_memory_with_a_trained_one_is_refused(tmp_path: Path) -> None:
    toy = Toy()
    toy.register_buffer("tied", toy.weight.detach())
    with pytest.raises(TrainingError, match="tied is not frozen"):
        run(tmp_path, toy)


def test_nothing_to_train_is_an_error(tmp_path: Path) -> None:
    toy = Toy()
    toy.weight.requires_grad_(False)
    with pytest.raises(TrainingError, match="every parameter is frozen"):
        run(tmp_path, toy)


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    steps = training(toy, tmp_path)
    next(steps)
    before = (tmp_path / "training.pt").read_bytes()

    def full(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file: No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(DiskFull, match="free some space"):
        next(steps)
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]
    assert (tmp_path / "training.pt").read_bytes() == before
