"""Where characters stand on the screen: letter-high rectangles, one a line. Knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import QRectF
from PySide6.QtGui import QAbstractTextDocumentLayout, QFontMetricsF, QTextBlock, QTextLine

_AIR = 2.0  # px


def line_rectangles(layout: QAbstractTextDocumentLayout, block: QTextBlock, first: int, last: int) -> Iterator[QRectF]:
    """The characters [first, last) of a block, without white space at the ends of each line."""
    text = _Spaces(block)
    origin = layout.blockBoundingRect(block).topLeft()
    lines = block.layout()
    line = lines.lineForTextPosition(max(0, first))
    while line.isValid() and line.textStart() < last:
        begin, stop = max(first, line.textStart()), min(last, line.textStart() + line.textLength())
        while begin < stop and text.at(begin):
            begin += 1
        while begin < stop and text.at(stop - 1):
            stop -= 1
        if begin < stop:
            left, right = sorted((_x(line, begin), _x(line, stop)))
            # A little air where a space gives room for it; between two letters the edge is exact.
            left -= _AIR if text.at(begin - 1) else 0
            right += _AIR if text.at(stop) else 0
            metrics = _metrics(block, begin)
            baseline = origin.y() + line.y() + line.ascent()
            yield QRectF(origin.x() + left, baseline - metrics.ascent(), right - left, metrics.height())
        number = line.lineNumber() + 1
        line = lines.lineAt(number) if number < lines.lineCount() else QTextLine()


def moving_from(block: QTextBlock, position: int) -> int:
    """The position in a block of the first character that may move when what stands from `position` on changes.

    What changes in a word may bring it to the end of the row above it, and nothing higher up.
    """
    row = block.layout().lineForTextPosition(position)
    return block.layout().lineAt(row.lineNumber() - 1).textStart() if row.isValid() and row.lineNumber() else 0


def _metrics(block: QTextBlock, position: int) -> QFontMetricsF:
    """Of the block's first letters: one height for a whole line, whatever fonts stand in it."""
    pieces = block.begin()
    return QFontMetricsF(pieces.fragment().charFormat().font() if not pieces.atEnd() else block.charFormat().font())


class _Spaces:
    """Where a block has white space, by Qt's positions."""

    def __init__(self, block: QTextBlock) -> None:
        self._document, self._start, self._length = block.document(), block.position(), block.length() - 1

    def at(self, position: int) -> bool:
        """Whether there is white space, or nothing at all."""
        if not 0 <= position < self._length:
            return True
        character = self._document.characterAt(self._start + position)
        return not character or character == "\0" or character.isspace()


def _x(line: QTextLine, position: int) -> float:
    place: Any = line.cursorToX(position)
    return float(place[0] if isinstance(place, tuple) else place)
