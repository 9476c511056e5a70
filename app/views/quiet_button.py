"""A small icon button that can wait unseen until it is wanted. Knows nothing of what it does."""

from __future__ import annotations

import qtawesome
from PySide6.QtCore import QSize
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QToolButton

from app.theme import Theme


class QuietButton(QToolButton):
    """With `waits`, unseen until the pointer or the keyboard is near; its place is kept, so nothing moves."""

    def __init__(self, theme: Theme, icon: str, name: str, hint: str, *, waits: bool = True) -> None:
        super().__init__()
        self.theme, self.hint, self._icon_name = theme, hint, icon
        self._shown = not waits
        self.setAccessibleName(name)
        self.setIconSize(QSize(14, 14))
        self.dress()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.dress()

    def set_shown(self, shown: bool) -> None:
        self._shown = shown
        self.update()

    def dress(self) -> None:
        """Its usual icon and tooltip."""
        self.setToolTip(self.hint)
        theme = self.theme
        self.setIcon(
            qtawesome.icon(
                self._icon_name, color=theme.text_muted, color_active=theme.text, color_disabled=theme.unreached
            )
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shown or self.hasFocus():
            super().paintEvent(event)
