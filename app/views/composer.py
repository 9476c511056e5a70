"""Where a message is typed: Enter sends, Shift+Enter starts a new line, Esc stops the reply.

Typing is always possible; where sending is not, the reason stands below. Knows nothing of why.
"""

from __future__ import annotations

from enum import Enum, auto

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.views.growing_edit import GrowingEdit

_SENDING_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class ComposerState(Enum):
    """What the button does."""

    READY = auto()
    WAITING = auto()  # cannot send yet
    REPLYING = auto()


class Composer(QWidget):
    """The message in the making, and the button that sends it or stops the reply."""

    submitted = Signal(str)
    stop_requested = Signal()

    def __init__(self, width: int) -> None:
        super().__init__()
        self._state = ComposerState.WAITING
        self.edit = GrowingEdit()
        self.edit.setPlaceholderText("Ask something")
        self.edit.setAccessibleName("Message")
        self.edit.installEventFilter(self)
        self.edit.textChanged.connect(self._refresh)
        self.button = _ActionButton(QSize(76, self.edit.height_of(1)))
        self.button.clicked.connect(self._press)
        self.reason = QLabel()
        self.reason.setProperty("role", "small")
        self.reason.setWordWrap(True)
        self._lay_out(width)
        self._refresh()

    def _lay_out(self, width: int) -> None:
        inner = QWidget()
        inner.setMaximumWidth(width)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.edit, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(row)
        column.addWidget(self.reason)
        centred = QHBoxLayout(self)
        centred.setContentsMargins(16, 8, 16, 12)
        centred.addStretch(1)
        centred.addWidget(inner, 1000)
        centred.addStretch(1)

    def set_state(self, state: ComposerState, reason: str = "") -> None:
        """What the button does now, and the reason where it cannot send."""
        self._state = state
        self.reason.setText(reason)
        self.reason.setVisible(bool(reason))
        self._refresh()

    def text(self) -> str:
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        self.edit.setPlainText(text)

    def submit(self) -> None:
        """Send what is typed, where that is possible now; otherwise keep it."""
        text = self.text()
        if self._state is ComposerState.READY and text.strip():
            self.edit.clear()
            self.submitted.emit(text)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            if event.key() in _SENDING_KEYS and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.submit()
                return True
            if event.key() == Qt.Key.Key_Escape and self._state is ComposerState.REPLYING:
                self.stop_requested.emit()
                return True
        return super().eventFilter(watched, event)

    def _press(self) -> None:
        if self._state is ComposerState.REPLYING:
            self.stop_requested.emit()
        else:
            self.submit()
        self.edit.setFocus()

    def _refresh(self) -> None:
        replying = self._state is ComposerState.REPLYING
        self.button.setText("Stop" if replying else "Send")
        self.button.setToolTip("Stop the reply (Esc)" if replying else "Send the message (Enter)")
        self.button.setEnabled(replying or (self._state is ComposerState.READY and bool(self.text().strip())))
        role = "" if replying else "primary"
        if self.button.property("role") != role:
            self.button.setProperty("role", role)
            self.button.style().unpolish(self.button)
            self.button.style().polish(self.button)


class _ActionButton(QPushButton):
    """As wide for either of its labels, and as high as one line of the text field."""

    def __init__(self, size: QSize) -> None:
        super().__init__("Send")
        self._size = size

    def sizeHint(self) -> QSize:
        return self._size

    def minimumSizeHint(self) -> QSize:
        return self._size
