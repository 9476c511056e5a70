"""Text that grows at its end and knows which characters each decoding step wrote.

The text is shown exactly as it was written, line ends and all; tints and outlines are painted beneath it from character
spans, so that the document is only ever appended to and a long reply streams as fast as a short one. Knows nothing of
messages, of Markdown, or of where the steps came from.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QMimeData, QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCursor,
    QTextLine,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QFrame, QSizePolicy, QTextBrowser

from app.theme import Theme
from medusa_core.events import Step

LINE_HEIGHT = 1.45  # of the font's size
MEASURE = 72  # characters a line at most
EDGE = 2  # px about the text, for the outline of a held step
_AIR = 2.0  # px
_UNSETTLED = 2 * MEASURE  # characters at the end whose lines the next words may still break differently

# Characters that a text document would drop, double or take for its own structure, one for one, so offsets stay.
_SHOWN_AS = str.maketrans({"\r": "\u200b", "\u2029": "\n", "\0": "\u2400", "\ufdd0": "\ufffd", "\ufdd1": "\ufffd"})
_LEAVE_TO_PAGE = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


@dataclass(frozen=True, slots=True)
class StepSpan:
    """Which characters of the text one step wrote: [start, end), those of drafted tokens from `drafted` on."""

    start: int
    drafted: int
    end: int


def span_of(token_spans: Sequence[tuple[int, int]]) -> StepSpan | None:
    """The span of a step from its tokens': the first is the model's own, the others were drafted."""
    if not token_spans:
        return None
    end = token_spans[-1][1]
    return StepSpan(token_spans[0][0], token_spans[1][0] if len(token_spans) > 1 else end, end)


class CharacterIndex:
    """Character offsets to and from Qt's positions, which count characters beyond U+FFFF twice."""

    def __init__(self) -> None:
        self.length = 0
        self._wide: list[int] = []  # offsets of the characters that count twice
        self._wide_positions: list[int] = []

    def append(self, text: str) -> None:
        if not text.isascii():
            for offset, character in enumerate(text, self.length):
                if character > "\uffff":
                    self._wide_positions.append(offset + len(self._wide))
                    self._wide.append(offset)
        self.length += len(text)

    def position(self, offset: int) -> int:
        return offset + bisect_left(self._wide, offset)

    def offset(self, position: int) -> int:
        return position - bisect_left(self._wide_positions, position)


