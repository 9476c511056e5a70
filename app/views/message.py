"""What questions and replies have in common: a text, and under it a bar that appears on hover and on focus.

Knows nothing of the other messages.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame

from app.theme import Theme
from app.views.abstract import AbstractQt
from app.views.copy_button import CopyButton
from app.views.message_bar import MessageBar
from app.views.quiet_button import QuietButton
from app.views.source_text import SourceText

INDENT = 12  # of the text within a message, so that questions and replies share one left edge


class Message(QFrame, metaclass=AbstractQt):
    """A text that can be copied and taken away."""

    caret_moved = Signal(QRectF)  # where the keyboard caret is, in this widget's coordinates
    variant_asked = Signal(int)  # -1: the one before, 1: the one after
    removal_asked = Signal()
    text_changed = Signal()
    reshaped = Signal()  # the reader has folded or unfolded part of it

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        what = name.lower()
        self.bar = MessageBar(theme, what, INDENT - 4)
        self.bar.variant_asked.connect(self.variant_asked)
        self.copy_button = CopyButton(theme, f"Copy the {what}", f"Copy the {what}, as it was written")
        self.copy_button.clicked.connect(self.copy)
        self.remove_button = QuietButton(
            theme, "mdi6.trash-can-outline", f"Delete the {what}", f"Delete the {what} and what follows it"
        )
        self.remove_button.clicked.connect(self.removal_asked)

    def fill_bar(self, *between: QuietButton) -> None:
        """Set up the bar: copy, what this kind of message has, delete."""
        for button in (self.copy_button, *between, self.remove_button):
            self.bar.add_button(button)
        for button in self.bar.buttons:
            button.installEventFilter(self)

    def set_theme(self, theme: Theme) -> None:
        self.bar.set_theme(theme)

    def set_usable(self, usable: bool, *, can_ask: bool) -> None:
        """Whether it can be changed now, and whether the model can be asked."""
        del can_ask
        self.bar.set_usable(usable)
        self.remove_button.setEnabled(usable)

    @abstractmethod
    def source(self) -> str:
        """The whole text, as it was written."""

    @abstractmethod
    def texts(self) -> Sequence[SourceText]:
        """What can be read of it, in order."""

    @abstractmethod
    def look_for(self, words: re.Pattern[str] | None) -> None:
        """Mark these words wherever they stand; None: nothing is looked for."""

    def reveal(self, text: SourceText) -> bool:
        """Unfold what hides this text; False where nothing does."""
        del text
        return False

    def copy(self) -> None:
        """Put the whole text on the clipboard, as it was written."""
        QGuiApplication.clipboard().setText(self.source())
        self.copy_button.say_done()

    def watch(self, text: SourceText) -> None:
        """Follow the keyboard in a text of this message."""
        text.installEventFilter(self)
        text.caret_moved.connect(self._report_caret)

    def _report_caret(self, place: QRectF) -> None:
        text = self.sender()
        if isinstance(text, SourceText):
            self.caret_moved.emit(place.translated(text.viewport().mapTo(self, QPoint(0, 0))))

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Enter:
            self.bar.set_shown(True)
        elif event.type() is QEvent.Type.Leave:
            self.bar.set_shown(self.has_keyboard())
        return super().event(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.bar.set_shown(event.type() is QEvent.Type.FocusIn or self.underMouse())
        return super().eventFilter(watched, event)

    def has_keyboard(self) -> bool:
        """Whether the keyboard is in this message."""
        focused = self.focusWidget()
        return focused is not None and focused.hasFocus()
