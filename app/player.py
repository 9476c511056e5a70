"""Play a recording's events in the time they took, or slowly, and stop and go on at will. Knows nothing of views."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.worker import SLOW_STEPS_PER_SECOND
from medusa_core.events import Event, Prefilled, Step

_TICK_MS = 33
_LONGEST_WAIT = 1.0  # s, for the prompt to be read


class Player(QObject):
    """Hands events out in batches, thirty times a second."""

    batch = Signal(list)
    changed = Signal()  # plays, or does not

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._events: tuple[Event, ...] = ()
        self._next = 0
        self._due = 0.0  # s of playing until the next event
        self._slow = False
        self._ticked = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MS)
        self._timer.timeout.connect(self._tick)

    def load(self, events: Sequence[Event]) -> None:
        """Take other events, at their beginning."""
        self.pause()
        self._events = tuple(events)
        self._next = 0
        self._due = self._wait()

    def play(self) -> None:
        """Go on."""
        if not self.at_end and not self.playing:
            self._ticked = time.monotonic()
            self._timer.start()
            self.changed.emit()

    def pause(self) -> None:
        """Stand still."""
        if self.playing:
            self._timer.stop()
            self.changed.emit()

    def skip(self) -> None:
        """Hand out everything that is left, at once."""
        left = list(self._events[self._next :])
        self._next = len(self._events)
        self._timer.stop()
        if left:
            self.batch.emit(left)
        self.changed.emit()

    def set_slow(self, slow: bool) -> None:
        """About four steps a second, or the time that they took."""
        self._slow = slow
        self._due = min(self._due, self._wait())

    @property
    def playing(self) -> bool:
        """Whether time passes."""
        return self._timer.isActive()

    @property
    def at_end(self) -> bool:
        """Whether everything was handed out."""
        return self._next >= len(self._events)

    def advance(self, seconds: float) -> None:
        """Let so much time pass: hand out what became due."""
        first = self._next
        self._due -= seconds
        while not self.at_end and self._due <= 0:
            self._next += 1
            self._due += self._wait()
        if self._next > first:
            self.batch.emit(list(self._events[first : self._next]))
        if self.at_end:
            self._timer.stop()
            self.changed.emit()

    def _tick(self) -> None:
        now = time.monotonic()
        passed, self._ticked = now - self._ticked, now
        self.advance(passed)

    def _wait(self) -> float:
        """How long the next event takes."""
        event = self._events[self._next] if not self.at_end else None
        if isinstance(event, Step):
            return max(event.seconds, 1 / SLOW_STEPS_PER_SECOND) if self._slow else event.seconds
        return min(event.seconds, _LONGEST_WAIT) if isinstance(event, Prefilled) else 0.0
