"""How a training goes: the loss over the steps, and how often each head is right on replies it has not seen.

Knows nothing of what is trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyqtgraph as pg
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.theme import Theme, small_font
from app.views.charts import ChartTitle, dress_plot, plain_plot
from medusa_core.events import HeadFit, TrainingStep

_HEIGHT = 140
_HEADROOM = 1.1
_TICKS = 4
_LABEL_DISTANCE = 0.13  # of the height of the chart
_NEAR_THE_END = 0.8  # where labels stand to the left of their points


class _Chart(QWidget):
    """A title over a plot whose horizontal axis is the whole training."""

    def __init__(self, title: str, note: str) -> None:
        super().__init__()
        self.title = ChartTitle(title, note)
        self.plot = plain_plot(_HEIGHT)
        self.plot.setFixedHeight(_HEIGHT)
        self.base = pg.InfiniteLine(angle=0)
        self.plot.addItem(self.base, ignoreBounds=True)
        self.setAccessibleName(title)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.title)
        column.addWidget(self.plot)

    def dress(self, theme: Theme) -> None:
        dress_plot(self.plot, theme)
        self.base.setPen(pg.mkPen(theme.line, width=1))

    def span(self, steps: int) -> None:
        """Show so many steps."""
        self.plot.setXRange(0, max(1, steps), padding=0.03)
        places = [round(steps * part / _TICKS) for part in range(_TICKS + 1)]
        self.plot.getAxis("bottom").setTicks([[(place, f"{place:,}".replace(",", "\u202f")) for place in places]])


class LossChart(_Chart):
    """The loss, smoothed."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Loss", "over the steps of the training; lower is better")
        self._curve = self.plot.plot(antialias=True)
        self._steps: list[float] = []
        self._losses: list[float] = []
        self.set_theme(theme)

    @property
    def points(self) -> list[tuple[float, float]]:
        """(step, loss) as drawn."""
        return list(zip(self._steps, self._losses, strict=True))

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self.dress(theme)
        self._curve.setPen(pg.mkPen(theme.accent, width=2))

    def clear(self) -> None:
        """Begin another training."""
        self._steps, self._losses = [], []
        self._curve.setData([], [])
        self.title.set_figure("")

    def add(self, step: TrainingStep) -> None:
        """Another report."""
        self._steps.append(step.step)
        self._losses.append(step.loss)
        self._curve.setData(self._steps, self._losses)
        self.plot.setYRange(0, _HEADROOM * max(self._losses), padding=0)
        self.span(step.total_steps)
        self.title.set_figure(f"{step.loss:.3f}")


class AccuracyChart(_Chart):
    """Each head's first guesses, by the step they were measured at."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Heads", "share of first guesses that are right, on held-out replies")
        self._curves: list[pg.PlotDataItem] = []
        self._labels: list[pg.TextItem] = []
        self._seen: list[tuple[int, tuple[HeadFit, ...]]] = []
        self.plot.getAxis("left").setTicks([[(0, "0 %"), (0.5, "50 %"), (1, "100 %")]])
        self.plot.getAxis("left").setWidth(QFontMetricsF(small_font()).horizontalAdvance("100 %") + 12)
        self.plot.setYRange(0, 1.1, padding=0)
        self.set_theme(theme)

    @property
    def shares(self) -> list[tuple[float, ...]]:
        """Top-1 by head, at each time they were measured."""
        return [tuple(fit.top1 for fit in heads) for _, heads in self._seen]

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self.dress(theme)
        for number, curve in enumerate(self._curves):
            self._dress_curve(curve, number)
        for label in self._labels:
            label.setColor(theme.text)

    def clear(self) -> None:
        """Begin another training."""
        self._seen = []
        for curve, label in zip(self._curves, self._labels, strict=True):
            curve.setData([], [])
            label.hide()
        self.title.set_figure("")

    def add(self, step: TrainingStep) -> None:
        """Another report; those without measurements only move the axis."""
        self.span(step.total_steps)
        if not step.heads:
            return
        self._seen.append((step.step, step.heads))
        while len(self._curves) < len(step.heads):
            self._add_curve()
        at = [place for place, _ in self._seen]
        for number in range(len(step.heads)):
            self._curves[number].setData(at, [heads[number].top1 for _, heads in self._seen])
        self._label(step)
        self.title.set_figure(accuracy_words(step.heads))
        self.setAccessibleDescription(accuracy_words(step.heads))

    def _label(self, step: TrainingStep) -> None:
        """Name each curve at its end; labels keep a distance from one another."""
        right = step.step > _NEAR_THE_END * step.total_steps
        shares = [fit.top1 for fit in step.heads]
        for number, height in enumerate(spread(shares, _LABEL_DISTANCE)):
            label = self._labels[number]
            label.setText(f"+{number + 1}: {100 * shares[number]:.0f} %")
            label.setAnchor((1.1, 0.5) if right else (-0.1, 0.5))
            label.setPos(step.step, height)
            label.show()

    def _add_curve(self) -> None:
        curve = self.plot.plot(symbol="o", symbolSize=6, antialias=True)
        self._dress_curve(curve, len(self._curves))
        self._curves.append(curve)
        label = pg.TextItem(anchor=(0, 1), color=self._theme.text)
        label.setFont(small_font())
        self.plot.addItem(label, ignoreBounds=True)
        self._labels.append(label)

    def _dress_curve(self, curve: pg.PlotDataItem, number: int) -> None:
        theme = self._theme
        colours = (theme.source_head, theme.source_lookup, theme.source_recycling, theme.accepted)
        colour = colours[number % len(colours)]
        curve.setPen(pg.mkPen(colour, width=2))
        curve.setSymbolBrush(colour)
        curve.setSymbolPen(pg.mkPen(theme.surface, width=1))


def spread(heights: Sequence[float], distance: float) -> list[float]:
    """The heights, moved up so that no two are nearer than the distance."""
    placed = [0.0] * len(heights)
    lowest = float("-inf")
    for index in sorted(range(len(heights)), key=lambda index: heights[index]):
        placed[index] = max(heights[index], lowest + distance)
        lowest = placed[index]
    return placed


def accuracy_words(heads: Sequence[HeadFit]) -> str:
    """Each head's share of right first guesses: "52 %, 31 %"."""
    return ", ".join(f"{100 * fit.top1:.0f} %" for fit in heads)
