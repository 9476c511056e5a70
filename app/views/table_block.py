"""A table: hairlines between its rows, scrolled aside where it is wide. Knows nothing of the blocks around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QPainter,
    QTextBlock,
    QTextCursor,
    QTextLength,
    QTextOption,
    QTextTable,
    QTextTableCellFormat,
    QTextTableFormat,
)

from app.markdown import Table
from app.views.boxed import BoxedText
from app.views.flow import cells
from app.views.line_writer import insert_pieces
from app.views.lines import Line
from app.views.marks import Marks
from app.views.source_text import SourceText

_ACROSS, _ABOVE = 12.0, 4.0  # px about the text of a cell
_HEADER_LEVEL = 3  # looks like a small heading


class TableText(SourceText):
    """The cells of a table, row by row."""

    wrap_mode = QTextOption.WrapMode.WordWrap

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks)
        self._table: QTextTable | None = None
        self._columns = 0
        self._has_header = False
        self._widths: Sequence[float] = ()
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)

    def show_table(self, table: Table, widths: Sequence[float]) -> None:
        """Show the table as it stands now; only cells that changed are written. `widths` in px, where they are set."""
        grid, self._has_header = cells(table), bool(table.header)
        if self._has_header:
            grid[0] = [replace(line, level=_HEADER_LEVEL) for line in grid[0]]
        lines = [line for row in grid for line in row]
        if lines == self._lines:
            return
        self._settled.clear()
        with self._editing() as cursor:
            if self._table is None or self._columns != len(grid[0]):
                self._make(cursor, len(grid), len(grid[0]), widths)
            self._write_rows(len(grid), lines)
        self._lines = lines

    def _write_rows(self, rows: int, lines: Sequence[Line]) -> None:
        """Bring the cells in line; those that are the same already are left alone."""
        assert self._table is not None
        missing = rows - self._table.rows()
        if missing > 0:
            self._table.appendRows(missing)
        elif missing < 0:
            self._table.removeRows(rows, -missing)
        for number, line in enumerate(lines):
            if number >= len(self._lines) or self._lines[number] != line:
                self._write(number, line)

    def _make(self, cursor: QTextCursor, rows: int, columns: int, widths: Sequence[float]) -> None:
        """An empty table."""
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.removeSelectedText()
        look = QTextTableFormat()
        look.setBorder(0)
        look.setCellPadding(0)
        look.setCellSpacing(0)
        look.setMargin(0)
        if len(widths) == columns:
            look.setColumnWidthConstraints([QTextLength(QTextLength.Type.FixedLength, width) for width in widths])
        self._table, self._columns, self._widths = cursor.insertTable(rows, columns, look), columns, widths
        self._lines = []

    def _write(self, number: int, line: Line) -> None:
        assert self._table is not None
        cell = self._table.cellAt(*divmod(number, self._columns))
        look = QTextTableCellFormat()
        first, last = number % self._columns == 0, (number + 1) % self._columns == 0
        look.setLeftPadding(0 if first else _ACROSS)
        look.setRightPadding(0 if last else _ACROSS)
        look.setTopPadding(_ABOVE)
        look.setBottomPadding(_ABOVE)
        cell.setFormat(look)
        cursor = cell.firstCursorPosition()
        cursor.setPosition(cell.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._formats.block(line))
        insert_pieces(cursor, self._formats, line)

    def set_theme(self) -> None:
        self._table = None
        lines, columns = list(self._lines), self._columns
        self._dress()
        with self._editing() as cursor:
            self._make(cursor, len(lines) // max(1, columns), columns, self._widths)
            self._write_rows(len(lines) // max(1, columns), lines)
        self._lines = lines
        self.refresh()

    def column_widths(self) -> list[float]:
        """How wide each column is, in px, for a table that goes on from this one."""
        if self._table is None:
            return []
        layout = self.document().documentLayout()
        lefts = [layout.blockBoundingRect(self._block(number)).left() for number in range(self._columns)]
        right = layout.frameBoundingRect(self._table).right()
        edges = [left - (_ACROSS if number else 0) for number, left in enumerate(lefts)]
        return [after - before for before, after in zip(edges, [*edges[1:], right], strict=True)]

    def _block(self, number: int) -> QTextBlock:
        return self.document().findBlockByNumber(number + 1)  # the first stands before the table, empty

    def _number(self, block: QTextBlock) -> int:
        number = block.blockNumber() - 1
        return number if 0 <= number < len(self._lines) else 0 if number < 0 and self._lines else -1

    def separator(self, number: int) -> str:
        return "\t" if number % self._columns else "\n"

    def text_between(self, start: int, end: int) -> str:
        first = self._block(0).position() if self._lines else 0
        return super().text_between(max(start, first), end)

    def selected_text(self) -> str:
        cursor = self.textCursor()
        if not cursor.hasComplexSelection():
            return super().selected_text()
        selected: Any = cursor.selectedTableCells()
        top, rows, left, columns = selected
        grid = [self._lines[row * self._columns : (row + 1) * self._columns] for row in range(top, top + rows)]
        return "\n".join("\t".join(line.text for line in row[left : left + columns]) for row in grid)

    def paint_ground(self, painter: QPainter, start: int, end: int) -> None:
        if self._table is None:
            return
        layout, theme = self.document().documentLayout(), self._marks.theme
        place = layout.frameBoundingRect(self._table).translated(-self.horizontalScrollBar().value(), 0)
        for line in self._lines:
            if start <= line.start < end:
                self.paint_code_grounds(painter, line)
        for row in range(self._table.rows() - 1):
            first = row * self._columns
            bottoms = [layout.blockBoundingRect(self._block(first + at)).bottom() for at in range(self._columns)]
            colour = theme.unreached if row == 0 and self._has_header else theme.line
            painter.fillRect(QRectF(place.left(), round(max(bottoms) + _ABOVE) - 1, place.width(), 1), QColor(colour))


class TableBlock(BoxedText):
    """A table where its list or quote has it."""

    text: TableText

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks, TableText(marks), 0)
        self.text.setAccessibleName("Table")
        self.column.addWidget(self.text)

    def show_table(self, table: Table, before: TableBlock | None) -> None:
        """Show the table as it stands now; `before` is the one it goes on from, with the same columns."""
        self.text.show_table(table, before.text.column_widths() if before and table.continues else ())
