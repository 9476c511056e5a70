"""How far ahead guesses were kept: a bar for every token ahead, its parts by who proposed the guess.

Beside it, as a tick, what the heads alone were measured to reach. Takes figures that were computed elsewhere. Knows
nothing of trees or of which step is on screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.theme import Theme, small_font, ui_font
from app.views.charts import ChartTitle
from app.views.step_figures import GUESSERS, StepFigures
from app.views.tree_words import SOURCES
from medusa_core.events import Source

ROW_PX = 22.0
FEWEST_ROWS = 4  # so that the panel does not move when the first step tells how far ahead is guessed
MOST_ROWS = 8
KEY_PX = 20.0
DEFINITION = (
    "Acceptance of head k, at +k: the share of this reply's steps in which at least k guesses were kept.\n"
    "The parts of a bar say who proposed the k-th of them; heads guess no further than there are heads.\n"
    "The upright line: what the heads alone reached on held-out replies, with a tree of about this size.\n"
    "Tokens per step: tokens divided by steps; the model's own token counts once in every step."
)
NO_STEPS = "For each token ahead, the share of steps in which guesses were kept that far."
NO_GUESSES = "Nothing is guessed: every step writes one token."
_BRUSHES = {
    Source.HEAD: Qt.BrushStyle.SolidPattern,
    Source.LOOKUP: Qt.BrushStyle.BDiagPattern,
    Source.RECYCLING: Qt.BrushStyle.Dense5Pattern,
}


class AcceptanceBars(QWidget):
    """One bar for every token ahead."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shares: tuple[float, ...] = ()
        self._parts: list[dict[Source, float]] = []
        self._seen: set[Source] = set()
        self._expected: tuple[float, ...] = ()
        self._empty = NO_STEPS
        self._title = ChartTitle("Acceptance", "by tokens ahead")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._title)
        column.addStretch()
        self.setToolTip(DEFINITION)
        self.setAccessibleName("Acceptance by tokens ahead")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Room for every row and the key."""
        return QSize(200, int(self._title.sizeHint().height() + 4 + self._rows() * ROW_PX + KEY_PX))

    def _rows(self) -> int:
        """As far ahead as anything was ever kept."""
        kept = max((row for row, share in enumerate(self._shares, 1) if share), default=0)
        return min(max(FEWEST_ROWS, kept), MOST_ROWS)

    def minimumSizeHint(self) -> QSize:
        """The same: a bar less would be a token less."""
        return self.sizeHint()

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares as drawn."""
        return self._shares

    @property
    def parts(self) -> tuple[dict[Source, float], ...]:
        """Of each share, who proposed the guess."""
        return tuple(self._parts)

    @property
    def expected(self) -> tuple[float, ...]:
        """The ticks; () where the heads were never measured."""
        return self._expected

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
        self._shares, self._parts, self._seen, self._expected, self._empty = (), [], set(), (), NO_STEPS
        self._title.set_figure("")
        self.updateGeometry()
        self.update()

    def show_figures(self, figures: StepFigures, expected: Sequence[float] = ()) -> None:
        """Draw the running shares; `expected`: of the heads alone."""
        rows_before = self.sizeHint().height()
        self._shares, self._empty = figures.shares, NO_GUESSES
        self._parts = [figures.parts(k) for k in range(1, len(self._shares) + 1)]
        self._seen, self._expected = figures.seen, tuple(expected) if figures.seen else ()
        self._title.set_figure(f"{figures.metrics.tokens_per_step:.2f} tokens per step")
        self.setAccessibleDescription("; ".join([*map(self._spoken, range(len(self._shares))), self._title.figure]))
        if self.sizeHint().height() != rows_before:
            self.updateGeometry()
        self.update()

    def _spoken(self, row: int) -> str:
        parts = [f"{SOURCES[source]} {100 * share:.0f} %" for source, share in self._parts[row].items()]
        text = f"+{row + 1} {100 * self._shares[row]:.0f} %" + (f" ({', '.join(parts)})" if len(parts) > 1 else "")
        return text + (f", heads expected {100 * self._expected[row]:.0f} %" if row < len(self._expected) else "")

    def paintEvent(self, event: QPaintEvent) -> None:
        """Label, bar on a full-length track, share; below all of them what the patterns mean."""
        painter = QPainter(self)
        painter.setFont(ui_font())
        metrics = QFontMetricsF(painter.font())
        label_px, share_px = metrics.horizontalAdvance("+99") + 8, metrics.horizontalAdvance("100 %") + 8
        top = self._title.height() + 4
        if not self._shares:
            painter.setPen(QColor(self._theme.text_muted))
            words = int(Qt.TextFlag.TextWordWrap)
            painter.drawText(QRectF(0, top, self.width(), FEWEST_ROWS * ROW_PX), words, self._empty)
            return
        for row, share in enumerate(self._shares[: self._rows()]):
            line = QRectF(0, top + row * ROW_PX, self.width(), ROW_PX)
            track = QRectF(label_px, line.center().y() - 4, self.width() - label_px - share_px, 8)
            painter.setPen(QColor(self._theme.text_muted))
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, f"+{row + 1}")
            painter.setPen(QColor(self._theme.text))
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, f"{100 * share:.0f} %")
            self._paint_bar(painter, track, row)
        self._paint_key(painter, top + self._rows() * ROW_PX + KEY_PX / 2)

    def _paint_bar(self, painter: QPainter, track: QRectF, row: int) -> None:
        painter.fillRect(track, QColor(self._theme.surface_raised))
        x = track.x()
        for source, share in self._parts[row].items():
            part = QRectF(x, track.y(), track.width() * share, track.height())
            self._fill(painter, part, source)
            x += part.width()
        if row < len(self._expected):
            at = track.x() + track.width() * self._expected[row]
            painter.setPen(QPen(QColor(self._theme.text), 2))
            painter.drawLine(QPointF(at, track.y() - 4), QPointF(at, track.bottom() + 4))

    def _fill(self, painter: QPainter, part: QRectF, source: Source) -> None:
        """Kept is one colour everywhere; who proposed it is a pattern."""
        colour = QColor(self._theme.accepted)
        if source is not Source.HEAD:
            painter.fillRect(part, QColor(self._theme.accepted_tint))
        painter.fillRect(part, QBrush(colour, _BRUSHES[source]))

    def _paint_key(self, painter: QPainter, middle: float) -> None:
        painter.setFont(small_font())
        metrics = QFontMetricsF(painter.font())
        base, x = middle + metrics.capHeight() / 2, 0.0
        for source in (source for source in GUESSERS if source in self._seen):
            self._fill(painter, QRectF(x, middle - 4, 16, 8), source)
            painter.setPen(QColor(self._theme.text_muted))
            painter.drawText(QPointF(x + 20, base), SOURCES[source])
            x += 20 + metrics.horizontalAdvance(SOURCES[source]) + 12
        if self._expected:
            painter.setPen(QPen(QColor(self._theme.text), 2))
            painter.drawLine(QPointF(x + 2, middle - 6), QPointF(x + 2, middle + 6))
            painter.setPen(QColor(self._theme.text_muted))
            painter.drawText(QPointF(x + 8, base), "heads, as calibrated")
