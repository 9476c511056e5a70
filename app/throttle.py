"""Events of another thread, in batches: as often as the drawing of them is worth. Knows nothing of what they mean.

What the window computes, the model does not: on a machine of two cores each is needed for both.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

MOST_A_SECOND = 30
FEWEST_A_SECOND = 10  # slower, a tree and a line of text would no longer look alive
_SHARE = 0.08  # of this thread's time that handing on may take, where that is not slower than the slowest


class Mailbox:
    """Where one thread leaves events for another, which is called only once it has asked to be.

    A call for every event would have both threads wait for Python's lock in every step.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._events: deque[object] = deque()
        self._call, self._is_wanted = call, True

    def put(self, event: object) -> None:
        """Leave an event."""
        self._events.append(event)
        if self._is_wanted:  # looked at after the event is there, as the other side does it the other way round
            self._is_wanted = False
            self._call()

    def take(self) -> list[object]:
        """All that lies here."""
        return [self._events.popleft() for _ in range(len(self._events))]

    def ask_for_call(self) -> bool:
        """Have the next event call; whether one lies here already, and may not."""
        self._is_wanted = True
        return bool(self._events)


class Throttle(QObject):
    """The first event after a pause goes out at once; what follows soon after goes out together."""

    batch = Signal(list)

    def __init__(self, mailbox: Mailbox, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._mailbox = mailbox
        self._computed = time.thread_time()  # by this thread, when it last handed something on
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.flush)

    def wake(self) -> None:
        """The mailbox has called: hand on what lies there, now or when it is time."""
        if not self._timer.isActive():
            self.flush()

    def flush(self) -> None:
        """Hand on what is waiting, now."""
        events = self._mailbox.take()
        if not events and not self._timer.isActive() and self._mailbox.ask_for_call():
            events = self._mailbox.take()
        if events:
            computed = time.thread_time()
            self._timer.start(interval(computed - self._computed))
            self._computed = computed
            self.batch.emit(events)


def interval(seconds: float) -> int:
    """After how many ms the next batch may go out, where the last one took its thread so many s, painting included."""
    return round(1000 * min(max(seconds / _SHARE, 1 / MOST_A_SECOND), 1 / FEWEST_A_SECOND))
