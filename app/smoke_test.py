"""Try the running app as a person would: wait for the model, ask one question, wait for the answer, take a picture.

Knows nothing of how the app is built.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.controller import Controller, Phase
from app.screen import Views

QUESTION = "Explain in a few sentences how a rainbow forms."
TIME_LIMIT_MS = 300_000  # a first start converts the model
_SETTLE_MS = 400  # for the last batch to be drawn


class SmokeTest(QObject):
    """Drives the controller; `status` and `message` hold the outcome once the window has closed."""

    def __init__(
        self, controller: Controller, views: Views, screenshot: Path | None, time_limit_ms: int = TIME_LIMIT_MS
    ) -> None:
        super().__init__()
        self._controller, self._views, self._screenshot = controller, views, screenshot
        self._asked = False
        self.status, self.message = 1, "smoke test: the window was closed before the test had ended"
        self._watchdog = QTimer(self)
        self._watchdog.setSingleShot(True)
        self._watchdog.timeout.connect(self._time_out)
        self._watchdog.start(time_limit_ms)
        controller.phase_changed.connect(self._advance)

    def _advance(self, phase: Phase) -> None:
        errors = [notice for notice in self._views.notices.shown() if notice.is_error]
        if errors:
            self._end(1, "smoke test: " + "\n".join(filter(None, (errors[0].text, errors[0].details))))
        elif phase is Phase.READY and not self._asked:
            self._asked = True
            self._controller.send(QUESTION)
        elif phase is Phase.READY:
            QTimer.singleShot(_SETTLE_MS, self._finish)

    def _finish(self) -> None:
        turn = self._controller.turns[-1]
        if not turn.answer.strip():
            self._end(1, "smoke test: the reply is empty")
        elif self._screenshot and not self._views.window.grab().save(str(self._screenshot)):
            self._end(1, f"smoke test: the screenshot could not be written to {self._screenshot}")
        else:
            self._end(0, "")

    def _time_out(self) -> None:
        self._end(1, f"smoke test: no answer within {self._watchdog.interval() / 1000:g} s")

    def _end(self, status: int, message: str) -> None:
        self._watchdog.stop()
        self._controller.phase_changed.disconnect(self._advance)
        self.status, self.message = status, message
        self._views.window.close()
        QApplication.quit()
