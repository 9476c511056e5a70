"""Jobs that wait for one another, on a worker of their own; each report says which job it is about.

Knows nothing of what the jobs do.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.throttle import Throttle
from app.worker import STOPPED, Job, Worker
from medusa_core.events import Progress


class TaskQueue(QObject):
    """First come, first served."""

    began = Signal(str)  # key of the job
    told = Signal(str, object)  # key, what it yielded; of several reports of progress the last
    ended = Signal(str, object)  # key, its value, its Failure, or STOPPED

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._worker = Worker(self)
        self._throttle = Throttle(self._worker.mailbox, self)
        self._waiting: dict[str, Job] = {}
        self._running, self._closed = "", False
        self._worker.waiting.connect(self._throttle.wake)
        self._throttle.batch.connect(self._tell)
        self._worker.failed.connect(self._end)
        self._worker.finished.connect(self._end)

    def add(self, key: str, job: Job) -> None:
        """Run a job when those before it have ended; one that waits under the same key is replaced."""
        self._waiting[key] = job
        self._next()

    def stop(self, key: str) -> None:
        """Ask the running job to stop; one that waits never begins. Either way `ended` tells."""
        if key == self._running:
            self._worker.stop()
        elif self._waiting.pop(key, None) is not None:
            self.ended.emit(key, STOPPED)

    @property
    def running(self) -> str:
        """The key of the running job; "" where none runs."""
        return self._running

    def has(self, key: str) -> bool:
        """Whether a job runs or waits under this key."""
        return key == self._running or key in self._waiting

    def close(self, seconds: float) -> bool:
        """Stop everything; False where the running job does not end in time."""
        self._closed = True
        self._waiting.clear()
        return self._worker.close(seconds)

    def _next(self) -> None:
        if not self._running and self._waiting and not self._closed:
            self._running = next(iter(self._waiting))
            job = self._waiting.pop(self._running)
            self._worker.run(job)
            self.began.emit(self._running)

    def _tell(self, events: list[object]) -> None:
        progress = [event for event in events if isinstance(event, Progress)]
        for event in [event for event in events if not isinstance(event, Progress)] + progress[-1:]:
            self.told.emit(self._running, event)

    def _end(self, result: object) -> None:
        self._throttle.flush()
        key, self._running = self._running, ""
        self.ended.emit(key, result)
        self._next()
