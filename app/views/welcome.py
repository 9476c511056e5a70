"""What stands in an empty conversation: a title, a sentence, and questions to begin with. Knows nothing of messages."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.views.message import INDENT


class Welcome(QWidget):
    """Centred a little above the middle."""

    chosen = Signal(str)
    models_asked = Signal()
    recording_asked = Signal()

    def __init__(self, suggestions: Sequence[str]) -> None:
        super().__init__()
        self._title, self._text = QLabel(), QLabel()
        self._title.setProperty("role", "title")
        self._text.setProperty("role", "muted")
        self._text.setWordWrap(True)
        self._buttons = [self._button(text) for text in suggestions]
        column = QVBoxLayout(self)
        column.setContentsMargins(INDENT, 0, INDENT, 0)
        column.setSpacing(8)
        column.addStretch(2)
        column.addWidget(self._title)
        column.addWidget(self._text)
        column.addSpacing(8)
        for button in self._buttons:
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        self.models_button, self.recording_button = (
            QPushButton("Get or import a model"),
            QPushButton("See a recorded reply"),
        )
        self.models_button.setProperty("role", "primary")
        self.models_button.clicked.connect(self.models_asked)
        self.recording_button.clicked.connect(self.recording_asked)
        for button in (self.models_button, self.recording_button):
            button.hide()
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(3)

    def _button(self, text: str) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip("Ask this")
        button.clicked.connect(self._choose)
        return button

    def _choose(self) -> None:
        button = self.sender()
        if isinstance(button, QPushButton):
            self.chosen.emit(button.text())

    def say(self, title: str, text: str, *, suggest: bool, without_model: bool = False) -> None:
        """Say this; with `suggest`, offer the questions; `without_model`, what can be done without one."""
        self._title.setText(title)
        self._text.setText(text)
        for button in self._buttons:
            button.setVisible(suggest)
        for button in (self.models_button, self.recording_button):
            button.setVisible(without_model)
