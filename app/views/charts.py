"""Tokens per second over the time of a reply, beside plain decoding; and what all charts share: title and axes.

While a reply streams, an axis only ever grows by doubling. Knows nothing of trees or of the other charts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF, QPainter
from PySide6.QtWidgets import (
    QGraphicsEllipseItem,
    QGraphicsItem,
    QHBoxLayout,
    QLabel,
    QStyleOptionGraphicsItem,
    QVBoxLayout,
    QWidget,
)

from app.theme import Theme, small_font
from app.views.labels import Figure
from medusa_core.events import Step
from medusa_core.metrics import ReplyMetrics

WINDOW_STEPS = 8  # a single step's speed jumps between whole numbers of tokens; a short mean can be read
FEWEST_STEPS = 4  # a mean over fewer says little, and one lucky first step would double the axis for good
FIRST_TOP = 20.0  # tokens/s
FIRST_SPAN = 5.0  # s
_DOT_PX = 8.0


def doubled(start: float, needed: float) -> float:
    """The first of start, 2·start, 4·start … that is not below `needed`."""
    while start < needed:
        start *= 2
    return start


class ChartTitle(QWidget):
    """The name of a chart with a muted note at the left, its figure with the unit at the right."""

    def __init__(self, name: str, note: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title, caption, self._figure = QLabel(name), QLabel(note), Figure()
        title.setProperty("role", "title")
        caption.setProperty("role", "small")
        self._figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(title)
        row.addWidget(caption)
        row.addStretch()
        row.addWidget(self._figure)

    def set_figure(self, text: str) -> None:
        """The figure at the right."""
        self._figure.setText(text)

    @property
    def figure(self) -> str:
        """The figure as it reads."""
        return self._figure.text()


def plain_plot(height: int) -> pg.PlotWidget:
    """An empty plot that nobody can drag, zoom or focus."""
    plot = pg.PlotWidget()
    plot.setMinimumHeight(height)
    plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    plot.setMouseEnabled(False, False)
    plot.setMenuEnabled(False)
    plot.hideButtons()
    plot.getPlotItem().setContentsMargins(0, 0, 0, 0)
    for name in ("left", "bottom"):
        plot.getAxis(name).setStyle(tickFont=small_font(), tickLength=0, hideOverlappingLabels=False)
    plot.getAxis("left").setWidth(QFontMetricsF(small_font()).horizontalAdvance("1280") + 4)
    plot.getAxis("bottom").setHeight(20)
    return plot


def dress_plot(plot: pg.PlotWidget, theme: Theme) -> None:
    """Background and labels in the theme's colours; the axes themselves are not drawn."""
    plot.setBackground(theme.surface)
    for name in ("left", "bottom"):
        plot.getAxis(name).setPen(pg.mkPen(None))
        plot.getAxis(name).setTickPen(pg.mkPen(theme.surface))  # ticks of length 0 would still be dots
        plot.getAxis(name).setTextPen(theme.text_muted)


class _Dot(QGraphicsEllipseItem):
    """A round dot of the same size at any scale of the axes."""

    def __init__(self) -> None:
        super().__init__(-_DOT_PX / 2, -_DOT_PX / 2, _DOT_PX, _DOT_PX)
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemIgnoresTransformations)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        super().paint(painter, option, widget)


