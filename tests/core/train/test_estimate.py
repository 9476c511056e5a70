"""How long a training will take: what the probe writes counts, and the figures follow from what was seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.events import Progress
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_tokenizer
from medusa_core.train import distill as distill_room
from medusa_core.train.distill import distill
from medusa_core.train.estimate import Estimate, estimate

DATA = DistillConfig(tokens=400, places=4, self_written=0.0, max_prompt_tokens=100, max_reply_tokens=40)
TRAIN = TrainConfig(num_heads=2, batch_positions=32, draft_vocab_size=0)


def run(backbone: LeanBackbone, work: Path, ticks: Callable[[], float]) -> tuple[Estimate, list[Progress]]:
    work_events, events = (
        estimate(backbone, ChatText(tiny_tokenizer(), [END_ID]), work, DATA, TRAIN, clock=ticks),
        [],
    )
    while True:
        try:
            events.append(next(work_events))
        except StopIteration as end:
            return end.value, events


def ticking(step: float) -> Callable[[], float]:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += step
        return now

    return clock


def test_time_and_disk_follow_from_what_was_seen() -> None:
    found = Estimate(written=100, tokens_per_second=50.0, step_seconds=0.5, token_bytes=136, batch=100, epochs=2)
    assert found.seconds(1100) == 1000 / 50 + 11 * 2 * 0.5
    assert found.seconds(50) == 1 * 2 * 0.5  # nothing is left to write
    assert found.disk_bytes(1000) == 136_000


def test_the_probe_measures_both_parts(tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path) -> None:
    backbone = tiny_backbone()
    found, events = run(backbone, tmp_path, ticking(1.0))
    assert found.tokens_per_second > 0
    assert found.step_seconds == 1.0  # one look at the clock before and one after
    assert found.token_bytes == backbone.spec.hidden_size * 2 + 8
    stages = list(dict.fromkeys(event.stage for event in events))
    assert stages == ["Trying how fast the model writes", "Trying how fast heads learn"]
    assert all(event.done <= event.total for event in events)


def test_what_the_probe_writes_is_not_written_again(tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path) -> None:
    backbone = tiny_backbone()
    run(backbone, tmp_path, ticking(0.01))
    first = next(iter(distill(backbone, ChatText(tiny_tokenizer(), [END_ID]), tmp_path / "replies", DATA)))
    assert first.done == DATA.tokens


def test_filling_the_places_does_not_count(
    tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distill_room, "_REPORT_SECONDS", 0.0)
    times = iter([0.0, 0.0, 50.0, 51.0])  # the start, and three reports of the writing
    found, events = run(tiny_backbone(), tmp_path, lambda: next(times, 60.0))
    assert [event.stage for event in events].count("Trying how fast the model writes") == 3
    assert found.tokens_per_second == DATA.places  # one token a place and pass, in the second after the first
