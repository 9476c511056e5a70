"""Replay 2 000 recorded steps through the real window, and measure whether it stays quick and small.

    python packaging/soak.py [--steps 2000] [--rounds 4] [--pace 0.02]

Each round is a conversation of its own: a question, its reply from the shipped recordings, a walk through the steps
held, the table, and a new chat. A timer says how late the GUI thread is; the widgets are counted after each round.
Knows nothing of models.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QCoreApplication, QElapsedTimer, QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app import recordings
from app.application import Application
from app.controller import Phase
from app.memory import in_words, resident_bytes
from medusa_core.events import Event, Finished, Prefilled, Progress, Step
from medusa_core.testing import ReplayChat

TICK_MS = 10
LIMIT_MS = 50.0  # how late the GUI thread may be, in 99 of 100 moments
_WALK = 40  # steps that are held after each reply


class Lateness(QObject):
    """How late the GUI thread comes to a timer that wants to be served every 10 ms.

    A pause counts once for every tick that fell into it: else one long pause would weigh no more than one short one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.milliseconds: list[float] = []
        self.own: list[float] = []  # what the thread itself computed between two ticks: a busy machine does not count
        self._computed = time.thread_time()
        self._clock = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)
        self._clock.start()
        self._timer.start()

    def _tick(self) -> None:
        late = self._clock.nsecsElapsed() / 1e6 - TICK_MS
        self._clock.restart()
        before, self._computed = self._computed, time.thread_time()
        self.own.append((self._computed - before) * 1e3)
        self.milliseconds.append(max(late, 0.0))
        while (late := late - TICK_MS) > 0:
            self.milliseconds.append(late)


def quantile(values: Sequence[float], part: float) -> float:
    """The value that this part of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def long_reply(steps: int) -> list[Event]:
    """So many steps as one reply: the shipped recordings, one after the other, numbered and placed anew."""
    recorded = [recordings.load(path).events for path in recordings.examples()]
    head = next(event for event in recorded[0] if isinstance(event, Prefilled))
    end = next(event for event in recorded[0] if isinstance(event, Finished))
    events: list[Event] = [head]
    text, ids = "", 0
    for number, step in zip(range(steps), _forever(recorded), strict=False):
        shift = len(text) - step.spans[0][0]
        spans = tuple((start + shift, stop + shift) for start, stop in step.spans)
        text += step.text
        ids += len(step.token_ids)
        events.append(replace(step, index=number, spans=spans, context_tokens=head.prompt_tokens + ids))
    events.append(replace(end, text=text, tail="", tokens=ids, steps=steps))
    return events


def _forever(recorded: Sequence[Sequence[Event]]) -> Iterator[Step]:
    while True:
        for events in recorded:
            yield from (event for event in events if isinstance(event, Step))


class Soak(QObject):
    """Drives the window through its rounds."""

    def __init__(self, app: Application, rounds: int) -> None:
        super().__init__()
        self.app, self.left = app, rounds
        self.lateness: Lateness | None = None
        self.widgets: list[int] = []
        self.memory: list[int] = []
        self._walked = 0
        app.controller.phase_changed.connect(self._advance)

    def _advance(self, phase: object) -> None:
        if phase is not Phase.READY:
            return
        if self.app.controller.turns:
            QTimer.singleShot(200, self._walk)
            return
        self.lateness = Lateness()  # the start is not what is measured
        self._begin()

    def _begin(self) -> None:
        self.left -= 1
        self.app.controller.send("Tell me a long story.")

    def _walk(self) -> None:
        """Hold the last steps one after the other, as with a held key."""
        self._walked += 1
        if self._walked <= _WALK:
            panel = self.app.views.panel
            panel.show_step(len(panel.steps) - self._walked)
            panel.show_table(self._walked % 10 == 0)
            QTimer.singleShot(33, self._walk)
            return
        self._walked = 0
        self.app.views.panel.show_table(False)
        self.app.controller.new_chat()
        QTimer.singleShot(200, self._count)

    def _count(self) -> None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        self.widgets.append(len(QApplication.allWidgets()))
        self.memory.append(resident_bytes())
        if self.left:
            self._begin()
        else:
            self.app.window.close()


def main() -> int:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--steps", type=int, default=2000, help="in all")
    parse.add_argument("--rounds", type=int, default=4, help="conversations that they are spread over")
    parse.add_argument("--pace", type=float, default=0.02, metavar="SECONDS", help="of a step")
    given = parse.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    each = max(1, given.steps // given.rounds)
    chat = ReplayChat(long_reply(each), seconds_per_step=given.pace)

    def opener(*_: Any) -> Generator[Progress, None, ReplayChat]:
        yield Progress("Reading the recordings", 0, 0)
        return chat

    qt = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="medusa-soak-") as folder:
        app = Application(Path(folder), Path(folder) / "models", opener)
        soak = Soak(app, given.rounds)
        started = time.monotonic()
        app.show()
        qt.exec()
        return report(soak, each * given.rounds, time.monotonic() - started)


def report(soak: Soak, steps: int, seconds: float) -> int:
    """Print the figures; 1 where a limit is exceeded."""
    lateness = soak.lateness
    if lateness is None or soak.left:
        print("The soak did not come to its end.", file=sys.stderr)
        return 1
    late, widgets = quantile(lateness.milliseconds, 0.99), soak.widgets
    print(f"{steps} steps in {len(widgets)} conversations, {seconds:.0f} s")
    for name, values in (("late", lateness.milliseconds), ("computes", lateness.own)):
        figures = (quantile(values, 0.5), quantile(values, 0.99), max(values))
        print("GUI thread {}: {:.1f} ms (median), {:.1f} ms (99th percentile), {:.1f} ms (most)".format(name, *figures))
    print(f"Widgets after each round: {', '.join(map(str, widgets))}")
    print(f"Memory after each round: {', '.join(map(in_words, soak.memory))}")
    failures = []
    if late >= LIMIT_MS:
        failures.append(f"{late:.1f} ms late at the 99th percentile; the limit is {LIMIT_MS:.0f} ms")
    if widgets[-1] > widgets[0]:
        failures.append(f"the widgets grew from {widgets[0]} to {widgets[-1]}")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
