"""The two charts of a reply: tokens per second over time, and the acceptance of each head.

Both take figures that were computed elsewhere and draw them with direct labels. While a reply streams, an axis only
ever grows by doubling. Knows nothing of trees or of which step is on screen.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.theme import Theme, small_font, ui_font
from medusa_core.events import Step
from medusa_core.metrics import ReplyMetrics

WINDOW_STEPS = 8  # a single step's speed jumps between whole numbers of tokens; a short mean can be read
FEWEST_STEPS = 4  # a mean over fewer says little, and one lucky first step would double the axis for good
FIRST_TOP = 20.0  # tokens/s
FIRST_SPAN = 5.0  # s
ROW_PX = 22.0
FEWEST_ROWS = 4  # so that the panel does not move when the first step tells how many heads there are
ACCEPTANCE_DEFINITION = (
    "Acceptance of head k: the share of this reply's steps in which at least k guesses were kept.\n"
    "Tokens per step: tokens divided by steps; the model's own token counts once in every step."
)

NO_STEPS = "Per head, the share of steps in which at least that many guesses in a row were kept."
NO_GUESSES = "No head is guessing: every step writes one token."


def doubled(start: float, needed: float) -> float:
    """The first of start, 2·start, 4·start … that is not below `needed`."""
    while start < needed:
        start *= 2
    return start


class ChartTitle(QWidget):
    """The name of a chart with a muted note at the left, its figure with the unit at the right."""

    def __init__(self, name: str, note: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title, caption, self._figure = QLabel(name), QLabel(note), QLabel()
        title.setProperty("role", "title")
        caption.setProperty("role", "small")
        self._figure.setTextFormat(Qt.TextFormat.PlainText)
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


class SpeedChart(QWidget):
    """Tokens per second over the decoding time of a reply, as a mean over the last few steps."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = ChartTitle("Speed", f"tokens/s, mean of {WINDOW_STEPS} steps")
        self._plot = pg.PlotWidget()
        self._curve = self._plot.plot(skipFiniteCheck=True, antialias=True)
        self._newest = self._plot.plot(symbol="o", symbolSize=7, antialias=True)
        self._marker = pg.InfiniteLine(angle=90)
        self._lines = [pg.InfiniteLine(angle=0) for _ in range(3)]
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
        plot = self._plot
        plot.setMinimumHeight(72)
        plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        plot.setMouseEnabled(False, False)
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.getPlotItem().setContentsMargins(0, 0, 0, 0)
        for name in ("left", "bottom"):
            plot.getAxis(name).setStyle(tickFont=small_font(), tickLength=0, hideOverlappingLabels=False)
        plot.getAxis("left").setWidth(QFontMetricsF(small_font()).horizontalAdvance("1280") + 4)
        plot.getAxis("bottom").setHeight(20)
        for line in (*self._lines, self._marker):
            line.setZValue(-1)
            plot.addItem(line, ignoreBounds=True)

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._plot.setBackground(theme.surface)
        self._curve.setPen(pg.mkPen(theme.accent, width=2))
        self._newest.setSymbolBrush(theme.accent)
        self._newest.setSymbolPen(pg.mkPen(theme.surface, width=1.5))
        self._marker.setPen(pg.mkPen(theme.text_muted, width=1, style=Qt.PenStyle.DashLine))
        for name in ("left", "bottom"):
            self._plot.getAxis(name).setPen(pg.mkPen(None))
            self._plot.getAxis(name).setTickPen(pg.mkPen(theme.surface))  # ticks of length 0 would still be dots
            self._plot.getAxis(name).setTextPen(theme.text_muted)
        for line in self._lines:
            line.setPen(pg.mkPen(theme.line, width=1))

    def clear(self) -> None:
        """Start a new reply."""
        self._metrics = ReplyMetrics()
        self._seconds, self._tokens, self._speeds = np.zeros(256), np.zeros(256), np.zeros(256)
        self._top, self._span = FIRST_TOP, FIRST_SPAN
        self._curve.setData([], [])
        self._newest.setData([], [])
        self._marker.hide()
        self._title.set_figure("")
        self._label_axes()

    def add(self, steps: Iterable[Step]) -> None:
        """Append a batch and draw once."""
        for step in steps:
            self._append(step)
        count = self._metrics.steps
        if not count:
            return
        seconds, speeds = self.points
        top = doubled(self._top, float(speeds.max(initial=0.0)))
        span = doubled(self._span, float(self._seconds[count - 1]))
        if (top, span) != (self._top, self._span):
            self._top, self._span = top, span
            self._label_axes()
        self._curve.setData(seconds, speeds)
        self._newest.setData(seconds[-1:], speeds[-1:])
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

    def _label_axes(self) -> None:
        self._plot.setRange(xRange=(0, self._span), yRange=(0, 1.08 * self._top), padding=0.03)
        speeds = [self._top * share for share in (0.0, 0.5, 1.0)]
        for line, speed in zip(self._lines, speeds, strict=True):
            line.setValue(speed)
        times = [self._span * share for share in (0.0, 0.5, 1.0)]
        self._plot.getAxis("left").setTicks([[(speed, f"{speed:g}") for speed in speeds]])
        self._plot.getAxis("bottom").setTicks([[(time, f"{time:g} s") for time in times]])


