"""How many guesses each step kept, and where its time went: a histogram, and a stack of three over the steps.

Both take figures that were computed elsewhere. Knows nothing of trees or of which step is on screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.theme import Theme, small_font
from app.views.charts import ChartTitle, doubled, dress_plot, plain_plot

MOST_COLUMNS = 96  # of the stack: beyond that, one column is the mean of several steps
PARTS = ("draft", "verify", "accept")
_FIRST_TOP_MS = 10.0
_FIRST_SPAN = 12  # columns
_LABEL_GAP_PX = 6.0
_LEAST_TOLD = 0.005  # of a share, which would read 0 % below it
_PATTERNS = {
    "draft": Qt.BrushStyle.BDiagPattern,
    "verify": Qt.BrushStyle.SolidPattern,
    "accept": Qt.BrushStyle.Dense4Pattern,
}
LENGTHS_HELP = "Share of steps by how many guesses they kept. Each step also writes the model's own token."
TIMES_HELP = (
    "Draft: guessing and growing the tree. Verify: the model's pass over the tree. Accept: deciding which guesses are "
    "kept, and keeping their rows."
)


class LengthHistogram(QWidget):
    """Share of steps by guesses kept."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shares: tuple[float, ...] = ()
        self._title = ChartTitle("Guesses kept in a step", "share of steps")
        self._plot = plain_plot(84)
        self._bars = pg.BarGraphItem(x=[0], height=[0], width=0.6)
        self._plot.addItem(self._bars)
        self._labels: list[pg.TextItem] = []
        self._base = pg.InfiniteLine(angle=0)
        self._plot.addItem(self._base, ignoreBounds=True)
        self._plot.hideAxis("left")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._title)
        column.addWidget(self._plot)
        self.setToolTip(LENGTHS_HELP)
        self.setAccessibleName("Guesses kept in a step")
        self.set_theme(theme)
        self.show_shares(())

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares as drawn."""
        return self._shares

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        dress_plot(self._plot, theme)
        self._bars.setOpts(brush=theme.accepted, pen=pg.mkPen(None))
        self._base.setPen(pg.mkPen(theme.line, width=1))
        for label in self._labels:
            label.setColor(theme.text)

    def show_shares(self, shares: Sequence[float]) -> None:
        """Draw; the n-th share is of steps that kept n guesses."""
        self._shares = tuple(shares)
        columns = max(len(shares), 5)
        self._bars.setOpts(x=np.arange(columns), height=[*shares, *[0.0] * (columns - len(shares))])
        while len(self._labels) < len(shares):
            label = pg.TextItem(anchor=(0.5, 1.0), color=self._theme.text)
            label.setFont(small_font())
            self._plot.addItem(label, ignoreBounds=True)
            self._labels.append(label)
        widest = QFontMetricsF(small_font()).horizontalAdvance("88 %") + _LABEL_GAP_PX
        room = max(self._plot.width() - widest / 2, widest)  # half a label stands left of the first column
        apart = max(ceil((columns - 0.5) * widest / room), 1)  # columns from label to label
        labelled = spaced(shares, apart)
        for number, label in enumerate(self._labels):
            label.setVisible(number in labelled)
            if number in labelled:
                label.setText(f"{100 * shares[number]:.0f} %")
                label.setPos(number, shares[number])
        self._plot.getAxis("bottom").setTicks([[(number, str(number)) for number in range(0, columns, apart)]])
        self._plot.setRange(xRange=(-0.5 * apart, columns - 0.5), yRange=(0, 1.45 * max((0.4, *shares))), padding=0)
        spoken = ", ".join(f"{number}: {100 * share:.0f} %" for number, share in enumerate(shares))
        self.setAccessibleDescription(spoken)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """As many labels as there is room for now."""
        super().resizeEvent(event)
        self.show_shares(self._shares)


def spaced(shares: Sequence[float], apart: int) -> set[int]:
    """Which of the shares are told in figures: the largest, so many columns apart; none that would read 0 %."""
    told: set[int] = set()
    for number in sorted(range(len(shares)), key=lambda number: -shares[number]):
        if shares[number] >= _LEAST_TOLD and all(abs(number - other) >= apart for other in told):
            told.add(number)
    return told


class TimeChart(QWidget):
    """Milliseconds of every step: draft, verify and accept on top of one another."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = ChartTitle("Time of a step", "ms")
        self._plot = plain_plot(84)
        self._bars = {part: pg.BarGraphItem(x=[0], height=[0], width=1.0) for part in PARTS}
        for bars in self._bars.values():
            self._plot.addItem(bars)
        self._lines = [pg.InfiniteLine(angle=0) for _ in range(3)]
        for line in self._lines:
            line.setZValue(-1)
            self._plot.addItem(line, ignoreBounds=True)
        self._key = QLabel()
        self._key.setProperty("role", "small")
        self._key.setTextFormat(Qt.TextFormat.PlainText)
        self._key.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for widget in (self._title, self._plot, self._key):
            column.addWidget(widget)
        self.setToolTip(TIMES_HELP)
        self.setAccessibleName("Time of a step")
        self.set_theme(theme)
        self.clear()

    @property
    def columns(self) -> np.ndarray:
        """(columns, 3) in ms as drawn: draft, verify, accept."""
        return self._columns

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        dress_plot(self._plot, theme)
        colours = {"draft": theme.source_lookup, "verify": theme.accent, "accept": theme.source_recycling}
        for part, bars in self._bars.items():
            bars.setOpts(brush=QBrush(QColor(colours[part]), _PATTERNS[part]), pen=pg.mkPen(None))
        for line in self._lines:
            line.setPen(pg.mkPen(theme.line, width=1))

    def clear(self) -> None:
        """Start a new reply."""
        self._top, self._span = _FIRST_TOP_MS, _FIRST_SPAN
        self._columns = np.zeros((0, 3))
        self._title.set_figure("")
        self._key.setText(" ")
        self._draw(1)

    def show_times(self, times: Sequence[tuple[float, float, float]]) -> None:
        """Draw; `times` are of all steps, in seconds."""
        if not times:
            self.clear()
            return
        found = 1000 * np.array(times)
        means = found.mean(axis=0)
        per_column = -(-len(found) // MOST_COLUMNS)
        starts = np.arange(0, len(found), per_column)
        sizes = np.diff([*starts, len(found)])
        self._columns = np.add.reduceat(found, starts) / sizes[:, None]
        # A step that was held up, by whatever else the machine does, must not flatten all others.
        self._top = doubled(self._top, float(np.quantile(self._columns.sum(axis=1), 0.98)))
        while self._span < len(self._columns):
            self._span *= 2
        self._draw(per_column)
        self._title.set_figure(f"{means.sum():.1f} ms")
        patterns = ("▨ draft", "■ verify", "▒ accept")
        words = "   ".join(f"{name} {value:.1f}" for name, value in zip(patterns, means, strict=True))
        self._key.setText(f"Mean, from the bottom:  {words} ms")
        self.setAccessibleDescription(self._key.text())

    def _draw(self, per_column: int) -> None:
        places, below = np.arange(len(self._columns)) + 0.5, np.zeros(len(self._columns))
        for number, bars in enumerate(self._bars.values()):
            heights = self._columns[:, number]
            bars.setOpts(x=places, y0=below, height=heights, width=0.85)
            below = below + heights
        marks = [self._top * share for share in (0.0, 0.5, 1.0)]
        for line, mark in zip(self._lines, marks, strict=True):
            line.setValue(mark)
        self._plot.getAxis("left").setTicks([[(mark, f"{mark:g}") for mark in marks]])
        steps = [0, self._span // 3, 2 * self._span // 3]
        self._plot.getAxis("bottom").setTicks([[(place, f"step {max(1, place * per_column)}") for place in steps]])
        self._plot.setRange(xRange=(0, self._span), yRange=(0, 1.08 * self._top), padding=0.02)
