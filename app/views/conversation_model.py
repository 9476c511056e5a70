"""The rows of the conversation list: headings with conversations under them, or what a search found.

Knows nothing of how a row is painted, or of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.conversations import Conversation, Group, Hit

Index = QModelIndex | QPersistentModelIndex
ROW = Qt.ItemDataRole.UserRole  # a Heading, Conversation or Hit


@dataclass(frozen=True, slots=True)
class Heading:
    """A row that cannot be chosen."""

    title: str


Row = Heading | Conversation | Hit


class ConversationModel(QAbstractListModel):
    """Rows are replaced all at once: there are at most some hundreds in view of a person."""

    renamed = Signal(int, str)  # a conversation, by editing its row

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[Row] = []

    def show_groups(self, groups: Sequence[Group]) -> None:
        """Every conversation under its heading."""
        self._show([row for group in groups for row in (Heading(group.title), *group.conversations)])

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """What was found."""
        self._show(list(hits))

    def _show(self, rows: list[Row]) -> None:
        if rows != self._rows:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    @property
    def rows(self) -> Sequence[Row]:
        """What stands in the list."""
        return tuple(self._rows)

    def index_of(self, conversation: int | None) -> QModelIndex:
        """The first row of a conversation; an invalid index where it has none."""
        for number, row in enumerate(self._rows):
            if conversation_of(row) == conversation is not None:
                return self.index(number)
        return QModelIndex()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own default
        return 0 if parent.isValid() else len(self._rows)

    def flags(self, index: Index) -> Qt.ItemFlag:
        row = self._rows[index.row()] if index.isValid() else None
        if row is None or isinstance(row, Heading):
            return Qt.ItemFlag.NoItemFlags
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return flags | Qt.ItemFlag.ItemIsEditable if isinstance(row, Conversation) else flags

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role == ROW:
            return row
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return row.title
        if role == Qt.ItemDataRole.ToolTipRole and not isinstance(row, Heading):
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return _spoken(row)
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self._rows[index.row()]
        title = " ".join(str(value).split())
        if role != Qt.ItemDataRole.EditRole or not isinstance(row, Conversation) or title in ("", row.title):
            return False
        self.renamed.emit(row.id, title)
        return True


def conversation_of(row: Row) -> int | None:
    """The conversation that a row leads to."""
    if isinstance(row, Conversation):
        return row.id
    return row.conversation if isinstance(row, Hit) else None


def snippet_of(hit: Hit) -> str:
    """The text around the words that were found, in one line."""
    return "".join(text for text, _found in hit.snippet).replace("\n", " ")


def _spoken(row: Row) -> str:
    if isinstance(row, Conversation):
        return f"{row.title}, pinned" if row.pinned else row.title
    if isinstance(row, Hit) and row.message is not None:
        return f"{row.title}: {snippet_of(row)}"
    return row.title
