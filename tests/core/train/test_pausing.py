"""Closing the generator pauses a training: whole replies and every step are kept, and it goes on from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_tokenizer
from medusa_core.train import distill as distill_room
from medusa_core.train import loop, processes
from medusa_core.train.distill import distill
from medusa_core.train.loop import Batches, Objective, fit
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


def test_a_paused_training_has_lost_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_REPORT_SECONDS", 0.0)
    config = TrainConfig(epochs=2, batch_positions=10, checkpoint_seconds=3600.0, mixed_precision="no")
    toy, batches = Toy(), Batches(60, 10, 1)
    accelerator = processes.join(torch.device("cpu"), "no")
    steps = fit(toy, tuple, batches, config, tmp_path, accelerator)
    before = [next(steps).step for _ in range(4)]
    steps.close()
    again = fit(toy, tuple, batches, config, tmp_path, processes.join(torch.device("cpu"), "no"))
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
