"""The loop: every position once an epoch, and a run killed at any time ends like one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from medusa_core.config import TrainConfig
from medusa_core.errors import DiskFull, TrainingError
from medusa_core.events import TrainingStep
from medusa_core.train import loop
from medusa_core.train.loop import fit

POSITIONS = 300
CONFIG = TrainConfig(epochs=3, batch_positions=32, learning_rate=0.01, checkpoint_seconds=0.0)


class Toy(nn.Module):
    """A regression whose loss falls; `frozen` must not move."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.zeros(8))
        self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
        self.x = torch.randn(POSITIONS, 8, generator=generator)
        self.y = self.x @ torch.arange(8.0)

    def loss(self, positions: torch.Tensor) -> torch.Tensor:
        return (self.x[positions] @ (self.weight * self.frozen) - self.y[positions]).square().mean()


def run(work: Path, toy: Toy | None = None, config: TrainConfig = CONFIG) -> tuple[Toy, list[TrainingStep], float]:
    toy = toy or Toy()
    events: list[TrainingStep] = []
    training = fit(toy, toy.loss, lambda: (), POSITIONS, config, work)
    while True:
        try:
            events.append(next(training))
        except StopIteration as stop:
            return toy, events, stop.value


@pytest.mark.parametrize("positions", [1, 15, 16, 17, 300])
def test_every_position_once_an_epoch_in_another_order(positions: int) -> None:
    orders = [loop._order(positions, 1, epoch) for epoch in range(3)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(positions))
    assert positions < 17 or not torch.equal(orders[0], orders[1])
    assert torch.equal(loop._order(positions, 1, 0), orders[0])


def test_neighbours_stay_together() -> None:
    order = loop._order(300, 1, 0)
    assert int((order.diff() != 1).sum()) <= 300 // 16 + 1


def test_the_loss_falls_and_the_frozen_stays(tmp_path: Path) -> None:
    toy, events, final = run(tmp_path)
    assert final < Toy().loss(torch.arange(POSITIONS)).item()
    assert final == events[-1].loss
    assert torch.equal(toy.frozen, torch.ones(8))
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
    training = fit(toy, toy.loss, lambda: (), POSITIONS, CONFIG, tmp_path / "broken")
    for _ in range(epochs_before):
        next(training)
    training.close()
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
    def loss(self, positions):
        print("step", flush=True)
        time.sleep(0.05)
        return super().loss(positions)
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
        run(tmp_path, config=TrainConfig(epochs=4, batch_positions=32))
    assert (tmp_path / "training.pt").read_bytes() == before


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "training.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(TrainingError, match=r"training\.pt is damaged"):
        run(tmp_path)


def test_a_gradient_that_is_no_number_stops_before_the_weights(tmp_path: Path) -> None:
    toy = Toy()
    calls = 0

    def loss(positions: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        broken = calls == 12  # the root's slope at zero is infinite, its value is not
        return toy.loss(positions) + ((toy.weight.sum() * 0).sqrt() if broken else 0)

    with pytest.raises(TrainingError, match="gradient is no longer finite at step 12"):
        list(fit(toy, loss, lambda: (), POSITIONS, CONFIG, tmp_path))
    assert toy.weight.isfinite().all()
    state = torch.load(tmp_path / "training.pt", weights_only=True)
    assert state["step"] == 11


def test_nothing_to_train_is_an_error(tmp_path: Path) -> None:
    toy = Toy()
    toy.weight.requires_grad_(False)
    with pytest.raises(TrainingError, match="every parameter is frozen"):
        run(tmp_path, toy)


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    training = fit(toy, toy.loss, lambda: (), POSITIONS, CONFIG, tmp_path)
    next(training)
    before = (tmp_path / "training.pt").read_bytes()

    def full(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file: No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(DiskFull, match="free some space"):
        next(training)
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]
    assert (tmp_path / "training.pt").read_bytes() == before
