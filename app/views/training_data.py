"""A quiet line that says how much training data there is, and beneath it, when wanted, a list to delete it from.

Knows nothing of what training data is or of what deleting it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.views.confirmation import Confirmation
from app.views.labels import wrapped
from app.views.status_line import ShortenedLabel

_SHOW, _HIDE = "Show", "Hide"


@dataclass(frozen=True, slots=True)
class DataRow:
    """One thing in the list."""

    key: str
    name: str
    facts: str
    question: str  # before it is deleted


class TrainingDataList(QWidget):
    """The line, and the list."""

    deletion_asked = Signal(list)  # keys

    def __init__(self) -> None:
        super().__init__()
        self.line, self.problem = wrapped("small"), wrapped("error")
        self.line.setWordWrap(False)
        self.toggle = _button(_SHOW, self._toggle)
        self.toggle.setAccessibleDescription("Which training data there is, to delete it")
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.line)
        head.addWidget(self.toggle)
        head.addStretch(1)
        self.list = QWidget()
        self._rows = QVBoxLayout()
        self._rows.setSpacing(8)
        self.delete_all, self.question = _button("Delete all…", self._ask), Confirmation()
        self.question.agreed.connect(self._delete_all)
        inside = QVBoxLayout(self.list)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(8)
        inside.addLayout(self._rows)
        inside.addWidget(self.delete_all, 0, Qt.AlignmentFlag.AlignRight)
        inside.addWidget(self.question)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        rule = QFrame()
        rule.setProperty("role", "line")
        column.addWidget(rule)
        column.addLayout(head)
        column.addWidget(self.list)
        column.addWidget(self.problem)
        self.rows: list[_Row] = []
        self._question = ""
        self.list.hide()
        self.problem.hide()

    def show_rows(self, line: str, rows: Sequence[DataRow], question: str) -> None:
        """Bring it up to date; `question` is that before all of it is deleted."""
        self.line.setText(line)
        self._question = question
        if [row.row for row in self.rows] != list(rows):
            for old in self.rows:
                self._rows.removeWidget(old)
                old.hide()
                old.deleteLater()
            self.rows = [_Row(row) for row in rows]
            for new in self.rows:
                new.deletion_asked.connect(self._delete)
                self._rows.addWidget(new)
            self.question.hide()
        self.delete_all.setVisible(len(rows) > 1)
        if not rows:
            self.list.hide()
            self.toggle.setText(_SHOW)
        self.toggle.setVisible(bool(rows))
        self.set_busy(busy=False)

    def show_problem(self, text: str) -> None:
        """Why something could not be deleted."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def set_busy(self, *, busy: bool) -> None:
        """Something is being deleted."""
        self.list.setEnabled(not busy)

    def _toggle(self) -> None:
        self.list.setVisible(not self.list.isVisibleTo(self))
        self.toggle.setText(_HIDE if self.list.isVisibleTo(self) else _SHOW)

    def _ask(self) -> None:
        self.question.ask(self._question)

    def _delete_all(self) -> None:
        self._emit([row.row.key for row in self.rows])

    def _delete(self, key: str) -> None:
        self._emit([key])

    def _emit(self, keys: list[str]) -> None:
        self.show_problem("")
        self.set_busy(busy=True)
        self.deletion_asked.emit(keys)


class _Row(QFrame):
    """Name and facts at the left, a button at the right, room for a question beneath."""

    deletion_asked = Signal(str)

    def __init__(self, row: DataRow) -> None:
        super().__init__()
        self.row = row
        name, facts = ShortenedLabel(), wrapped("small")
        name.set_full(row.name)
        name.setProperty("role", "title")
        name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        facts.setText(row.facts)
        self.delete, self.question = _button("Delete…", self._ask), Confirmation()
        self.delete.setAccessibleName(f"Delete the training data of {row.name}")
        self.question.agreed.connect(self._delete)
        head = QHBoxLayout()
        head.addWidget(name, 1)
        head.addWidget(self.delete)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(head)
        column.addWidget(facts)
        column.addWidget(self.question)

    def _ask(self) -> None:
        self.question.ask(self.row.question)

    def _delete(self) -> None:
        self.deletion_asked.emit(self.row.key)


def _button(label: str, do: object) -> QPushButton:
    button = QPushButton(label)
    button.setProperty("role", "quiet")
    button.setAutoDefault(False)
    button.clicked.connect(do)
    return button