class AcceptanceBars(QWidget):
    """One bar a head: the share of steps in which at least k guesses were kept."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shares: tuple[float, ...] = ()
        self._empty = NO_STEPS
        self._title = ChartTitle("Acceptance per head", "")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._title)
        column.addStretch()
        self.setToolTip(ACCEPTANCE_DEFINITION)
        self.setAccessibleName("Acceptance per head")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Room for every head."""
        rows = max(FEWEST_ROWS, len(self._shares))
        return QSize(200, int(self._title.sizeHint().height() + 4 + rows * ROW_PX))

    def minimumSizeHint(self) -> QSize:
        """The same: a bar less would be a head less."""
        return self.sizeHint()

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares as drawn."""
        return self._shares

    @property
    def figure(self) -> str:
        """The mean tokens per step as it reads."""
        return self._title.figure

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self.update()

    def clear(self) -> None:
        """Start a new reply."""
        self._shares, self._empty = (), NO_STEPS
        self._title.set_figure("")
        self.update()

    def show_metrics(self, metrics: ReplyMetrics) -> None:
        """Draw the running shares."""
        grows = len(metrics.acceptance_per_head) > max(FEWEST_ROWS, len(self._shares))
        self._shares, self._empty = metrics.acceptance_per_head, NO_GUESSES
        self._title.set_figure(f"{metrics.tokens_per_step:.2f} tokens per step")
        spoken = ", ".join(f"head {k} {100 * share:.0f} %" for k, share in enumerate(self._shares, 1))
        self.setAccessibleDescription(f"{spoken}; {self._title.figure}")
        if grows:
            self.updateGeometry()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Label, bar on a full-length track, share."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(ui_font())
        metrics = QFontMetricsF(painter.font())
        label_px, share_px = metrics.horizontalAdvance("head 9") + 12, metrics.horizontalAdvance("100 %") + 8
        top = self._title.height() + 4
        if not self._shares:
            painter.setPen(QColor(self._theme.text_muted))
            words = int(Qt.TextFlag.TextWordWrap)
            painter.drawText(QRectF(0, top, self.width(), FEWEST_ROWS * ROW_PX), words, self._empty)
        for row, share in enumerate(self._shares):
            line = QRectF(0, top + row * ROW_PX, self.width(), ROW_PX)
            track = QRectF(label_px, line.center().y() - 4, self.width() - label_px - share_px, 8)
            painter.setPen(QColor(self._theme.text_muted))
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, f"head {row + 1}")
            painter.setPen(QColor(self._theme.text))
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, f"{100 * share:.0f} %")
            painter.fillRect(track, QColor(self._theme.surface_raised))
            track.setWidth(track.width() * share)
            painter.fillRect(track, QColor(self._theme.accepted))
