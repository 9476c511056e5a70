"""New heads for the loaded model: how much to learn from, how it goes, and what came of it.

Every wish is passed on. Knows nothing of how heads are trained or where they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.theme import Theme
from app.views.confirmation import Confirmation
from app.views.figures_line import grouped
from app.views.labels import wrapped
from app.views.training_charts import AccuracyChart, LossChart
from app.views.training_data import DataRow, TrainingDataList
from medusa_core.config import HeadsKind
from medusa_core.events import TrainingStep

_FIRST_SIZE = (640, 660)
WHAT = (
    "The model writes replies, and its heads learn to foresee them. With heads a reply takes fewer steps; the words "
    "remain the model’s own. Everything happens on this computer. Pause at any time to chat; it goes on where it was, "
    "also after a restart."
)
OWN = "Also learn from what I asked in my conversations"
OWN_NOTE = (
    "The model then answers your own questions too, as part of its training. They stay on this computer, "
    "in the training data, which can be deleted below."
)


KINDS: tuple[tuple[str, HeadsKind], ...] = (
    ("The fastest here: they see the next token", "rooted"),
    ("The paper’s own: vLLM and TGI can serve them too", "medusa"),
)


class Stage(Enum):
    """Where a training is."""

    UNAVAILABLE = auto()
    SETUP = auto()
    PROBING = auto()
    RUNNING = auto()
    PAUSED = auto()
    DONE = auto()


_BUTTONS = {
    Stage.UNAVAILABLE: (),
    Stage.SETUP: ("probe", "start"),
    Stage.PROBING: ("pause",),
    Stage.RUNNING: ("pause", "cancel"),
    Stage.PAUSED: ("resume", "cancel"),
    Stage.DONE: ("again", "use"),
}
_AT_REST = (Stage.UNAVAILABLE, Stage.SETUP, Stage.DONE)


@dataclass(frozen=True, slots=True)
class Budget:
    """So many tokens to learn from, and what that takes."""

    tokens: int
    takes: str = ""  # time and room on the disk, once they are known

    @property
    def words(self) -> str:
        """For the list."""
        return "  ·  ".join(filter(None, (f"{grouped(self.tokens)} tokens", self.takes)))


class TrainingDialog(QDialog):
    """From the choice of a budget to heads in use."""

    probe_asked = Signal()
    kind_chosen = Signal()
    start_asked = Signal()
    pause_asked = Signal()
    resume_asked = Signal()
    cancel_asked = Signal()
    cancel_agreed = Signal()
    use_asked = Signal()
    again_asked = Signal()
    calibration_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Train heads")
        self.stage = Stage.UNAVAILABLE
        self.title, self.said, self.problem = QLabel(), wrapped(""), wrapped("error")
        self.title.setProperty("role", "title")
        self.said.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.problem.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.budget, self.kinds, self.own = QComboBox(), QComboBox(), QCheckBox(OWN)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.loss, self.accuracy = LossChart(theme), AccuracyChart(theme)
        self.charts = QWidget()
        self.setup = self._make_setup()
        self.question, self.data = Confirmation(), TrainingDataList()
        self.question.agreed.connect(self.cancel_agreed)
        self.calibration, self.calibration_note = QWidget(), wrapped("small")
        self._calibration_due = False
        self.buttons = {
            "again": self._button("Train again", self.again_asked),
            "cancel": self._button("Cancel training", self.cancel_asked),
            "pause": self._button("Pause", self.pause_asked),
            "resume": self._button("Go on", self.resume_asked, primary=True),
            "probe": self._button("Try for 20 seconds", self.probe_asked),
            "start": self._button("Start training", self.start_asked, primary=True),
            "use": self._button("Use these heads", self.use_asked, primary=True),
        }
        self.buttons["probe"].setToolTip("Measures how long it will take here; what is written meanwhile counts.")
        self._build()
        self.resize(*_FIRST_SIZE)

    # What is shown

    def show_stage(self, stage: Stage, model: str, said: str = "", problem: str = "") -> None:
        """Turn to a stage; `said` is what there is to say of it, `problem` what went wrong."""
        self.stage = stage
        self.title.setText(f"Medusa heads for {model}" if model else "Medusa heads")
        self.show_progress(said)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.setup.setVisible(stage is Stage.SETUP)
        busy = stage in (Stage.PROBING, Stage.RUNNING)
        self.bar.setVisible(busy or stage is Stage.PAUSED)
        self.charts.setVisible(stage in (Stage.RUNNING, Stage.PAUSED, Stage.DONE) and bool(self.loss.points))
        self.question.hide()
        self._show_rest()
        for name, button in self.buttons.items():
            button.setVisible(name in _BUTTONS[stage])
            button.setEnabled(True)

    def show_progress(self, said: str, share: float | None = None) -> None:
        """How far it is; `share` None: nobody knows."""
        self.said.setText(said)
        self.said.setVisible(bool(said))
        busy = self.stage in (Stage.PROBING, Stage.RUNNING)
        self.bar.setRange(0, 0 if share is None and busy else 1000)
        if share is not None:
            self.bar.setValue(round(1000 * min(1.0, share)))
        self.bar.setAccessibleName(said)

    def show_step(self, step: TrainingStep) -> None:
        """Draw another report of the training."""
        self.loss.add(step)
        self.accuracy.add(step)
        self.charts.setVisible(self.stage in (Stage.RUNNING, Stage.PAUSED, Stage.DONE))

    def show_waiting(self) -> None:
        """Something was asked for that takes a moment; nothing else can be asked for meanwhile."""
        self.question.hide()
        for button in self.buttons.values():
            button.setEnabled(False)

    def show_data(self, line: str, rows: Sequence[DataRow], question: str) -> None:
        """The training data on this computer."""
        self.data.show_rows(line, rows, question)
        self._show_rest()

    def show_calibration(self, note: str) -> None:
        """What to know of the heads in use where measuring them anew would mend it; "" where there is nothing."""
        self.calibration_note.setText(note)
        self._calibration_due = bool(note)
        self._show_rest()

    def _show_rest(self) -> None:
        """What can only be done while no training is under way."""
        self.data.setVisible(self.stage in _AT_REST and bool(self.data.rows))
        self.calibration.setVisible(self.stage in _AT_REST and self._calibration_due)

    def clear_charts(self) -> None:
        """Begin another training."""
        self.loss.clear()
        self.accuracy.clear()
        self.charts.hide()

    def show_budgets(self, budgets: Sequence[Budget], chosen: int) -> None:
        """What can be chosen; the one with `chosen` tokens is."""
        self.budget.clear()
        for budget in budgets:
            self.budget.addItem(budget.words, budget.tokens)
        self.budget.setCurrentIndex(max(0, self.budget.findData(chosen)))

    @property
    def tokens(self) -> int:
        """The budget that is chosen."""
        return int(self.budget.currentData() or 0)

    @property
    def kind(self) -> HeadsKind:
        """The kind of heads that is chosen."""
        return KINDS[self.kinds.currentIndex()][1]

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self.loss.set_theme(theme)
        self.accuracy.set_theme(theme)

    def showEvent(self, event: QShowEvent) -> None:
        """Never larger than the screen, whatever the scale."""
        super().showEvent(event)
        self.resize(self.size().boundedTo(self.screen().availableSize() * 0.95))

    # Building

    def _build(self) -> None:
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(24, 16, 24, 16)
        column.setSpacing(12)
        what = wrapped("small")
        what.setText(WHAT)
        charts = QVBoxLayout(self.charts)
        charts.setContentsMargins(0, 0, 0, 0)
        charts.setSpacing(12)
        charts.addWidget(self.loss)
        charts.addWidget(self.accuracy)
        calibration = QHBoxLayout(self.calibration)
        calibration.setContentsMargins(0, 0, 0, 0)
        calibration.addWidget(self.calibration_note, 1)
        calibration.addWidget(self._button("Calibrate now", self.calibration_asked), 0, Qt.AlignmentFlag.AlignTop)
        above = (self.title, what, self.setup, self.said, self.bar, self.question, self.problem, self.charts)
        for widget in (*above, self.calibration, self.data):
            column.addWidget(widget)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(inside)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 12)
        outer.setSpacing(0)
        outer.addWidget(scroll, 1)
        outer.addLayout(self._bottom())

    def _make_setup(self) -> QWidget:
        setup = QWidget()
        grid = QGridLayout(setup)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        for words, _ in KINDS:
            self.kinds.addItem(words)
        self.kinds.currentIndexChanged.connect(self.kind_chosen)
        note = wrapped("small")
        note.setText(OWN_NOTE)
        for row, (words, choice) in enumerate((("&Learn from", self.budget), ("&Kind of heads", self.kinds))):
            label = QLabel(words)
            label.setBuddy(choice)
            choice.setAccessibleName(words.replace("&", ""))
            grid.addWidget(label, row, 0)
            grid.addWidget(choice, row, 1)
        grid.addWidget(self.own, 2, 0, 1, 2)
        grid.addWidget(note, 3, 0, 1, 2)
        return setup

    def _bottom(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(24, 8, 24, 0)
        row.setSpacing(8)
        row.addStretch(1)
        for button in self.buttons.values():
            row.addWidget(button)
        row.addWidget(self._button("Close", self.accept))
        return row

    def _button(self, label: str, do: object, *, primary: bool = False) -> QPushButton:
        button = QPushButton(label)
        button.setAutoDefault(False)
        if primary:
            button.setProperty("role", "primary")
        button.clicked.connect(do)
        return button
