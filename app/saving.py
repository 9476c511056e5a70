"""What cannot be saved is told, kept, and tried again until it is saved. Knows nothing of what is being saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QObject, QTimer

from app.conversations import StoreError, Transcript
from app.views.notices import Notice, NoticeArea, Topic, Way
from medusa_core.errors import DiskFull

_AGAIN_MS = 2000


class Saving(QObject):
    """Stands between the store's errors and the notices."""

    def __init__(self, transcript: Transcript, notices: NoticeArea) -> None:
        super().__init__()
        self._transcript, self._notices = transcript, notices
        self._told = False  # that closing the window would lose something
        self._timer = QTimer(self)
        self._timer.setInterval(_AGAIN_MS)
        self._timer.timeout.connect(self.try_again)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """An error of the store inside ends it, and is told in one sentence; nothing shown is lost by it."""
        try:
            yield
        except (StoreError, DiskFull) as error:
            self._notices.tell(Notice(Topic.SAVING, str(error), ways=(Way.SAVE_AGAIN,)))
            self._timer.start()

    def try_again(self) -> None:
        """Save what could not be saved."""
        self._timer.stop()
        with self.guarded():
            self._transcript.save_rest()
            self._notices.settle(Topic.SAVING)

    def may_close(self) -> bool:
        """False, once, where the end of a reply is only on the screen: closing the window would lose it."""
        if self._transcript.has_unsaved:
            self.try_again()
        if self._told or not self._transcript.has_unsaved:
            return True
        self._told = True
        text = "The end of a reply is not saved yet. Make room and save it, copy it, or close the window once more."
        self._notices.tell(Notice(Topic.SAVING, text, ways=(Way.SAVE_AGAIN,)))
        return False

    def stop(self) -> None:
        """Try no more."""
        self._timer.stop()
