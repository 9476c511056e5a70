"""Paragraphs, headings, lists and quotes as one text, so that a selection runs on from one to the next.

Knows nothing of code blocks and tables, which have widgets of their own.
"""

from __future__ import annotations

from bisect import bisect_right

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter

from app.views.formats import inset_width
from app.views.lines import Inset, Line
from app.views.source_text import EDGE, SourceText

BAR_PX = 2.0  # the width of a quote's bar


class Prose(SourceText):
    """Lines, with bars beside quotes, a ground beneath code inside a line, and rules."""

    def paint_ground(self, painter: QPainter, start: int, end: int) -> None:
        theme = self._marks.theme
        number = max(0, bisect_right(self._lines, start, key=lambda line: line.start) - 1)
        while number < len(self._lines) and self._lines[number].start < end:
            line = self._lines[number]
            place = self.document().documentLayout().blockBoundingRect(self._block(number))
            self._paint_bars(painter, number, place)
            if line.rule:
                left, right = self._sides(line)
                painter.fillRect(QRectF(left, round(place.center().y()), right - left, 1), QColor(theme.line))
            self.paint_code_grounds(painter, line)
            number += 1

    def _paint_bars(self, painter: QPainter, number: int, place: QRectF) -> None:
        line = self._lines[number]
        before = self._lines[number - 1].insets if number else ()
        layout, aside = self.document().documentLayout(), EDGE
        for depth, inset in enumerate(line.insets):
            if inset is Inset.QUOTE:
                # From one line of a quote to the next the bar goes on.
                goes_on = before[: depth + 1] == line.insets[: depth + 1]
                top = layout.blockBoundingRect(self._block(number - 1)).bottom() if goes_on else place.top()
                left = self.width() - aside - 2 * BAR_PX if line.right_to_left else aside + BAR_PX
                bar = QRectF(left, top, BAR_PX, place.bottom() - top)
                painter.fillRect(bar, QColor(self._marks.theme.unreached))
            aside += inset_width(inset)

    def _sides(self, line: Line) -> tuple[float, float]:
        aside, edge = float(EDGE + sum(inset_width(inset) for inset in line.insets)), float(self.width() - EDGE)
        return (EDGE, edge + EDGE - aside) if line.right_to_left else (aside, edge)
