"""What to expect of heads: a slider for each head's accuracy, a number of candidates, and what the closed forms say.

Predicted stands beside measured. Knows nothing of where the accuracies come from.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSlider,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app import expectation
from app.expectation import MOST_CANDIDATES, Expectation
from app.theme import Theme
from app.views.figures_line import grouped
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import Measured

FORMS = (
    "A head that is right with chance a on its first guess is right with chance 1 − (1 − a)^s on one of s candidates.\n"
    "Tokens per step = 1 + a₁ + a₁a₂ + a₁a₂a₃ + … : the model's own token, and each guess if all before it held.\n"
    "Speed-up = tokens per step ÷ what a step over that tree costs in plain steps.\n"
    "All of it assumes that heads err independently of one another; real heads do not."
)
NOT_CALIBRATED = "These heads were never measured on held-out replies"
NO_REPLY = "No guess has been kept in this conversation yet"
_GRID = ("", "accuracy", "", "candidates", "together")


class _HeadRow:
    """The controls of one head."""

    def __init__(self, number: int) -> None:
        self.name = QLabel(f"+{number}")
        self.name.setToolTip(f"Head {number}: the guess {number} tokens ahead; beyond the heads, other sources guess")
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, 100)
        self.slider.setAccessibleName(f"Accuracy of head {number}, in percent")
        self.share = QLabel()
        self.share.setMinimumWidth(self.share.fontMetrics().horizontalAdvance("100 %"))
        self.candidates = QSpinBox()
        self.candidates.setRange(1, MOST_CANDIDATES)
        self.candidates.setFixedHeight(self.candidates.fontMetrics().lineSpacing() + 10)
        self.candidates.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.candidates.setAccessibleName(f"Candidates of head {number}")
        self.effective = QLabel()
        for label in (self.share, self.effective):
            label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    @property
    def widgets(self) -> tuple[QWidget, ...]:
        """In the order of the columns."""
        return self.name, self.slider, self.share, self.candidates, self.effective


class ExpectationPage(QWidget):
    """Sliders above, figures below."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._measured, self._metrics = Measured(), ReplyMetrics()
        self._plain = 0.0
        self._rows: list[_HeadRow] = []
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)
        for column, text in enumerate(_GRID):
            self._grid.addWidget(_small(text), 0, column)
        self._calibration = self._preset("From calibration", self.take_calibration)
        self._conversation = self._preset("From this conversation", self.take_conversation)
        self._figures = self._make_figures()
        self._note = _small("")
        self._note.setWordWrap(True)
        self._stack()
        self.setToolTip(FORMS)
        self.setAccessibleName("What to expect")
        self.show_expectation(expectation.at_first())
        self.set_measured(Measured(), 0.0)
        self.set_conversation(ReplyMetrics())

    def _stack(self) -> None:
        presets = QHBoxLayout()
        presets.setSpacing(8)
        presets.addWidget(self._calibration)
        presets.addWidget(self._conversation)
        presets.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 4, 0)
        column.setSpacing(4)
        column.addLayout(presets)
        column.addLayout(self._grid)
        column.addLayout(self._figures_grid)
        column.addWidget(self._note)
        column.addStretch()

    def _make_figures(self) -> dict[tuple[str, str], QLabel]:
        """Predicted and measured side by side."""
        self._figures_grid = grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(0, 1)
        found = {}
        for column, name in enumerate(("predicted", "measured"), 1):
            head = _small(name)
            head.setAlignment(Qt.AlignmentFlag.AlignRight)
            grid.addWidget(head, 0, column)
        for row, name in enumerate(("Tokens per step", "Speed-up over plain decoding"), 1):
            grid.addWidget(QLabel(name), row, 0)
            for column, kind in enumerate(("predicted", "measured"), 1):
                label = QLabel()
                label.setProperty("role", "title")
                label.setAlignment(Qt.AlignmentFlag.AlignRight)
                grid.addWidget(label, row, column)
                found[name, kind] = label
        return found

    @property
    def expectation(self) -> Expectation:
        """What the controls say."""
        accuracies = tuple(row.slider.value() / 100 for row in self._rows)
        return Expectation(accuracies, tuple(row.candidates.value() for row in self._rows))

    def figure(self, name: str, kind: str) -> str:
        """A figure as it reads; `kind` is predicted or measured."""
        return self._figures[name, kind].text()

    @property
    def note(self) -> str:
        """What a step costs, as it reads."""
        return self._note.text()

    def set_theme(self, theme: Theme) -> None:
        """Nothing here is painted by hand."""

    def set_measured(self, measured: Measured, plain_tokens_per_second: float) -> None:
        """What is known of the heads and of this machine."""
        self._measured, self._plain = measured, plain_tokens_per_second
        known = expectation.of_calibration(measured)
        self._calibration.setEnabled(known is not None)
        self._calibration.setToolTip("" if known is not None else NOT_CALIBRATED)
        self._write()

    def set_conversation(self, metrics: ReplyMetrics) -> None:
        """The figures of all replies of this conversation."""
        self._metrics = metrics
        known = expectation.of_conversation(metrics)
        self._conversation.setEnabled(known is not None)
        self._conversation.setToolTip("" if known is not None else NO_REPLY)
        self._write()

    def take_calibration(self) -> None:
        """Set the sliders to what the heads reached on held-out replies."""
        known = expectation.of_calibration(self._measured)
        if known is not None:
            self.show_expectation(known)

    def take_conversation(self) -> None:
        """Set the sliders to how often guesses were kept in this conversation."""
        known = expectation.of_conversation(self._metrics)
        if known is not None:
            self.show_expectation(known)

    def show_expectation(self, shown: Expectation) -> None:
        """Set all sliders at once."""
        while len(self._rows) > len(shown.accuracies):
            for widget in self._rows.pop().widgets:
                self._grid.removeWidget(widget)
                widget.deleteLater()
        while len(self._rows) < len(shown.accuracies):
            self._add_row()
        for row, accuracy, count in zip(self._rows, shown.accuracies, shown.candidates, strict=True):
            for control, value in ((row.slider, round(100 * accuracy)), (row.candidates, count)):
                control.blockSignals(True)
                control.setValue(value)
                control.blockSignals(False)
        self._write()

    def _add_row(self) -> None:
        row = _HeadRow(len(self._rows) + 1)
        for column, widget in enumerate(row.widgets):
            self._grid.addWidget(widget, len(self._rows) + 1, column)
        row.slider.valueChanged.connect(self._changed)
        row.candidates.valueChanged.connect(self._changed)
        self._rows.append(row)

    def _changed(self, _value: int) -> None:
        self._write()

    def _write(self) -> None:
        shown = self.expectation
        for row, effective in zip(self._rows, shown.effective, strict=True):
            row.share.setText(f"{row.slider.value()} %")
            row.effective.setText(f"{100 * effective:.0f} %")
        known = bool(self._measured.pass_seconds)
        speed = expectation.measured_speed_up(self._metrics, self._plain)
        texts = {
            ("Tokens per step", "predicted"): f"{shown.tokens_per_step:.2f}",
            ("Tokens per step", "measured"): f"{self._metrics.tokens_per_step:.2f}" if self._metrics.steps else "–",
            ("Speed-up over plain decoding", "predicted"): f"{shown.speed_up(self._measured):.2f}×" if known else "–",
            ("Speed-up over plain decoding", "measured"): "–" if speed is None else f"{speed:.2f}×",
        }
        for key, text in texts.items():
            self._figures[key].setText(text)
        nodes = f"{grouped(shown.nodes)} draft node" + ("s" if shown.nodes != 1 else "")
        cost = f"a step takes {shown.overhead(self._measured):.2f} plain steps here"
        self._note.setText(f"Full tree: {nodes}; {cost if known else 'what a step costs here was not measured'}.")

    def _preset(self, text: str, take: object) -> QPushButton:
        button = QPushButton(text)
        button.clicked.connect(take)
        return button


def _small(text: str) -> QLabel:
    label = QLabel(text)
    label.setProperty("role", "small")
    return label
