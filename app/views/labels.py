"""Labels of running text: they wrap, and show what they are given as it is. Know nothing of what they say."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel


def wrapped(role: str, text: str = "") -> QLabel:
    """A label in the style of `role`, as the style sheet has it."""
    label = QLabel(text)
    label.setProperty("role", role)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
