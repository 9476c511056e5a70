"""The candidate tree of a step as a table: a row for every node, with the numbers behind its verdict.

For screen readers, for copying, and for whoever would rather read numbers. Knows nothing of drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from app.theme import small_font, token_font
from app.views import tree_words as words
from app.views.tree_layout import reading_order, slots_of
from app.views.tree_paint import space_mark
from medusa_core.events import Node, NodeState, Source, Step

_STATES = {
    NodeState.ROOT: "root",
    NodeState.ACCEPTED: "kept",
    NodeState.REJECTED: "not kept",
    NodeState.UNREACHED: "never judged",
}
_SOURCES = {Source.MODEL: "model", Source.HEAD: "head", Source.LOOKUP: "lookup", Source.RECYCLING: "recycling"}


def _number(value: float | None, form: Callable[[float], str]) -> str:
    return "" if value is None else form(value)


def _wanted(node: Node) -> str:
    verdict = node.verdict
    if verdict is None:
        return ""
    if verdict.drawn is not None:
        return words.visible(verdict.drawn_text)
    return words.visible(verdict.choice_text) if verdict.choice is not None else ""


COLUMNS: tuple[tuple[str, str, Callable[[Node], str]], ...] = (
    ("token", "The guess; the more tokens ahead, the further it is set in", lambda node: words.visible(node.text)),
    ("ahead", "Tokens ahead of the root", lambda node: words.column_head(node.depth)),
    ("verdict", "What became of it", lambda node: _STATES[node.state]),
    ("source", "Who proposed it", lambda node: _SOURCES[node.source]),
    ("rank", "Its place among the guesses of its source", lambda node: str(node.rank + 1) if node.depth else ""),
    ("guessed", "How likely its source thought it", lambda node: _number(node.draft_probability, words.percent)),
    (
        "p",
        "The model's own probability for it",
        lambda node: _number(
            node.model_probability if node.verdict is None else node.verdict.probability or node.model_probability,
            words.percent,
        ),
    ),
    (
        "needed",
        "The threshold that p had to pass (typical acceptance)",
        lambda node: _number(node.verdict and node.verdict.threshold, words.percent),
    ),
    (
        "entropy",
        "Of the model's distribution at that place, in nats",
        lambda node: _number(node.verdict and node.verdict.entropy, "{:.2f}".format),
    ),
    ("wanted", "What the model itself chose, or drew, at that place", _wanted),
)


class _Rows(QAbstractTableModel):
    """The nodes in the order in which the tree is read."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.step: Step | None = None
        self.order: list[int] = []

    def show(self, step: Step | None) -> None:
        """Hold another step."""
        self.beginResetModel()
        self.step = step
        self.order = [] if step is None else reading_order(step.nodes, slots_of(step.nodes))
        self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.order)

    def columnCount(self, parent: QModelIndex | QPersistentModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(COLUMNS)

    def text(self, row: int, column: int) -> str:
        """A cell as it is copied."""
        return "" if self.step is None else COLUMNS[column][2](self.step.nodes[self.order[row]])

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if self.step is None or not index.isValid():
            return None
        node = self.step.nodes[self.order[index.row()]]
        if role == Qt.ItemDataRole.DisplayRole:
            text = self.text(index.row(), index.column()).replace("␠", space_mark(token_font()))
            return " " * node.depth + text if index.column() == 0 else text
        if role == Qt.ItemDataRole.FontRole:
            return token_font() if index.column() in (0, len(COLUMNS) - 1) else small_font()
        if role == Qt.ItemDataRole.AccessibleDescriptionRole:
            return words.details(self.step, self.order[index.row()])
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section][0]
        return COLUMNS[section][1] if role == Qt.ItemDataRole.ToolTipRole else None


class StepTable(QTableView):
    """Shows one step."""

    node_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows = _Rows(self)
        self.setModel(self._rows)
        self.setAccessibleName("Candidate tree as a table")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setMinimumHeight(150)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(22)
        head = self.horizontalHeader()
        head.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        head.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        head.setHighlightSections(False)
        for column, width in enumerate((112, 48, 84, 68, 42, 64, 52, 60, 60, 88)):
            self.setColumnWidth(column, width)
        self.doubleClicked.connect(self._choose)

    def show_step(self, step: Step | None) -> None:
        """Show another step; None: nothing."""
        if step is not self._rows.step:
            self._rows.show(step)

    def place_of(self, node: int) -> QPoint:
        """Just below the row of a node, on the screen."""
        row = self._rows.order.index(node)
        return self.viewport().mapToGlobal(self.visualRect(self._rows.index(row, 0)).bottomLeft())

    def as_text(self, rows: list[int] | None = None) -> str:
        """Rows, all where none are named, as tab-separated text under the names of the columns."""
        chosen = range(self._rows.rowCount()) if rows is None else rows
        lines = [[name for name, _, _ in COLUMNS]]
        lines += [[self._rows.text(row, column) for column in range(len(COLUMNS))] for row in chosen]
        return "\n".join("\t".join(line) for line in lines)

    def copy(self) -> None:
        """The selected rows, or all of them, to the clipboard."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
        QGuiApplication.clipboard().setText(self.as_text(rows or None))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+C copies, Enter chooses; ← and → are the panel's, which walks from step to step with them."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.currentIndex())
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.node_chosen.emit(self._rows.order[index.row()])
