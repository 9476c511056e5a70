"""Labels of running text, which wrap, and of figures, which change all the time. Know nothing of what they say."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

_ANY = (1 << 24) - 1  # px: what Qt takes for no limit


def wrapped(role: str, text: str = "") -> QLabel:
    """A label in the style of `role`, as the style sheet has it."""
    label = QLabel(text)
    label.setProperty("role", role)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def small() -> QLabel:
    """A label of small words that can be selected."""
    label = QLabel()
    label.setProperty("role", "small")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


class Figure(QLabel):
    """One line that changes all the time: as wide as its longest text so far.

    Of its size Qt then asks nobody, where every new number would have the whole window laid out and painted anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)

    def setText(self, text: str) -> None:
        """Show this; no text takes no room."""
        if text != self.text():
            super().setText(text)
            self.setFixedSize(self.sizeHint().expandedTo(QSize(self.minimumWidth() if text else 0, 0)))

    def changeEvent(self, event: QEvent) -> None:
        """In another font it is laid out as any label until the next text."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.setMinimumSize(0, 0)
            self.setMaximumSize(_ANY, _ANY)


class Still(QWidget):
    """Gives a widget all of its own size; whatever changes in there, nothing outside is laid out anew."""

    def __init__(self, inner: QWidget) -> None:
        super().__init__()
        inner.setParent(self)
        self._inner = inner

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._inner.setGeometry(self.rect())
