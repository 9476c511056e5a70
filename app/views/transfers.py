"""What is on its way: downloads, imports, checks; how far each is, and pause, go on and cancel.

Knows nothing of what does the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.views.status_line import ShortenedLabel


class State(Enum):
    """Where something on its way is."""

    WAITING = auto()
    RUNNING = auto()
    PAUSED = auto()
    DONE = auto()
    FAILED = auto()
    REFUSED = auto()  # not as it was asked for; `anyway` is what the person may want nevertheless


@dataclass(frozen=True, slots=True)
class Transfer:
    """One of them, as it is shown."""

    key: str
    name: str
    state: State
    text: str = ""  # how far it is, or what went wrong
    share: float | None = None  # of it that is done; None: nobody knows
    can_pause: bool = False  # what cannot is cancelled as a whole
    anyway: str = "Download anyway"  # what can be had of something refused
    choices: tuple[tuple[str, str], ...] = ()  # in place of that: names and labels of what can be chosen


class TransferRow(QFrame):
    """Name, words, bar, buttons."""

    pause_asked = Signal(str)
    resume_asked = Signal(str)
    cancel_asked = Signal(str)
    anyway_asked = Signal(str)
    chosen = Signal(str, str)  # key, name

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "panel")
        self.transfer: Transfer | None = None
        self._signals: dict[QPushButton, SignalInstance] = {}
        self.name, self.text = ShortenedLabel(), QLabel()
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.text.setProperty("role", "small")
        self.text.setWordWrap(True)
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.pause_button = self._button("Pause", self.pause_asked)
        self.resume_button = self._button("Go on", self.resume_asked)
        self.anyway_button = self._button("", self.anyway_asked)
        self.cancel_button = self._button("Cancel", self.cancel_asked)
        self.choose_button = QPushButton("Choose a file")
        self.choose_button.setProperty("role", "quiet")
        self.choose_button.setAutoDefault(False)
        self.choices = QMenu(self.choose_button)
        self.choices.triggered.connect(self._choose)
        self.choose_button.setMenu(self.choices)
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(self.name, 1)
        self._buttons = (
            self.pause_button,
            self.resume_button,
            self.anyway_button,
            self.choose_button,
            self.cancel_button,
        )
        for button in self._buttons:
            head.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 4, 4, 8)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self.bar)
        column.addWidget(self.text)

    def _button(self, label: str, signal: SignalInstance) -> QPushButton:
        button = QPushButton(label)
        button.setProperty("role", "quiet")
        button.setAutoDefault(False)
        button.clicked.connect(self._press)
        self._signals[button] = signal
        return button

    def _press(self) -> None:
        button = self.sender()
        if self.transfer is not None and isinstance(button, QPushButton):
            self._signals[button].emit(self.transfer.key)

    def _choose(self, action: QAction) -> None:
        if self.transfer is not None:
            self.chosen.emit(self.transfer.key, str(action.data()))

    def _offer(self, choices: Sequence[tuple[str, str]]) -> None:
        self.choices.clear()
        for name, label in choices:
            self.choices.addAction(label.replace("&", "&&")).setData(name)

    def show_transfer(self, transfer: Transfer) -> None:
        """Bring it up to date."""
        if self.transfer is None or self.transfer.choices != transfer.choices:
            self._offer(transfer.choices)
        self.transfer = transfer
        state = transfer.state
        self.name.set_full(transfer.name)
        self.text.setText(transfer.text)
        self.text.setVisible(bool(transfer.text))
        wrong = state in (State.FAILED, State.REFUSED) and not transfer.choices
        if self.text.property("role") != (role := "error" if wrong else "small"):
            self.text.setProperty("role", role)
            self.text.style().polish(self.text)
        self.bar.setVisible(state in (State.RUNNING, State.PAUSED, State.WAITING))
        self.bar.setRange(0, 0 if transfer.share is None and state is State.RUNNING else 1000)
        self.bar.setValue(round(1000 * min(1.0, transfer.share or 0.0)))
        self.bar.setAccessibleName(f"{transfer.name}: {transfer.text}")
        self.pause_button.setVisible(transfer.can_pause and state in (State.RUNNING, State.WAITING))
        self.resume_button.setVisible(transfer.can_pause and state in (State.PAUSED, State.FAILED))
        self.anyway_button.setText(transfer.anyway)
        self.anyway_button.setVisible(state is State.REFUSED and not transfer.choices)
        self.choose_button.setVisible(state is State.REFUSED and bool(transfer.choices))
        over = state in (State.DONE, State.REFUSED) or (state is State.FAILED and not transfer.can_pause)
        self.cancel_button.setText("Dismiss" if over else "Cancel")
        for button in self._buttons:
            button.setAccessibleName(f"{button.text()}: {transfer.name}")


class Transfers(QWidget):
    """All of them, in the order they were asked for."""

    pause_asked = Signal(str)
    resume_asked = Signal(str)
    cancel_asked = Signal(str)
    anyway_asked = Signal(str)
    chosen = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, TransferRow] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self.hide()

    def show_transfers(self, transfers: Sequence[Transfer]) -> None:
        """Bring all rows up to date."""
        for key in set(self.rows) - {transfer.key for transfer in transfers}:
            row = self.rows.pop(key)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        for transfer in transfers:
            if transfer.key not in self.rows:
                self.rows[transfer.key] = self._row()
            self.rows[transfer.key].show_transfer(transfer)
        self.setVisible(bool(self.rows))

    def _row(self) -> TransferRow:
        row = TransferRow()
        row.pause_asked.connect(self.pause_asked)
        row.resume_asked.connect(self.resume_asked)
        row.cancel_asked.connect(self.cancel_asked)
        row.anyway_asked.connect(self.anyway_asked)
        row.chosen.connect(self.chosen)
        self._column.addWidget(row)
        return row
