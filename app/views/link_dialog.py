"""Asks before a link is opened, and shows all of where it leads. Knows nothing of where the link was found."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.markdown.rules import is_allowed
from app.theme import title_font, token_font

_BROKEN_EVERY = 60  # characters of an address, which may have no place to break


class LinkDialog(QDialog):
    """One question: open this?"""

    def __init__(self, link: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._link = link
        is_mail = link.lower().startswith("mailto:")
        self.setWindowTitle("Open a link")
        title = QLabel("Write to this address?" if is_mail else "Open this page in the browser?")
        title.setFont(title_font())
        note = QLabel("The model wrote this address; it may be wrong, or lead elsewhere than its text says.")
        note.setProperty("role", "muted")
        note.setWordWrap(True)
        self.address = QLabel(address_in_full(link))
        self.address.setTextFormat(Qt.TextFormat.PlainText)
        self.address.setFont(token_font())
        self.address.setAccessibleName("Address")
        self.address.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(12)
        for label in (title, self.address, note):
            column.addWidget(label)
        column.addLayout(self._buttons(is_mail=is_mail))
        self.cancel_button.setFocus()

    def _buttons(self, *, is_mail: bool) -> QHBoxLayout:
        self.open_button = QPushButton("Write" if is_mail else "Open")
        self.open_button.setProperty("role", "primary")
        self.open_button.clicked.connect(self.open_link)
        self.copy_button, self.cancel_button = QPushButton("Copy the address"), QPushButton("Cancel")
        self.copy_button.clicked.connect(self.copy)
        self.cancel_button.clicked.connect(self.reject)
        self.cancel_button.setDefault(True)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.copy_button)
        row.addStretch(1)
        row.addWidget(self.cancel_button)
        row.addWidget(self.open_button)
        return row

    def open_link(self) -> None:
        """Hand the address to the system."""
        self.accept()
        if is_allowed(self._link):
            QDesktopServices.openUrl(QUrl(self._link))

    def copy(self) -> None:
        """Put the address on the clipboard, as it was written."""
        QGuiApplication.clipboard().setText(self._link)
        self.reject()


def address_in_full(link: str) -> str:
    """The whole address, broken into lines; letters of a host that could pass for others stand as they travel."""
    host = QUrl(link).host(QUrl.ComponentFormattingOption.FullyEncoded)
    lines = [link[start : start + _BROKEN_EVERY] for start in range(0, len(link), _BROKEN_EVERY)]
    if host and host not in link.lower():
        lines.append(f"Host: {host}")
    return "\n".join(lines)
