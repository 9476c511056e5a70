"""Gather events and hand them on in batches, at most 30 times a second. Knows nothing of what the events mean."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

BATCHES_PER_SECOND = 30


class Throttle(QObject):
    """The first event after a pause goes out at once; what follows within a thirtieth of a second goes out together."""

    batch = Signal(list)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: list[object] = []
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(1000 // BATCHES_PER_SECOND)
        self._timer.timeout.connect(self.flush)

    def add(self, event: object) -> None:
        """Take one event."""
        self._waiting.append(event)
        if not self._timer.isActive():
            self.flush()

    def flush(self) -> None:
        """Hand on what is waiting, now."""
        if not self._waiting:
            return
        events, self._waiting = self._waiting, []
        self._timer.start()
        self.batch.emit(events)

    def clear(self) -> None:
        """Forget what is waiting."""
        self._waiting.clear()
