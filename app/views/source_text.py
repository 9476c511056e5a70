"""Read-only text made of lines that knows where each character stands in the source, as high as what it holds.

Tints and outlines of decoding steps are painted beneath the text from character spans. Lines are replaced from the
first that differs on, and what is before it is never laid out again. Knows nothing of blocks, or of messages.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QMimeData, QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextBlock,
    QTextCursor,
    QTextLine,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QFrame, QSizePolicy, QTextBrowser

from app.markdown import Style
from app.views.formats import Formats
from app.views.found import Found
from app.views.line_writer import length_kept, write_lines
from app.views.lines import APART, Line, cut, length_of, offset_at, ranges
from app.views.marks import Marks
from app.views.spots import line_rectangles, moving_from

MEASURE = 72  # characters a line at most
EDGE = 2  # px about the text, for the outline of a held step
_LEAVE_TO_PAGE = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class SourceText(QTextBrowser):
    """Lines one below the other."""

    is_code = False
    wrap_mode = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere

    offset_chosen = Signal(int)  # of a character that was clicked, or chosen with Enter
    link_chosen = Signal(str)
    caret_moved = Signal(QRectF)  # where the keyboard caret is, in this widget's coordinates

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._marks = marks
        self._formats = Formats(marks.theme, is_code=self.is_code)
        self._lines: list[Line] = []
        self.found = Found(self, marks)
        self._settled: dict[int, list[QRectF]] = {}  # tints by step, as long as nothing moves them
        self._pressed_at = QPointF()
        self._writing = False
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        flag = Qt.TextInteractionFlag
        self.setTextInteractionFlags(
            flag.TextSelectableByMouse | flag.TextSelectableByKeyboard
            | flag.LinksAccessibleByMouse | flag.LinksAccessibleByKeyboard
        )  # fmt: skip
        self.viewport().setAutoFillBackground(False)
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        document = self.document()
        document.setDocumentMargin(EDGE)
        document.setDefaultFont(self._formats.font)
        option = QTextOption()
        option.setWrapMode(self.wrap_mode)
        document.setDefaultTextOption(option)
        document.documentLayout().documentSizeChanged.connect(self._fit_height)
        self._fit_height(document.size())
        self.cursorPositionChanged.connect(self._report_caret)

    def loadResource(self, _kind: int, _name: object) -> None:
        """Nothing is ever fetched, from a file or from anywhere else."""

    # What it holds

    @property
    def lines(self) -> Sequence[Line]:
        """What it shows."""
        return self._lines

    def set_lines(self, first: int, lines: Sequence[Line]) -> None:
        """Replace the lines from number `first` on. The reader's selection and caret stay where they are."""
        old, kept = self._lines[first:], 0
        while kept < min(len(old), len(lines)) and old[kept] == lines[kept]:
            kept += 1
        if kept == len(old) == len(lines):
            return
        first, lines = first + kept, lines[kept:]
        self._forget_tints(self._moving_from(first, lines))
        if not first and lines:
            self._set_gap(lines[0].gap)
        with self._editing() as cursor:
            write_lines(cursor, self._formats, first, old[kept:], lines)
        self._lines[first:] = lines

    def _moving_from(self, number: int, lines: Sequence[Line]) -> int:
        """The offset of the first character that may move when these lines replace those from that number on."""
        if number == len(self._lines):
            return self._end()
        old = self._lines[number]
        kept = length_kept(old, lines[0]) if lines else 0
        return offset_at(old, moving_from(self._block(number), kept)) if kept else old.start

    def _set_gap(self, gap: int) -> None:
        """Room above the first line; Qt leaves that line's own margin out."""
        frame = self.document().rootFrame()
        look = frame.frameFormat()
        if look.topMargin() != EDGE + gap:
            look.setTopMargin(EDGE + gap)
            frame.setFrameFormat(look)

    @contextmanager
    def _editing(self) -> Iterator[QTextCursor]:
        """A cursor to write with, in one go. A caret at the place where text comes in is not pushed along."""
        before = self.textCursor()
        anchor, position = before.anchor(), before.position()
        cursor = QTextCursor(self.document())
        self._writing = True
        cursor.beginEditBlock()
        yield cursor
        cursor.endEditBlock()
        self.found.search()
        caret, last = self.textCursor(), self.document().characterCount() - 1
        if (caret.anchor(), caret.position()) != (min(anchor, last), min(position, last)):
            caret.setPosition(min(anchor, last))
            caret.setPosition(min(position, last), QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(caret)
        self._writing = False

    def _end(self) -> int:
        return offset_at(self._lines[-1], length_of(self._lines[-1])) if self._lines else 0

    def _block(self, number: int) -> QTextBlock:
        """The document's block that shows a line."""
        return self.document().findBlockByNumber(number)

    def _number(self, block: QTextBlock) -> int:
        """The line that a block of the document shows, or -1."""
        return block.blockNumber() if block.blockNumber() < len(self._lines) else -1

    # From the source to the document, and back

    def _ranges(self, start: int, end: int) -> Iterator[tuple[QTextBlock, int, int]]:
        """Where the characters [start, end) of the source stand: blocks, and positions in them."""
        number = max(0, bisect_right(self._lines, start, key=lambda line: line.start) - 1)
        while number < len(self._lines) and self._lines[number].start < end:
            for first, last in ranges(self._lines[number], start, end):
                yield self._block(number), first, last
            number += 1

    def rectangles(self, start: int, end: int) -> Iterator[QRectF]:
        """Where the characters [start, end) of the source stand, in the viewport's coordinates, a rectangle a line."""
        aside = -self.horizontalScrollBar().value()
        for block, first, last in self._ranges(start, end):
            for rectangle in line_rectangles(self.document().documentLayout(), block, first, last):
                yield rectangle.translated(aside, 0)

    def offset_at(self, position: int) -> int:
        """The offset in the source of what stands at a position of the document."""
        block = self.document().findBlock(position)
        number = self._number(block)
        return offset_at(self._lines[number], position - block.position()) if number >= 0 else self._end()

    def _offset_near(self, x: float, y: float) -> int:
        point = QPointF(x, y)
        return self.offset_at(self.document().documentLayout().hitTest(point, Qt.HitTestAccuracy.FuzzyHit))

    def _offset_under(self, point: QPointF) -> int:
        """The offset of the character the point is on, where a hit test gives the nearest gap between two; or -1."""
        layout = self.document().documentLayout()
        point += QPointF(self.horizontalScrollBar().value(), 0)
        hit = layout.hitTest(point, Qt.HitTestAccuracy.ExactHit)
        block = self.document().findBlock(hit) if hit >= 0 else QTextBlock()
        if not block.isValid() or self._number(block) < 0:
            return -1
        inside = point - layout.blockBoundingRect(block).topLeft()
        for number in range(block.layout().lineCount()):
            line = block.layout().lineAt(number)
            if inside.y() < line.y() + line.height():
                position = line.xToCursor(inside.x(), QTextLine.CursorPosition.CursorOnCharacter)
                return self.offset_at(block.position() + position)
        return -1

    # How it looks

    def set_theme(self) -> None:
        """Dress it in the theme and the font of now."""
        self._dress()
        lines, self._lines = list(self._lines), []
        self.set_lines(0, lines)
        self.refresh()

    def _dress(self) -> None:
        self._formats = Formats(self._marks.theme, is_code=self.is_code)
        self.document().setDefaultFont(self._formats.font)
        self._settled.clear()

    def refresh(self) -> None:
        """Paint it again, the marks changed."""
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        place = event.rect()
        corners = [self._offset_near(x, y) for y in (place.top(), place.bottom()) for x in (0, self.width())]
        self.paint_ground(painter, min(corners), max(corners) + 1)
        if self._marks.tinted and len(self._marks.steps):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._marks.theme.accepted_tint))
            for index in self._marks.steps.among(min(corners), max(corners) + 1):
                for rectangle in self._tints(index):
                    painter.drawRoundedRect(rectangle, 3, 3)
        self.found.paint(painter, place)
        self._paint_held(painter)
        painter.end()
        super().paintEvent(event)

    def paint_ground(self, painter: QPainter, start: int, end: int) -> None:
        """Paint what lies beneath the tints, for the characters [start, end) of the source."""

    def paint_code_grounds(self, painter: QPainter, line: Line) -> None:
        """Paint the ground of code inside a line."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._marks.theme.surface_raised))
        for piece in line.pieces:
            if Style.CODE in piece.style:
                for spot in self.rectangles(piece.offset, piece.offset + len(piece.text)):
                    painter.drawRoundedRect(spot.adjusted(-1, 0, 1, 0), 3, 3)

    def _paint_held(self, painter: QPainter) -> None:
        span = self._marks.steps[self._marks.held]
        if span is None:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(self._marks.theme.accent), 1.5))
        for rectangle in self.rectangles(span.start, span.end):
            painter.drawRoundedRect(rectangle.adjusted(-0.5, -0.5, 0.5, 0.5), 3, 3)

    def _tints(self, index: int) -> list[QRectF]:
        """Where the drafted tokens of a step stand."""
        if index not in self._settled:
            span = self._marks.steps[index]
            drafted = span is not None and span.drafted < span.end
            self._settled[index] = list(self.rectangles(span.drafted, span.end)) if span and drafted else []
        return self._settled[index]

    def _forget_tints(self, offset: int) -> None:
        """Forget where the steps stand that wrote there or later."""
        steps = self._marks.steps
        for index in range(steps.among(offset, offset).start, len(steps)):
            self._settled.pop(index, None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        if event.size().width() != event.oldSize().width():
            self._settled.clear()
        super().resizeEvent(event)
        self._fit_height(self.document().size())

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        self._settled.clear()
        super().scrollContentsBy(dx, dy)

    def _fit_height(self, size: QSizeF) -> None:
        bar = self.horizontalScrollBar()
        scrolls = self.horizontalScrollBarPolicy() is Qt.ScrollBarPolicy.ScrollBarAsNeeded
        room = bar.sizeHint().height() if scrolls and math.ceil(size.width()) > self.viewport().width() else 0
        self.setFixedHeight(max(1, math.ceil(size.height())) + room)

    # What the reader does

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed_at = event.position()
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        event.accept()
        moved = (event.position() - self._pressed_at).manhattanLength() >= QApplication.startDragDistance()
        if event.button() is not Qt.MouseButton.LeftButton or moved:
            return
        if link := self.anchorAt(event.position().toPoint()):
            self.link_chosen.emit(link)  # Qt may have selected its text, to mark it
        elif not self.textCursor().hasSelection() and (offset := self._offset_under(event.position())) >= 0:
            self.offset_chosen.emit(offset)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            cursor = self.textCursor()
            if link := cursor.charFormat().anchorHref():
                self.link_chosen.emit(link)
            else:
                self.offset_chosen.emit(self.offset_at(cursor.position()))
        elif event.key() in _LEAVE_TO_PAGE:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        # The page scrolls, and the text inside it only aside.
        turned = event.angleDelta()
        aside = turned.y() if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else turned.x()
        bar = self.horizontalScrollBar()
        if bar.maximum() and (abs(turned.x()) > abs(turned.y()) or aside == turned.y() != 0):
            bar.setValue(bar.value() - aside // 2)
            event.accept()
        else:
            event.ignore()

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        data.setText(self.selected_text())
        return data

    def selected_text(self) -> str:
        """The selected characters as they stand in the source, its lines apart as they are shown."""
        cursor = self.textCursor()
        return self.text_between(cursor.selectionStart(), cursor.selectionEnd())

    def text_between(self, start: int, end: int) -> str:
        """What stands between two positions of the document, to be copied."""
        parts: list[str] = []
        block = self.document().findBlock(start)
        while block.isValid() and block.position() <= end and self._number(block) >= 0:
            number = self._number(block)
            if parts:
                parts.append(self.separator(number))
            parts.append(cut(self._lines[number], start - block.position(), end - block.position()))
            block = block.next()
        return "".join(parts)

    def separator(self, number: int) -> str:
        """What stands before a line in a copy: paragraphs an empty line apart, inner lists set in."""
        line = self._lines[number]
        inside = [inset for inset in line.insets if inset.name != "QUOTE"]
        return ("\n\n" if line.gap >= APART else "\n") + "  " * (len(inside) - 1 if line.marked else len(inside))

    def _report_caret(self) -> None:
        if self.hasFocus() and not self._writing:
            self.caret_moved.emit(QRectF(self.cursorRect()))
