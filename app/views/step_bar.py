"""The controls over the tree: walk to the step before and after, go live, decode slowly.

Emits what was asked for and shows what it is told. Knows nothing of the steps themselves.
"""

from __future__ import annotations

import qtawesome
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QToolButton, QWidget

from app.theme import Theme, title_font


class StepBar(QWidget):
    """Title, previous, "step 12 of 40", next, live, slow."""

    previous_asked = Signal()
    next_asked = Signal()
    live_asked = Signal()
    slow_toggled = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = QLabel("Decoding")
        self._previous = self._arrow("Previous step (←)")
        self._next = self._arrow("Next step (→)")
        self._position = QLabel()
        self._position.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._position.setMinimumWidth(self.fontMetrics().horizontalAdvance("step 000 of 000"))
        self._live = QPushButton("Live")
        self._live.setProperty("role", "quiet")
        self._live.setCheckable(True)
        self._live.setIconSize(QSize(8, 8))
        self._live.setToolTip("Follow the newest step (End)")
        self._slow = QCheckBox("Slow")
        self._slow.setToolTip("Decode at about four steps a second, so that each tree can be read")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self._title)
        row.addStretch()
        for widget in (self._previous, self._position, self._next, self._live, self._slow):
            row.addWidget(widget)
        self._previous.clicked.connect(self.previous_asked)
        self._next.clicked.connect(self.next_asked)
        self._live.clicked.connect(self._ask_for_live)
        self._slow.toggled.connect(self.slow_toggled)
        self.set_theme(theme)
        self.show_position(None, 0, live=True)

    @property
    def controls(self) -> tuple[QWidget, ...]:
        """The widgets that can have the focus."""
        return self._previous, self._next, self._live, self._slow

    @property
    def position(self) -> str:
        """The position as it reads."""
        return self._position.text()

    def set_theme(self, theme: Theme) -> None:
        """Draw the arrows in other colours, and the title in the font of now."""
        self._title.setFont(title_font())
        for button, name in ((self._previous, "mdi6.chevron-left"), (self._next, "mdi6.chevron-right")):
            button.setIcon(qtawesome.icon(name, color=theme.text, color_disabled=theme.unreached))
        self._live.setIcon(qtawesome.icon("mdi6.circle", color=theme.unreached, color_on=theme.accent))

    def show_position(self, index: int | None, count: int, *, live: bool) -> None:
        """Say which of how many steps is on screen, and offer only what leads somewhere."""
        self._position.setText("no steps yet" if index is None else f"step {index + 1} of {count}")
        self._previous.setEnabled(index is not None and index > 0)
        self._next.setEnabled(not live)
        self._live.setChecked(live)

    def _ask_for_live(self) -> None:
        self._live.setChecked(True)  # a press never switches it off: holding a step does
        self.live_asked.emit()

    def _arrow(self, words: str) -> QToolButton:
        button = QToolButton()
        button.setIconSize(QSize(20, 20))
        button.setToolTip(words)
        button.setAccessibleName(words)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button
