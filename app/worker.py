"""Run the library's generators on one thread of their own, one after the other, and report back through signals.

Connect the signals only to methods of objects that live in the GUI thread: those are queued, while a lambda or a plain
function would run in the worker's thread. Knows nothing of what the generators do, of models or of windows.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from PySide6.QtCore import QObject, QThread, Signal

from app.throttle import Mailbox
from medusa_core.errors import MedusaError
from medusa_core.events import Step

SLOW_STEPS_PER_SECOND = 4

StopCheck = Callable[[], bool]
Job = Callable[[StopCheck], Generator[object, None, object]]


class Stopped:
    """The value of a job that was asked to stop."""


STOPPED = Stopped()


def stoppable(make: Callable[[], Generator[object, None, object]]) -> Job:
    """The job of running a generator until it ends or is asked to stop; stopped, it is closed and gives STOPPED."""

    def job(stop: StopCheck) -> Generator[object, None, object]:
        with closing(make()) as events:
            while True:
                if stop():
                    return STOPPED
                try:
                    event = next(events)
                except StopIteration as end:
                    return end.value
                yield event

    return job


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job did not finish, without the exception itself: its frames would keep tensors alive."""

    message: str  # one sentence for people
    details: str  # the traceback where nobody foresaw this; "" where the message says it all


def describe(error: Exception) -> Failure:
    """The failure in words."""
    if isinstance(error, MedusaError):
        return Failure(str(error), "")
    details = "".join(traceback.format_exception(error))
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return Failure(
            "Memory ran out. Close other programs, or choose a lower precision or fewer draft nodes in the settings, "
            "then try again.",
            details,
        )
    reason = str(error).strip().splitlines()
    return Failure(f"Something unexpected went wrong: {reason[0] if reason else type(error).__name__}", details)


class _Thread(QThread):
    """A thread that runs one function."""

    def __init__(self, serve: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self.setObjectName("decoding")
        self._serve = serve

    def run(self) -> None:
        self._serve()


class Worker(QObject):
    """One thread for all jobs, so that the numeric libraries keep one set of helper threads."""

    waiting = Signal()  # the mailbox has something
    failed = Signal(object)  # Failure; the job is over
    finished = Signal(object)  # the generator's return value; the job is over

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.mailbox = Mailbox(self.waiting.emit)  # what the running generator yielded
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._slow = False
        self._hurry = threading.Event()  # ends a pause of slow mode at once
        self._thread = _Thread(self._serve, self)

    def run(self, job: Job) -> None:
        """Start a job; call only after the one before has finished or failed. Its function gets the stop check."""
        self._stop.clear()
        if self._slow:
            self._hurry.clear()
        self._jobs.put(job)
        if not self._thread.isRunning():
            self._thread.start()

    def stop(self) -> None:
        """Ask the running job to end early; it then still finishes or fails as usual."""
        self._stop.set()
        self._hurry.set()

    def set_slow(self, slow: bool) -> None:
        """Pace decoding steps so that each can be looked at."""
        self._slow = slow
        if slow and not self._stop.is_set():
            self._hurry.clear()
        else:
            self._hurry.set()

    def close(self, seconds: float) -> bool:
        """Stop the job and end the thread; False where it is still busy after so many seconds."""
        self.stop()
        self._jobs.put(None)
        return self._thread.wait(round(seconds * 1000))

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._run(job)
            del job  # it may hold a model, whose memory the next one needs

    def _run(self, job: Job) -> None:
        try:
            result = self._drain(job(self._stop.is_set))
        except Exception as error:  # noqa: BLE001  the thread's outermost frame: whatever failed must reach the window
            self.failed.emit(describe(error))
        else:
            self.finished.emit(result)

    def _drain(self, events: Generator[object, None, object]) -> object:
        shown = time.monotonic()
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return end.value
            if self._slow and isinstance(event, Step):
                self._hurry.wait(max(0.0, shown + 1 / SLOW_STEPS_PER_SECOND - time.monotonic()))
                shown = time.monotonic()
            self.mailbox.put(event)