class TokenText(QTextBrowser):
    """Read-only text as high as what it holds, for use inside a scrolling page."""

    token_chosen = Signal(int)  # offset of a character that was clicked, or chosen with Enter
    caret_moved = Signal(QRectF)  # where the keyboard caret is, in this widget's coordinates

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._text: list[str] = []
        self._characters = CharacterIndex()
        self._steps: list[StepSpan | None] = []  # by step index
        self._starts: list[int] = []  # of the steps, for bisection
        self._settled: dict[int, list[QRectF]] = {}  # by step index, for this width
        self._tinted = True
        self._held = -1
        self._pressed_at = QPointF()
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self._set_up_document()
        self.cursorPositionChanged.connect(self._report_caret)

    def _set_up_document(self) -> None:
        document = self.document()
        document.setDocumentMargin(EDGE)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        document.setDefaultTextOption(option)
        paragraph = QTextBlockFormat()
        metrics = QFontMetricsF(self.font())
        percent = 100 * LINE_HEIGHT * self.font().pixelSize() / metrics.height()
        paragraph.setLineHeight(max(100.0, percent), QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        QTextCursor(document).setBlockFormat(paragraph)
        document.documentLayout().documentSizeChanged.connect(self._fit_height)
        self._fit_height(document.size())

    # What it holds

    @property
    def text(self) -> str:
        """Everything appended so far, untouched."""
        return "".join(self._text)

    def append_text(self, text: str) -> None:
        """Add text at the end. The reader's selection and caret stay where they are."""
        if not text:
            return
        self._text.append(text)
        self._characters.append(text)
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text.translate(_SHOWN_AS))

    def append_steps(self, steps: Sequence[Step]) -> None:
        """Add what the next steps wrote, in one go: each insertion lays the last paragraph out again."""
        for step in steps:
            span = span_of(step.spans)
            self._steps.append(span)
            self._starts.append(span.start if span else self._steps_end())
        self.append_text("".join(step.text for step in steps))

    def _steps_end(self) -> int:
        return self._starts[-1] if self._starts else 0

    def drafted_spans(self) -> list[tuple[int, int]]:
        """The character spans that are tinted, in order."""
        return [(step.drafted, step.end) for step in self._steps if step and step.drafted < step.end]

    def held_span(self) -> tuple[int, int] | None:
        """The character span that is outlined."""
        step = self._steps[self._held] if 0 <= self._held < len(self._steps) else None
        return (step.start, step.end) if step else None

    def step_at(self, offset: int) -> int:
        """The step that wrote the character at `offset`, or -1."""
        index = bisect_right(self._starts, offset) - 1
        while index >= 0 and not ((step := self._steps[index]) and step.start <= offset < step.end):
            if step and step.end <= offset and step.start < step.end:
                return -1
            index -= 1  # steps that released no whole character share a start with the next one
        return index

    # How it looks

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.viewport().update()

    def set_tinted(self, tinted: bool) -> None:
        """Whether drafted tokens carry a tint."""
        self._tinted = tinted
        self.viewport().update()

    def hold_step(self, index: int) -> None:
        """Outline what a step wrote; -1 for none."""
        if index != self._held:
            self._held = index
            self.viewport().update()

    def held_rectangle(self) -> QRectF | None:
        """Where the outlined step stands, in this widget's coordinates; None where there is none."""
        span = self.held_span()
        rectangles = list(self._rectangles(*span)) if span else []
        return rectangles[0].united(rectangles[-1]) if rectangles else None

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._tinted:
            self._paint_tints(painter, event.rect().top(), event.rect().bottom())
        self._paint_held(painter)
        painter.end()
        super().paintEvent(event)

    def _paint_tints(self, painter: QPainter, top: int, bottom: int) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.accepted_tint))
        first = bisect_left(self._starts, self._offset_at(QPointF(0, top)))
        last = bisect_right(self._starts, self._offset_at(QPointF(self.width(), bottom)))
        for index in range(max(0, first - 1), last):
            for rectangle in self._tints(index):
                painter.drawRoundedRect(rectangle, 3, 3)

    def _tints(self, index: int) -> list[QRectF]:
        """Where the drafted tokens of a step stand; remembered once no new text can move them."""
        if index in self._settled:
            return self._settled[index]
        step = self._steps[index]
        rectangles = list(self._rectangles(step.drafted, step.end)) if step and step.drafted < step.end else []
        if step and step.end + _UNSETTLED < self._characters.length:
            self._settled[index] = rectangles
        return rectangles

    def resizeEvent(self, event: QResizeEvent) -> None:
        if event.size().width() != event.oldSize().width():
            self._settled.clear()
        super().resizeEvent(event)

    def _paint_held(self, painter: QPainter) -> None:
        span = self.held_span()
        if span is None:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(self._theme.accent), 1.5))
        for rectangle in self._rectangles(*span):
            painter.drawRoundedRect(rectangle.adjusted(-0.5, -0.5, 0.5, 0.5), 3, 3)

    def _rectangles(self, start: int, end: int) -> Iterator[QRectF]:
        """One rectangle a line for the characters [start, end), letter-high, without white space at its ends."""
        first, last = self._characters.position(start), self._characters.position(end)
        block = self.document().findBlock(first)
        while block.isValid() and block.position() < last:
            yield from self._block_rectangles(block, first - block.position(), last - block.position())
            block = block.next()

    def _block_rectangles(self, block: QTextBlock, first: int, last: int) -> Iterator[QRectF]:
        origin = self.document().documentLayout().blockBoundingRect(block).topLeft()
        metrics = QFontMetricsF(self.font())
        layout = block.layout()
        line = layout.lineForTextPosition(max(0, first))
        while line.isValid() and line.textStart() < last:
            begin, stop = max(first, line.textStart()), min(last, line.textStart() + line.textLength())
            while begin < stop and self._is_space(block.position() + begin):
                begin += 1
            while begin < stop and self._is_space(block.position() + stop - 1):
                stop -= 1
            if begin < stop:
                left, right = sorted((_x(line, begin), _x(line, stop)))
                # A little air where a space gives room for it; between two letters the edge is exact.
                left -= _AIR if self._is_space(block.position() + begin - 1) else 0
                right += _AIR if self._is_space(block.position() + stop) else 0
                baseline = origin.y() + line.y() + line.ascent()
                yield QRectF(origin.x() + left, baseline - metrics.ascent(), right - left, metrics.height())
            number = line.lineNumber() + 1
            line = layout.lineAt(number) if number < layout.lineCount() else QTextLine()

    def _is_space(self, position: int) -> bool:
        character = self.document().characterAt(position)
        return not character or character == "\0" or character.isspace()

    def _offset_at(self, point: QPointF) -> int:
        position = self.document().documentLayout().hitTest(point, Qt.HitTestAccuracy.FuzzyHit)
        return self._characters.offset(position)

    def _character_under(self, point: QPointF) -> int:
        """The offset of the character the point is on, where a hit test gives the nearest gap between two; or -1."""
        layout = self.document().documentLayout()
        hit = layout.hitTest(point, Qt.HitTestAccuracy.ExactHit)
        if hit < 0:
            return -1
        block = self.document().findBlock(hit)
        inside = point - layout.blockBoundingRect(block).topLeft()
        for number in range(block.layout().lineCount()):
            line = block.layout().lineAt(number)
            if inside.y() < line.y() + line.height():
                position = line.xToCursor(inside.x(), QTextLine.CursorPosition.CursorOnCharacter)
                return self._characters.offset(block.position() + position)
        return -1

    def _fit_height(self, size: QSizeF) -> None:
        self.setFixedHeight(max(1, math.ceil(size.height())))

    # What the reader does

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed_at = event.position()
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        moved = (event.position() - self._pressed_at).manhattanLength() >= QApplication.startDragDistance()
        if event.button() is Qt.MouseButton.LeftButton and not moved and not self.textCursor().hasSelection():
            offset = self._character_under(event.position())
            if offset >= 0:
                self.token_chosen.emit(offset)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.token_chosen.emit(self._characters.offset(self.textCursor().position()))
        elif event.key() in _LEAVE_TO_PAGE:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the page scrolls, never the text inside it

    def createMimeDataFromSelection(self) -> QMimeData:
        """The selected characters as they were written, where Qt's own would turn no-break spaces into spaces."""
        cursor = self.textCursor()
        start, end = (self._characters.offset(at) for at in (cursor.selectionStart(), cursor.selectionEnd()))
        data = QMimeData()
        data.setText(self.text[start:end])
        return data

    def _report_caret(self) -> None:
        if self.hasFocus():
            self.caret_moved.emit(QRectF(self.cursorRect()))


def _x(line: QTextLine, position: int) -> float:
    place = line.cursorToX(position)
    return float(place[0] if isinstance(place, tuple) else place)
