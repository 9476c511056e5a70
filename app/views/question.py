"""One question, which can be edited in place and asked again. Knows nothing of what becomes of its other wordings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.theme import Theme
from app.views.growing_edit import GrowingEdit
from app.views.lines import plain
from app.views.marks import Marks
from app.views.message import INDENT, Message
from app.views.quiet_button import QuietButton
from app.views.source_text import EDGE, SourceText

_SENDING_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class Question(Message):
    """What the person asked, in a soft panel, exactly as it was typed."""

    edited = Signal(str)  # another wording, to be asked

    def __init__(self, theme: Theme, text: str) -> None:
        super().__init__(theme, "Question")
        self._source, self._marks = text, Marks(theme)
        self.text = SourceText(self._marks)
        self.text.setAccessibleName("Question")
        self.text.set_lines(0, plain(text))
        self.watch(self.text)
        self.edit_button = QuietButton(theme, "mdi6.pencil-outline", "Edit the question", "Edit and ask again")
        self.edit_button.clicked.connect(self.begin_editing)
        self.fill_bar(self.edit_button)
        self.editor: GrowingEdit | None = None
        self._panel = QFrame()
        self._panel.setProperty("role", "panel")
        self._inside = QVBoxLayout(self._panel)
        self._inside.setContentsMargins(INDENT - EDGE, 6, INDENT - EDGE, 6)
        self._inside.setSpacing(8)
        self._inside.addWidget(self.text)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._panel)
        column.addWidget(self.bar)

    def source(self) -> str:
        return self._source

    def texts(self) -> Sequence[SourceText]:
        return () if self.editor is not None else (self.text,)

    def look_for(self, words: re.Pattern[str] | None) -> None:
        self._marks.words = words
        self.text.found.search()

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self._marks.theme = theme
        self.text.set_theme()

    def set_usable(self, usable: bool, *, can_ask: bool) -> None:
        super().set_usable(usable, can_ask=can_ask)
        self.edit_button.setEnabled(usable and can_ask)
        if self.editor is not None:
            self._ask_button.setEnabled(usable and can_ask)

    # Editing

    def begin_editing(self) -> None:
        """Put a text field in the question's place."""
        if self.editor is not None:
            return
        self.editor = GrowingEdit()
        self.editor.setAccessibleName("The question's new wording")
        self.editor.setPlainText(self._source)
        self.editor.installEventFilter(self)
        self._choice = self._buttons()
        self.text.hide()
        self.bar.hide()
        self._inside.addWidget(self.editor)
        self._inside.addWidget(self._choice)
        self.editor.setFocus()
        self.editor.selectAll()
        self.text_changed.emit()

    def _buttons(self) -> QWidget:
        choice = QWidget()
        choice.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        row = QHBoxLayout(choice)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addStretch(1)
        cancel, self._ask_button = QPushButton("Cancel"), QPushButton("Ask again")
        cancel.setToolTip("Leave the question as it was (Esc)")
        self._ask_button.setToolTip("Ask it like this; the old wording stays as a variant (Enter)")
        self._ask_button.setProperty("role", "primary")
        cancel.clicked.connect(self.end_editing)
        self._ask_button.clicked.connect(self._ask)
        row.addWidget(cancel)
        row.addWidget(self._ask_button)
        return choice

    def end_editing(self) -> None:
        """The question as it was."""
        if self.editor is None:
            return
        for widget in (self.editor, self._choice):
            self._inside.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        self.editor = None
        self.text.show()
        self.bar.show()
        self.text.setFocus()
        self.text_changed.emit()

    def _ask(self) -> None:
        if self.editor is None or not self._ask_button.isEnabled():
            return
        text = self.editor.toPlainText()
        if text.strip():
            self.end_editing()
            self.edited.emit(text)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.editor and isinstance(event, QKeyEvent):
            escape = event.key() == Qt.Key.Key_Escape
            if event.type() is QEvent.Type.ShortcutOverride and escape:
                event.accept()  # here it does not stop anything
                return True
            if event.type() is QEvent.Type.KeyPress:
                if event.key() in _SENDING_KEYS and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                    self._ask()
                    return True
                if escape:
                    self.end_editing()
                    return True
        return super().eventFilter(watched, event)
