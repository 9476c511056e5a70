"""A bar to find words in the open chat: a field, how many places there are, the one before, the next, close.

Knows nothing of the chat.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from app.theme import Theme
from app.views.figures_line import grouped
from app.views.quiet_button import QuietButton

_LEAST_FIELD = 80  # px
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class FindBar(QWidget):
    """Hidden until it is asked for."""

    words_changed = Signal(str)
    next_asked = Signal()
    previous_asked = Signal()
    closed = Signal()

    def __init__(self, theme: Theme, width: int) -> None:
        super().__init__()
        self._focus_before: QWidget | None = None
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find in this chat")
        self.field.setAccessibleName("Find in this chat")
        self.field.setMinimumWidth(_LEAST_FIELD)
        self.field.textChanged.connect(self.words_changed)
        self.count = QLabel()
        self.count.setProperty("role", "small")
        self.count.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.previous_button = self._button(theme, "chevron-up", "Previous place", "Shift+Enter, Shift+F3")
        self.next_button = self._button(theme, "chevron-down", "Next place", "Enter, F3")
        self.close_button = self._button(theme, "close", "Close", "Esc")
        self.previous_button.clicked.connect(self.previous_asked)
        self.next_button.clicked.connect(self.next_asked)
        self.close_button.clicked.connect(self.close_bar)
        self._stack(width)
        self.show_count(0, 0)
        self.hide()

    def _button(self, theme: Theme, icon: str, name: str, keys: str) -> QuietButton:
        return QuietButton(theme, f"mdi6.{icon}", name, f"{name} ({keys})", waits=False)

    @property
    def _buttons(self) -> tuple[QuietButton, ...]:
        return self.previous_button, self.next_button, self.close_button

    def _stack(self, width: int) -> None:
        frame = QFrame()
        frame.setProperty("role", "panel")
        frame.setMaximumWidth(width)
        row = QHBoxLayout(frame)
        row.setContentsMargins(4, 4, 4, 4)
        row.setSpacing(2)
        row.addWidget(self.field, 1)
        row.addSpacing(8)
        row.addWidget(self.count)
        row.addSpacing(8)
        for button in self._buttons:
            row.addWidget(button)
        centred = QHBoxLayout()
        centred.setContentsMargins(16, 8, 16, 8)
        centred.addStretch(1)
        centred.addWidget(frame, 1000)
        centred.addStretch(1)
        line = QFrame()
        line.setProperty("role", "line")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(centred)
        column.addWidget(line)

    def set_theme(self, theme: Theme) -> None:
        for button in self._buttons:
            button.set_theme(theme)

    # Open and closed

    @property
    def is_open(self) -> bool:
        """Whether it is shown, or would be if the window was."""
        return not self.isHidden()

    def open(self, words: str = "") -> None:
        """Show it, its words selected; with `words`, these instead of the last ones."""
        focused = QApplication.focusWidget()
        if focused is None or not self.isAncestorOf(focused):
            self._focus_before = focused
        if words:
            self.field.setText(words)
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def close_bar(self) -> None:
        """Hide it; the keyboard goes back to where it was."""
        focused = QApplication.focusWidget()
        had_keyboard = focused is not None and self.isAncestorOf(focused)
        before, self._focus_before = self._focus_before, None
        if had_keyboard and before is not None and _is_there(before):
            before.setFocus(Qt.FocusReason.OtherFocusReason)
        self.hide()
        self.closed.emit()

    # What was found

    @property
    def words(self) -> str:
        """What is to be found."""
        return self.field.text()

    def show_count(self, number: int, places: int) -> None:
        """Which of how many places the reader is at; number 0: at none of them yet."""
        text = f"{grouped(number)} of {grouped(places)}" if number else f"{grouped(places)} found"
        if not places:
            text = "No results" if self.words.strip() else ""
        for button in (self.previous_button, self.next_button):
            button.setEnabled(places > 0)
        if text != self.count.text():
            self.count.setText(text)
            # Read out where the keyboard is: in the field.
            self.field.setAccessibleDescription(text)
            QAccessible.updateAccessibility(QAccessibleEvent(self.field, QAccessible.Event.DescriptionChanged))

    # Keys

    def event(self, event: QEvent) -> bool:
        overrides = event.type() is QEvent.Type.ShortcutOverride
        if overrides and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            event.accept()  # here it does not stop the reply
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_bar()
        elif event.key() in _ENTER and self.field.hasFocus():
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            (self.previous_asked if back else self.next_asked).emit()
        else:
            super().keyPressEvent(event)


def _is_there(widget: QWidget) -> bool:
    """Whether it can still take the keyboard: its message may be gone by now."""
    try:
        return widget.isVisible()
    except RuntimeError:  # Qt's side of it is deleted
        return False
