"""Start with a recording alone: no model is loaded, nothing of this person's data is read or written.

Knows nothing of what is in a recording.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app import theme as looks
from app.recording_window import RecordingWindow


def open_window(recording: Path | None) -> RecordingWindow:
    """The window, with that recording or the first of those that came with the app."""
    window = RecordingWindow(looks.load_themes()[looks.system_theme()])
    window.show()
    if recording is None:
        window.open_example(0)
    else:
        window.open(recording)
    return window


def run(recording: Path | None) -> int:
    """Show a recording until its window is closed; the exit status."""
    app = QApplication(sys.argv[:1])
    app.setApplicationName("medusa-chat")
    app.setApplicationDisplayName("Medusa Chat")
    looks.apply(app, looks.load_themes()[looks.system_theme()])
    window = open_window(recording)
    status = app.exec()
    window.deleteLater()
    return status
