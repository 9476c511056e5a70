"""A code block: its language, a copy button, and the code in colours, scrolled aside where it is wide.

Knows nothing of the blocks around it.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextOption
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QTextEdit, QVBoxLayout

from app.markdown import Code
from app.views.boxed import BoxedText
from app.views.code_colours import CodeColours
from app.views.copy_button import CopyButton
from app.views.marks import Marks
from app.views.source_text import EDGE, SourceText

_INDENT = 12  # px of the code within its panel


class CodeText(SourceText):
    """Lines of code, as long as they are."""

    is_code = True
    wrap_mode = QTextOption.WrapMode.NoWrap

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks)
        self.setLineWrapMode(QTextEdit.LineWrapMode.NoWrap)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)

    def separator(self, number: int) -> str:
        return "\n"


class CodeBlock(BoxedText):
    """A panel with the code in it."""

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks, CodeText(marks), EDGE)
        self._code: Code | None = None
        self._colours = CodeColours()
        self._language = QLabel()
        self._language.setTextFormat(Qt.TextFormat.PlainText)
        self._language.setProperty("role", "small")
        self.copy_button = CopyButton(marks.theme, "Copy the code", "Copy the code", waits=False)
        self.copy_button.clicked.connect(self.copy)
        self._head = QHBoxLayout()
        self._head.setContentsMargins(_INDENT, 4, 4, 0)
        self._head.addWidget(self._language, 1)
        self._head.addWidget(self.copy_button)
        panel = QFrame()
        panel.setProperty("role", "panel")
        self._inside = inside = QVBoxLayout(panel)
        inside.setContentsMargins(0, 0, 0, 8)
        inside.setSpacing(0)
        inside.addLayout(self._head)
        row = QHBoxLayout()
        row.setContentsMargins(_INDENT - EDGE, 0, _INDENT - EDGE, 0)
        row.addWidget(self.text)
        inside.addLayout(row)
        self.column.addWidget(panel)

    def show_code(self, code: Code) -> None:
        """Show the block as it stands now."""
        if self._code is None or code.language != self._code.language:
            self._colours = CodeColours()
            self._language.setText(code.language or "Text")
            self._language.setToolTip(code.info)
            self.text.setAccessibleName(f"Code, {code.language}" if code.language else "Code")
            self._language.setVisible(not code.continues)
            self.copy_button.setVisible(not code.continues)
        self._code = code
        self.text.set_lines(*self._colours.lines(code))

    def settle(self) -> None:
        self._inside.activate()
        super().settle()

    def copy(self) -> None:
        """Put the code on the clipboard, as it was written."""
        if self._code is not None:
            QGuiApplication.clipboard().setText(self._code.text)
            self.copy_button.say_done()

    def set_theme(self) -> None:
        self.copy_button.set_theme(self.marks.theme)
        super().set_theme()
