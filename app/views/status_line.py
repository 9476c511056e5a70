"""The line at the foot of the window: what is loaded, why nothing is drafted, how full the context and the memory are.

While something is waited for it says what, how far that is, and offers to cancel. Knows nothing of models.
"""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QSizePolicy, QWidget

from app.views.labels import Figure

SEPARATOR = "  ·  "


class ShortenedLabel(QLabel):
    """One line that ends in … where there is no room; the tooltip then has all of it."""

    def __init__(self) -> None:
        super().__init__()
        self._full = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)

    @property
    def full(self) -> str:
        """The text with nothing left out."""
        return self._full

    def set_full(self, text: str) -> None:
        """Show this, as far as there is room."""
        if text != self._full:
            self._full = text
            self.setAccessibleName(text)
            self.updateGeometry()
            self._shorten()

    def sizeHint(self) -> QSize:
        """Wide enough for all of it."""
        margins = self.contentsMargins()
        wide = QFontMetrics(self.font()).horizontalAdvance(self._full) + margins.left() + margins.right() + 16
        return QSize(wide if self._full else 0, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """It gives way to its neighbours."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten anew."""
        super().resizeEvent(event)
        self._shorten()

    def _shorten(self) -> None:
        room = max(0, self.contentsRect().width() - 12)  # the style sheet's padding
        shown = QFontMetrics(self.font()).elidedText(self._full, Qt.TextElideMode.ElideRight, room)
        self.setText(shown)
        self.setToolTip(self._full if shown != self._full else "")


class StatusLine(QWidget):
    """Facts at the left, the reason beside them, figures at the right."""

    cancel_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.facts, self.reason = ShortenedLabel(), ShortenedLabel()
        self.reason.setProperty("role", "warning")
        self.context, self.memory = Figure(), Figure()
        for figure in (self.context, self.memory):
            figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.memory.setToolTip("Memory that this app takes, the model included")
        self.progress = QProgressBar()
        self.progress.setFixedWidth(160)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress")
        self.cancel_button = QPushButton("Cancel")
        self.cancel_button.setProperty("role", "quiet")
        self.cancel_button.setAccessibleName("Cancel loading the model")
        self.cancel_button.clicked.connect(self.cancel_asked)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.facts)
        row.addWidget(self.progress)
        row.addWidget(self.cancel_button)
        row.addWidget(self.reason)
        row.addStretch(1)
        row.addWidget(self.context)
        row.addWidget(self.memory)
        self.show_facts("", "", "")

    def show_work(self, stage: str, done: float, total: float) -> None:
        """What is being done; with `total` 0 nobody knows for how long."""
        self.facts.set_full(stage)
        self.reason.set_full("")
        self.progress.setRange(0, 1000 if total else 0)
        if total:
            self.progress.setValue(round(1000 * min(1.0, done / total)))
        self.progress.show()
        self.cancel_button.show()

    def show_facts(self, facts: str, context: str, reason: str) -> None:
        """What is loaded, how full the context is, and why nothing is drafted ("" where something is)."""
        self.facts.set_full(facts)
        self.context.setText(context)
        self.reason.set_full(reason)
        self.progress.hide()
        self.cancel_button.hide()

    def show_memory(self, text: str) -> None:
        """What the app takes."""
        self.memory.setText(text)
