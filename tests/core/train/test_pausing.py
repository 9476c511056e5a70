"""Closing the generator pauses a training: whole replies and every step are kept, and it goes on from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.calibrate import statistics
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_tokenizer
from medusa_core.train import distill as distill_room
from medusa_core.train import loop, processes
from medusa_core.train.distill import distill
from medusa_core.train.loop import Batches, Evaluation, Objective, fit
from medusa_core.train.shards import written_replies


class Toy(Objective):
    """One weight that follows a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def counts(self, items: torch.Tensor) -> torch.Tensor:
        return torch.tensor([len(items)])

    def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return (self.weight - 3.0).square().sum() * len(items) / counts[0]


def unmeasured() -> Evaluation:
    yield from ()
    return ()


def test_a_paused_training_has_lost_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_REPORT_SECONDS", 0.0)
    config = TrainConfig(epochs=2, batch_positions=10, checkpoint_seconds=3600.0, mixed_precision="no")
    toy, batches = Toy(), Batches(60, 10, 1)
    accelerator = processes.join(torch.device("cpu"), "no")
    steps = fit(toy, unmeasured, batches, config, tmp_path, accelerator)
    before = [next(steps).step for _ in range(4)]
    steps.close()
    again = fit(toy, unmeasured, batches, config, tmp_path, processes.join(torch.device("cpu"), "no"))
    assert [*before, *(event.step for event in again)] == list(range(1, 13))


def test_a_pause_keeps_the_replies_that_are_whole(
    tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distill_room, "_REPORT_SECONDS", 0.0)
    text = ChatText(tiny_tokenizer(), [END_ID])
    data = DistillConfig(tokens=2000, places=4, self_written=0.0, max_reply_tokens=16)
    replies = distill(tiny_backbone(), text, tmp_path, data)
    for _ in range(60):
        next(replies)
    assert not list(written_replies(tmp_path)), "nothing must be on the disk yet, or the test shows nothing"
    replies.close()
    assert len(list(written_replies(tmp_path))) >= 8


def test_it_can_be_paused_while_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_REPORT_SECONDS", 0.0)
    config = TrainConfig(epochs=1, batch_positions=10, checkpoint_seconds=3600.0, mixed_precision="no")
    toy, batches, seen = Toy(), Batches(60, 10, 1), []

    def evaluate() -> Evaluation:
        for number in range(5):
            seen.append(number)
            yield
        return ()

    steps = fit(toy, evaluate, batches, config, tmp_path, processes.join(torch.device("cpu"), "no"))
    assert [next(steps).step for _ in range(7)] == [1, 2, 3, 4, 5, 6, 6]
    steps.close()
    assert len(seen) == 2, "it went on measuring"
    again = Toy()
    ended = fit(again, evaluate, batches, config, tmp_path, processes.join(torch.device("cpu"), "no"))
    assert list(ended) == []
    assert torch.equal(again.weight, toy.weight)


def test_the_last_measuring_stops_between_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_REPORT_SECONDS", 0.0)
    shape = HeadsShape(num_heads=2, num_layers=1, hidden_size=8, vocab_size=8, draft_vocab_size=8, shared_output=True)
    replies = [(torch.randn(6, 8), torch.arange(6)) for _ in range(4)]
    work = statistics.measure_heads(MedusaHeads(shape, torch.eye(8)), replies, [0.0] * 4, max_rank=3, precision="fp32")
    assert [event.done for event in work] == [6, 12, 18, 24, 24, 24]
