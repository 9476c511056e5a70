"""What a model thought before it answered, folded away under one line that says how long it took.

Knows nothing of how a reply is split, or of messages.
"""

from __future__ import annotations

from dataclasses import replace

import qtawesome
from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.durations import in_words
from app.theme import RADIUS_PX, Theme
from app.views.blocks import BlockColumn
from app.views.figures_line import counted
from app.views.step_spans import StepSpans

_BAR_PX, _BAR_AT, _INDENT = 1, 8, 18  # px: the line at the side of what was thought, and the text beside it


class FoldButton(QPushButton):
    """Shows and hides what it stands above: with a click, Enter or Space."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._outlined = False
        self.setProperty("role", "fold")
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setIconSize(QSize(14, 14))
        self.toggled.connect(self._dress)
        self._dress()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._dress()

    def set_outlined(self, outlined: bool) -> None:
        """Whether the step that the panel shows is in what is folded away."""
        if outlined != self._outlined:
            self._outlined = outlined
            self.update()

    def _dress(self) -> None:
        way = "down" if self.isChecked() else "right"
        self.setIcon(qtawesome.icon(f"mdi6.chevron-{way}", color=self._theme.text_muted, color_active=self._theme.text))
        what = "Fold away" if self.isChecked() else "Show"
        self.setToolTip(f"{what} what the model thought before it answered")
        self.setAccessibleDescription(self.toolTip())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._outlined:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(self._theme.accent), 1.5))
            painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), RADIUS_PX, RADIUS_PX)


class Thinking(QWidget):
    """The line and, unfolded, the text beneath it. Not seen while there is no text."""

    toggled = Signal()  # folded or unfolded

    def __init__(self, theme: Theme, steps: StepSpans) -> None:
        super().__init__()
        self._theme = theme
        self.head = FoldButton(theme)
        self.column = BlockColumn(_quiet(theme), steps, "Thinking")
        self._body = _Body(theme, self.column)
        self._body.hide()
        row = QHBoxLayout()
        row.addWidget(self.head)
        row.addStretch(1)
        self._page = page = QVBoxLayout(self)
        page.setContentsMargins(0, 0, 0, 8)
        page.setSpacing(0)
        page.addLayout(row)
        page.addWidget(self._body)
        self.head.toggled.connect(self._unfold)
        self.hide()

    @property
    def is_folded(self) -> bool:
        """Whether only the line is seen."""
        return not self.head.isChecked()

    def unfold(self) -> None:
        """Show the text."""
        self.head.setChecked(True)

    def _unfold(self, unfolded: bool) -> None:
        if self.column.isAncestorOf(self.focusWidget()) and not unfolded:
            self.head.setFocus(Qt.FocusReason.OtherFocusReason)
        self._body.setVisible(unfolded)
        self.toggled.emit()

    def say(self, words: str) -> None:
        """What the line says."""
        if words != self.head.text():
            self.head.setText(words)
            self.head.setAccessibleName(words)
        self.setVisible(bool(self.column.parts))

    def settle(self) -> None:
        """Take the height that the text has now; at the width it will have, also while it is folded away."""
        if self.is_folded:
            self._body.resize(self.width(), self._body.height())
        self._body.settle()
        self._page.activate()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.head.set_theme(theme)
        self.column.set_theme(_quiet(theme))
        self._body.set_theme(theme)

    def head_place(self) -> QRect:
        """Where the line is, in this widget's coordinates."""
        return self.head.geometry()


class _Body(QWidget):
    """The text, and a line at its side."""

    def __init__(self, theme: Theme, column: BlockColumn) -> None:
        super().__init__()
        self._theme = theme
        self._page = page = QVBoxLayout(self)
        page.setContentsMargins(_INDENT, 4, 0, 4)
        page.addWidget(column)
        column.show()  # a layout passes over what was never shown, and this may not be for long

    def settle(self) -> None:
        """Take the height that the text has now."""
        self._page.activate()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        QPainter(self).fillRect(_BAR_AT, 4, _BAR_PX, self.height() - 8, QColor(self._theme.unreached))


def thinking_words(seconds: float, tokens: int, words: int, *, is_closed: bool, is_growing: bool) -> str:
    """How long it took; where no step tells, how many words it is."""
    if is_growing and not is_closed:
        return f"Thinking… {in_words(seconds)} · {counted(tokens, 'token')}" if tokens else "Thinking…"
    length = in_words(seconds) if tokens else counted(words, "word")
    if not is_closed:
        return f"Thinking, broken off after {length}"
    return f"Thought for {length}" if tokens else f"Thought in {length}"


def _quiet(theme: Theme) -> Theme:
    """The theme for what is read only when somebody wants to."""
    return replace(theme, text=theme.text_muted)
