"""What was just deleted, and the way back. Knows nothing of what is deleted."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from app.views.status_line import ShortenedLabel

_STAYS_MS = 30_000


class UndoBar(QWidget):
    """Goes by itself after half a minute, but not while the pointer or the keyboard is on it."""

    undo_asked = Signal()

    def __init__(self, width: int) -> None:
        super().__init__()
        frame = QFrame()
        frame.setProperty("role", "panel")
        frame.setMaximumWidth(width)
        self.label = ShortenedLabel()
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.undo_button = QPushButton("&Undo")
        self.undo_button.setToolTip("Bring it back (Alt+U)")
        self.undo_button.clicked.connect(self.undo_asked)
        dismiss = QPushButton("Dismiss")
        dismiss.setProperty("role", "quiet")
        dismiss.clicked.connect(self.settle)
        row = QHBoxLayout(frame)
        row.setContentsMargins(12, 4, 4, 4)
        row.setSpacing(8)
        row.addWidget(self.label, 1)
        row.addWidget(self.undo_button)
        row.addWidget(dismiss)
        centred = QHBoxLayout(self)
        centred.setContentsMargins(16, 8, 16, 0)
        centred.addStretch(1)
        centred.addWidget(frame, 1000)
        centred.addStretch(1)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_STAYS_MS)
        self._timer.timeout.connect(self._run_out)
        self.hide()

    def tell(self, text: str) -> None:
        """Offer to undo this."""
        self.label.set_full(text)
        self.show()
        self._timer.start()

    def settle(self) -> None:
        """There is nothing to undo."""
        self._timer.stop()
        self.hide()

    @property
    def text(self) -> str:
        """What can be undone; "" for nothing."""
        return "" if self.isHidden() else self.label.full

    def _run_out(self) -> None:
        focused = self.focusWidget()
        if self.underMouse() or (focused is not None and focused.hasFocus()):
            self._timer.start()
        else:
            self.settle()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Leave and self._timer.isActive():
            self._timer.start()
        return super().event(event)
