"""The places in one text that hold the words looked for, and how they are painted beneath it.

Knows nothing of the other texts, or of who looks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QTextEdit

from app.views.marks import Marks
from app.views.matches import Span, spans
from app.views.spots import line_rectangles

_LINE_PX = 2.0


class Found:
    """Found anew whenever the text was written to; only what is in sight is painted."""

    def __init__(self, text: QTextEdit, marks: Marks) -> None:
        self._text, self._marks = text, marks
        self.spans: list[Span] = []
        self.current: Span | None = None  # the one the reader is at

    def search(self) -> None:
        """Look again for the words of the marks."""
        before, words = self.spans, self._marks.words
        self.spans = spans(words, self._text.document().toRawText()) if words else []
        if self.current not in self.spans:
            self.current = None
        if before or self.spans:
            self._text.viewport().update()

    def show(self, span: Span | None) -> QRectF:
        """Make a place the current one, the text scrolled aside to it; None for none. Where it is in the viewport."""
        self.current = span
        self._text.viewport().update()
        spots = list(self._rectangles(span)) if span else []
        if not spots:
            return QRectF()
        place, bar = spots[0].united(spots[-1]), self._text.horizontalScrollBar()
        if place.left() < bar.value() or place.right() > bar.value() + self._text.viewport().width():
            bar.setValue(round(place.center().x()) - self._text.viewport().width() // 2)
        return place.translated(-bar.value(), 0)

    def position_at(self, y: float) -> int:
        """The position of the document at the beginning of the line at that height."""
        return self._text.document().documentLayout().hitTest(QPointF(0, y), Qt.HitTestAccuracy.FuzzyHit)

    def _rectangles(self, span: Span) -> Iterator[QRectF]:
        """Where a place stands, in the document's coordinates, a rectangle a line."""
        document = self._text.document()
        block = document.findBlock(span[0])
        first, last = span[0] - block.position(), span[1] - block.position()
        yield from line_rectangles(document.documentLayout(), block, first, last)

    def paint(self, painter: QPainter, exposed: QRect) -> None:
        """Paint the places in this part of the viewport: each with a line below it, the current one in a box."""
        if not self.spans:
            return
        theme, aside = self._marks.theme, self._text.horizontalScrollBar().value()
        painter.save()
        painter.translate(-aside, 0)
        for span in self._within(exposed):
            for spot in self._rectangles(span):
                painter.fillRect(spot, QColor(theme.found))
                painter.fillRect(QRectF(spot.left(), spot.bottom(), spot.width(), _LINE_PX), QColor(theme.found_line))
        painter.setPen(QPen(QColor(theme.text), _LINE_PX))
        painter.setBrush(QColor(theme.found))
        for spot in self._rectangles(self.current) if self.current else ():
            painter.drawRoundedRect(spot.adjusted(-1, -1, 1, 1), 3, 3)
        painter.restore()

    def _within(self, exposed: QRect) -> list[Span]:
        """The places in the paragraphs that are at least partly there."""
        document, layout = self._text.document(), self._text.document().documentLayout()
        corners = [
            layout.hitTest(QPointF(x, y), Qt.HitTestAccuracy.FuzzyHit)
            for y in (exposed.top(), exposed.bottom())
            for x in (0, self._text.width())
        ]
        final = document.findBlock(max(corners))
        first = bisect_left(self.spans, (document.findBlock(min(corners)).position(), 0))
        return self.spans[first : bisect_left(self.spans, (final.position() + final.length(), 0))]
