"""A button that copies, and says that it has. Knows nothing of what is copied."""

from __future__ import annotations

import qtawesome
from PySide6.QtCore import QTimer

from app.theme import Theme
from app.views.quiet_button import QuietButton

_SAID_MS = 1500


class CopyButton(QuietButton):
    """With `waits`, unseen until the pointer is over what it copies or the keyboard is on the button."""

    def __init__(
        self, theme: Theme, name: str, hint: str, *, waits: bool = True, icon: str = "mdi6.content-copy"
    ) -> None:
        super().__init__(theme, icon, name, hint, waits=waits)
        self._done = QTimer(self)
        self._done.setSingleShot(True)
        self._done.setInterval(_SAID_MS)
        self._done.timeout.connect(self.dress)

    def say_done(self) -> None:
        """Show for a moment that it has copied."""
        self.setIcon(qtawesome.icon("mdi6.check", color=self.theme.accepted))
        self.setToolTip("Copied")
        self._done.start()
