"""A button that copies, and says that it has. Knows nothing of what is copied."""

from __future__ import annotations

import qtawesome
from PySide6.QtCore import QSize, QTimer
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QToolButton

from app.theme import Theme

_SAID_MS = 1500


class CopyButton(QToolButton):
    """With `waits`, unseen until the pointer is over what it copies or the keyboard is on the button."""

    def __init__(self, theme: Theme, name: str, hint: str, *, waits: bool = True) -> None:
        super().__init__()
        self._theme, self._hint = theme, hint
        self._shown = not waits
        self._done = QTimer(self)
        self._done.setSingleShot(True)
        self._done.setInterval(_SAID_MS)
        self._done.timeout.connect(self._dress)
        self.setAccessibleName(name)
        self.setIconSize(QSize(14, 14))
        self._dress()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._dress()

    def set_shown(self, shown: bool) -> None:
        self._shown = shown
        self.update()

    def say_done(self) -> None:
        """Show for a moment that it has copied."""
        self.setIcon(qtawesome.icon("mdi6.check", color=self._theme.accepted))
        self.setToolTip("Copied")
        self._done.start()

    def _dress(self) -> None:
        self.setToolTip(self._hint)
        icon = qtawesome.icon("mdi6.content-copy", color=self._theme.text_muted, color_active=self._theme.text)
        self.setIcon(icon)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shown or self.hasFocus():
            super().paintEvent(event)
