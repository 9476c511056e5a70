"""Files and folders dropped anywhere on a window, where nothing in it takes them. Knows nothing of what is in them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget


class FileDrops(QObject):
    """Watches one window."""

    dropped = Signal(list)  # of Paths

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDropEvent) and local_files(event.mimeData()):  # entering and moving are drops to Qt
            event.acceptProposedAction()
            if not isinstance(event, QDragEnterEvent) and event.type() is QEvent.Type.Drop:
                self.dropped.emit(local_files(event.mimeData()))
            return True
        return super().eventFilter(watched, event)


def local_files(data: QMimeData) -> list[Path]:
    """The files and folders of this machine that something dragged stands for."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
