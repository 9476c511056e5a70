"""The training data on this computer: what there is, and taking it away, on a worker of its own.

Knows nothing of how it is shown or of the training that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from app.task_queue import TaskQueue
from app.training_jobs import cancelling, deleting, looking, weighing
from app.worker import STOPPED, Failure

if TYPE_CHECKING:
    from medusa_core.train.kept import KeptData

_LOOK, _DELETE, _WEIGH, _CANCEL = "look", "delete", "weigh", "cancel"


class TrainingData(QObject):
    """One method per wish; signals tell what came of it."""

    looked = Signal()  # `found` is new
    deleted = Signal(object)  # bytes that became free, or a Failure
    weighed = Signal(object)  # Written, of a training that may be cancelled
    cancelled = Signal(object)  # Written, or a Failure

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self.found: list[KeptData] = []
        self.queue = TaskQueue(self)
        self.queue.ended.connect(self._take_end)

    def look(self) -> None:
        """See what there is."""
        self.queue.add(_LOOK, looking(self._home))

    def delete(self, folders: Sequence[Path]) -> None:
        """Take some of it off the disk."""
        if not self.queue.has(_DELETE):
            self.queue.add(_DELETE, deleting(folders))

    def weigh(self, work: Path, *, running: bool) -> None:
        """What cancelling a training would take away."""
        self.queue.add(_WEIGH, weighing(work, running=running))

    def cancel(self, work: Path) -> None:
        """Take away what a training wrote itself."""
        self.queue.add(_CANCEL, cancelling(work))

    def close(self, seconds: float) -> bool:
        """The app ends; False where the worker does not end in time."""
        return self.queue.close(seconds)

    def _take_end(self, key: str, result: Any) -> None:
        if key == _LOOK:
            if isinstance(result, list):
                self.found = result
                self.looked.emit()
            return
        if result is STOPPED:
            return
        if key == _WEIGH:
            if not isinstance(result, Failure):
                self.weighed.emit(result)
            return
        (self.deleted if key == _DELETE else self.cancelled).emit(result)
        self.look()
