"""The controls over the tree: walk through the steps, go live, decode slowly, and a menu for everything rarer.

Emits what was asked for and shows what it is told. Knows nothing of the steps themselves.
"""

from __future__ import annotations

import qtawesome
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QSlider, QToolButton, QVBoxLayout, QWidget

from app.theme import Theme, title_font
from app.views.labels import Figure


class StepBar(QWidget):
    """Title, live, slow, table, more; below them previous, a slider over all steps, next, "step 12 of 40"."""

    previous_asked = Signal()
    next_asked = Signal()
    live_asked = Signal()
    step_asked = Signal(int)
    slow_toggled = Signal(bool)
    table_toggled = Signal(bool)
    menu_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = QLabel("Decoding")
        self._previous = self._tool("Previous step (←)")
        self._next = self._tool("Next step (→)")
        self.slider = self._make_slider()
        self._position = Figure()
        self._position.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._live = QPushButton("Live")
        self._live.setProperty("role", "quiet")
        self._live.setCheckable(True)
        self._live.setIconSize(QSize(8, 8))
        self._live.setToolTip("Follow the newest step (End)")
        self._slow = QCheckBox("Slow")
        self._slow.setToolTip("Decode at about four steps a second, so that each tree can be read")
        self._table = self._tool("Show the tree as a table")
        self._table.setCheckable(True)
        self.more = self._tool("More: recordings, export, zoom")
        self._stack()
        self._previous.clicked.connect(self.previous_asked)
        self._next.clicked.connect(self.next_asked)
        self._live.clicked.connect(self._ask_for_live)
        self._slow.toggled.connect(self.slow_toggled)
        self._table.toggled.connect(self.table_toggled)
        self.more.clicked.connect(self.menu_asked)
        self.slider.valueChanged.connect(self.step_asked)
        self.set_theme(theme)
        self.show_position(None, 0, live=True)

    def _stack(self) -> None:
        first, second = QHBoxLayout(), QHBoxLayout()
        first.addWidget(self._title)
        first.addStretch()
        for widget in (self._live, self._slow, self._table, self.more):
            first.addWidget(widget)
        second.addWidget(self._previous)
        second.addWidget(self.slider, 1)
        for widget in (self._next, self._position):
            second.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for row in (first, second):
            row.setSpacing(4)
            column.addLayout(row)

    def _make_slider(self) -> QSlider:
        slider = QSlider(Qt.Orientation.Horizontal)
        slider.setAccessibleName("Step of the reply")
        slider.setToolTip("Any step of the reply (← →, Home)")
        slider.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        slider.setPageStep(10)
        return slider

    @property
    def controls(self) -> tuple[QWidget, ...]:
        """The widgets that can have the focus."""
        return self._live, self._slow, self._table, self.more, self._previous, self.slider, self._next

    @property
    def position(self) -> str:
        """The position as it reads."""
        return self._position.text()

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons in other colours, and the title in the font of now."""
        self._title.setFont(title_font())
        icons = (
            (self._previous, "mdi6.chevron-left"),
            (self._next, "mdi6.chevron-right"),
            (self._table, "mdi6.table"),
            (self.more, "mdi6.dots-horizontal"),
        )
        for button, name in icons:
            button.setIcon(qtawesome.icon(name, color=theme.text, color_disabled=theme.unreached))
        self._live.setIcon(qtawesome.icon("mdi6.circle", color=theme.unreached, color_on=theme.accent))

    def show_position(self, index: int | None, count: int, *, live: bool) -> None:
        """Say which of how many steps is on screen, and offer only what leads somewhere."""
        self._position.setText("no steps yet" if index is None else f"step {index + 1} of {count}")
        self._previous.setEnabled(index is not None and index > 0)
        self._next.setEnabled(not live)
        self._live.setChecked(live)
        self.slider.blockSignals(True)
        self.slider.setEnabled(count > 1)
        self.slider.setRange(0, max(count - 1, 0))
        self.slider.setValue(index or 0)
        self.slider.blockSignals(False)

    def show_slow(self, slow: bool) -> None:
        """Bring the switch up to date without asking for anything."""
        self._slow.blockSignals(True)
        self._slow.setChecked(slow)
        self._slow.blockSignals(False)

    def table_action(self) -> QAction:
        """The switch to the table, for a menu."""
        action = QAction("Show the tree as a table", self, checkable=True, checked=self._table.isChecked())
        action.toggled.connect(self._table.setChecked)
        return action

    def _ask_for_live(self) -> None:
        self._live.setChecked(True)  # a press never switches it off: holding a step does
        self.live_asked.emit()

    def _tool(self, words: str) -> QToolButton:
        button = QToolButton()
        button.setIconSize(QSize(20, 20))
        button.setToolTip(words)
        button.setAccessibleName(words)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button
