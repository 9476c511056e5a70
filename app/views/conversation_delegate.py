"""Paints a row of the conversation list: a heading, a title, or a title over the text in which words were found.

Knows nothing of the list.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.conversations import Hit
from app.theme import Theme, small_font, title_font, ui_font
from app.views.conversation_model import ROW, Heading

_SIDE, _ABOVE = 10, 6  # px about a row's text
_SNIPPET_LINES = 2
_LEAD = 24  # characters before the first word found

Index = QModelIndex | QPersistentModelIndex


class ConversationDelegate(QStyledItemDelegate):
    """Words that were found stand in bold and in the accent's colour."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        row = index.data(ROW)
        if isinstance(row, Heading):
            return QSize(0, QFontMetrics(small_font()).height() + 2 * _ABOVE + 4)
        height = QFontMetrics(ui_font()).height() + 2 * _ABOVE
        if isinstance(row, Hit) and row.message is not None:
            height += _SNIPPET_LINES * QFontMetrics(small_font()).height()
        return QSize(0, height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row = index.data(ROW)
        self.initStyleOption(option, index)
        option.text = ""
        style = option.widget.style() if option.widget is not None else QApplication.style()
        painter.save()
        area = option.rect.adjusted(_SIDE, _ABOVE, -_SIDE, -_ABOVE)
        if isinstance(row, Heading):
            self._write(painter, area, row.title, small_font(), self.theme.text_muted, bottom=True)
        else:
            style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
            found = isinstance(row, Hit)
            font = title_font() if found else ui_font()
            self._write(painter, area, row.title, font, self.theme.text)
            if isinstance(row, Hit) and row.message is not None:
                self._write_snippet(painter, area.adjusted(0, QFontMetrics(font).height(), 0, 0), row)
        painter.restore()

    def _write(
        self, painter: QPainter, area: QRect, text: str, font: QFont, colour: str, *, bottom: bool = False
    ) -> None:
        painter.setFont(font)
        painter.setPen(QColor(colour))
        shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        # Each title in its own direction, but all of them beginning at the list's side.
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute
        flags |= Qt.AlignmentFlag.AlignBottom if bottom else Qt.AlignmentFlag.AlignTop
        painter.drawText(area, flags | Qt.TextFlag.TextSingleLine, shown)

    def _write_snippet(self, painter: QPainter, area: QRect, hit: Hit) -> None:
        text, ranges = _marked(hit)
        layout = QTextLayout(text, small_font())
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        layout.setTextOption(option)
        formats = []
        for start, length in ranges:
            found = QTextLayout.FormatRange()
            found.start, found.length = start, length
            look = QTextCharFormat()
            look.setFontWeight(QFont.Weight.Bold)
            look.setForeground(QColor(self.theme.accent))
            found.format = look
            formats.append(found)
        layout.setFormats(formats)
        layout.beginLayout()
        y = 0.0
        for _ in range(_SNIPPET_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(area.width())
            line.setPosition(QPointF(0, y))
            y += line.height()
        layout.endLayout()
        painter.setPen(QColor(self.theme.text_muted))
        layout.draw(painter, QPointF(area.topLeft()))

    # Renaming in place

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setAccessibleName("New title")
        editor.setMaxLength(200)
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(option.rect)


def _marked(hit: Hit) -> tuple[str, list[tuple[int, int]]]:
    """The snippet from shortly before the first word found, and where the words stand in it: (start, length)."""
    text, ranges = "", list[tuple[int, int]]()
    for run, found in hit.snippet:
        words = run.replace("\n", " ")
        if found:
            ranges.append((len(text), len(words)))
        elif not text and len(words) > _LEAD:
            lead = words[-_LEAD:]
            words = "…" + (lead.partition(" ")[2].lstrip() or lead)  # from the beginning of a word, where there is one
        text += words
    return text, ranges
