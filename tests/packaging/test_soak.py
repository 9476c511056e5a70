"""The soak's own parts: the long reply it replays, how it counts lateness, and that it comes to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import soak

from medusa_core.events import Finished, Step

ROOT = Path(__file__).resolve().parents[2]


def test_the_long_reply_is_one_reply() -> None:
    events = soak.long_reply(300)
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.index for step in steps] == list(range(300))
    text = "".join(step.text for step in steps)
    end = 0
    for step in steps:
        assert [start for start, _ in step.spans] == [end, *(stop for _, stop in step.spans[:-1])]
        assert text[end : step.spans[-1][1]] == step.text
        end = step.spans[-1][1]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.text, finished.steps) == (text, 300)
    assert finished.tokens == sum(len(step.token_ids) for step in steps)


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100)]
    assert soak.quantile(values[::-1], 0.5) == 50.0
    assert soak.quantile(values, 0.99) == 99.0
    assert soak.quantile([3.0], 1.0) == 3.0


def test_no_widget_is_left_behind() -> None:
    ended = subprocess.run(
        [sys.executable, "packaging/soak.py", "--steps", "16", "--rounds", "2", "--pace", "0"],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("Widgets")]
    assert lines, ended.stderr
    first, second = lines[0].partition(": ")[2].split(", ")
    assert first == second