class SpeedChart(QWidget):
    """Tokens per second over the decoding time of a reply, as a mean over the last few steps."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = ChartTitle("Speed", f"tokens/s, mean of {WINDOW_STEPS} steps")
        self._plot = plain_plot(72)
        # Bare items: what pyqtgraph wraps about them for its own menus and zooms costs more than drawing them.
        self._curve = pg.PlotCurveItem(skipFiniteCheck=True, antialias=True)
        self._newest = _Dot()
        self._marker = pg.InfiniteLine(angle=90)
        self._lines = [pg.InfiniteLine(angle=0) for _ in range(3)]
        options = {"position": 0.99, "anchors": [(1, 0), (1, 1)]}  # below it in the upper half, above it in the lower
        self._plain = pg.InfiniteLine(angle=0, label="plain", labelOpts=options)
        self._plain.label.setFont(small_font())
        self._plain_speed = 0.0
        self._build_plot()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._title)
        column.addWidget(self._plot)
        self.setAccessibleName("Speed over time")
        self.set_theme(theme)
        self.clear()

    def _build_plot(self) -> None:
        for line in (*self._lines, self._marker, self._plain):
            line.setZValue(-1)
        for item in (*self._lines, self._marker, self._plain, self._curve, self._newest):
            self._plot.addItem(item, ignoreBounds=True)
        self._plain.hide()

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        dress_plot(self._plot, theme)
        self._curve.setPen(pg.mkPen(theme.accent, width=2))
        self._newest.setBrush(pg.mkBrush(theme.accent))
        self._newest.setPen(pg.mkPen(theme.surface, width=1.5))
        self._marker.setPen(pg.mkPen(theme.text_muted, width=1, style=Qt.PenStyle.DotLine))
        self._plain.setPen(pg.mkPen(theme.text_muted, width=1.5, style=Qt.PenStyle.DashLine))
        self._plain.label.setColor(theme.text_muted)
        self._plain.label.fill = pg.mkBrush(theme.surface)
        for line in self._lines:
            line.setPen(pg.mkPen(theme.line, width=1))

    def set_plain(self, tokens_per_second: float, *, of_a_reply: bool = False) -> None:
        """How fast plain decoding is here, as a dashed line; 0: nobody knows.

        `of_a_reply`: a reply was written without drafting so fast; else one pass a token would bring it, at most.
        """
        self._plain_speed = tokens_per_second
        self._plain.setVisible(tokens_per_second > 0)
        if tokens_per_second > 0:
            self._plain.setValue(tokens_per_second)
            self._plain.label.setFormat(f"plain {'' if of_a_reply else '≤ '}{tokens_per_second:.0f}")
            self._fit_axes(self._plain_speed, 0.0)
        what = (
            "as a reply without drafting was written here"
            if of_a_reply
            else "at most, without drafting: one pass a token, as passes alone were measured here. Prove it measures it"
        )
        plain = f"Dashed: {tokens_per_second:.1f} tokens/s, {what}."
        self.setToolTip(plain if tokens_per_second > 0 else "")

    @property
    def plain(self) -> float:
        """The speed of the dashed line; 0 where there is none."""
        return self._plain_speed

    def clear(self) -> None:
        """Start a new reply."""
        self._metrics = ReplyMetrics()
        self._seconds, self._tokens, self._speeds = np.zeros(256), np.zeros(256), np.zeros(256)
        self._top, self._span = FIRST_TOP, FIRST_SPAN
        self._curve.setData([], [])
        self._newest.hide()
        self._marker.hide()
        self._title.set_figure("")
        self._top = doubled(self._top, self._plain_speed)
        self._label_axes()

    def add(self, steps: Iterable[Step]) -> None:
        """Append a batch and draw once."""
        for step in steps:
            self._append(step)
        count = self._metrics.steps
        if not count:
            return
        seconds, speeds = self.points
        self._fit_axes(float(speeds.max(initial=0.0)), float(self._seconds[count - 1]))
        self._curve.setData(seconds, speeds)
        self._newest.setVisible(len(speeds) > 0)
        if len(speeds):
            self._newest.setPos(seconds[-1], speeds[-1])
        self._title.set_figure(f"{self._metrics.tokens_per_second:.1f} tokens/s")
        self.setAccessibleDescription(f"{self._metrics.tokens_per_second:.1f} tokens per second over the reply")

    def mark(self, index: int | None) -> None:
        """Point out when the step with this index ended; None: no step is held."""
        self._marker.setVisible(index is not None)
        if index is not None:
            self._marker.setValue(float(self._seconds[index]))

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Seconds and tokens per second as drawn."""
        drawn = slice(FEWEST_STEPS - 1, max(self._metrics.steps, FEWEST_STEPS - 1))
        return self._seconds[drawn], self._speeds[drawn]

    @property
    def top(self) -> float:
        """The speed at the top grid line, in tokens per second."""
        return self._top

    @property
    def figure(self) -> str:
        """The mean speed of the reply as it reads."""
        return self._title.figure

    def _append(self, step: Step) -> None:
        index = self._metrics.steps
        if index == len(self._seconds):
            self._seconds, self._tokens, self._speeds = (
                np.concatenate((old, np.zeros_like(old))) for old in (self._seconds, self._tokens, self._speeds)
            )
        self._metrics.add(step)
        self._seconds[index], self._tokens[index] = self._metrics.seconds, self._metrics.tokens
        before = index - WINDOW_STEPS
        then, had = (self._seconds[before], self._tokens[before]) if before >= 0 else (0.0, 0.0)
        passed = self._metrics.seconds - then
        self._speeds[index] = (self._metrics.tokens - had) / passed if passed > 0 else 0.0

    def _fit_axes(self, speed: float, seconds: float) -> None:
        top, span = doubled(self._top, speed), doubled(self._span, seconds)
        if (top, span) != (self._top, self._span):
            self._top, self._span = top, span
            self._label_axes()

    def _label_axes(self) -> None:
        self._plot.setRange(xRange=(0, self._span), yRange=(0, 1.08 * self._top), padding=0.03)
        speeds = [self._top * share for share in (0.0, 0.5, 1.0)]
        for line, speed in zip(self._lines, speeds, strict=True):
            line.setValue(speed)
        times = [self._span * share for share in (0.0, 0.5, 1.0)]
        self._plot.getAxis("left").setTicks([[(speed, f"{speed:g}") for speed in speeds]])
        self._plot.getAxis("bottom").setTicks([[(time, f"{time:g} s") for time in times]])
