"""A question in place, with a button for yes and one that leaves all as it is. Knows nothing of what is asked."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QScrollArea, QSizePolicy, QWidget


class Confirmation(QWidget):
    """Hidden until something is asked, and again after the answer."""

    agreed = Signal()

    def __init__(self, yes: str = "Delete", no: str = "Keep") -> None:
        super().__init__()
        self.text = QLabel()
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.text.setWordWrap(True)
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.yes, self.no = QPushButton(yes), QPushButton(no)
        self.no.setProperty("role", "quiet")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 4, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.text, 1)
        for button, do in ((self.yes, self._agree), (self.no, self.hide)):
            button.setAutoDefault(False)
            button.clicked.connect(do)
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def ask(self, text: str) -> None:
        """Nothing is done before the answer."""
        self.text.setText(text)
        self.yes.setAccessibleDescription(text)
        self.show()
        self.yes.setFocus()
        QTimer.singleShot(0, self._come_in_sight)  # once it has its place

    def _come_in_sight(self) -> None:
        """Where it lies in something that scrolls."""
        around = self.parentWidget()
        while around is not None and not isinstance(around, QScrollArea):
            around = around.parentWidget()
        if around is not None:
            around.ensureWidgetVisible(self)

    def _agree(self) -> None:
        self.hide()
        self.agreed.emit()
