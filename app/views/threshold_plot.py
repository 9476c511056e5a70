"""What typical acceptance asks of a guess, drawn over the model's entropy: min(epsilon, delta * exp(-entropy)).

Knows nothing of settings, or of the rule's other numbers.
"""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import Theme, small_font

MOST_ENTROPY = 6.0  # nats, at the right edge
TOPS = (
    0.02,
    0.05,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    0.75,
    1.0,
)  # of the probability axis: it rescales in steps, so that it seldom moves
_POINTS = 120
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter


def threshold(epsilon: float, delta: float, entropy: float) -> float:
    """The probability a guess must exceed (Medusa, section 2.3.1); `entropy` in nats."""
    return min(epsilon, delta * math.exp(-entropy))


def knee(epsilon: float, delta: float) -> float | None:
    """The entropy in nats from which the threshold falls; None where it never does within the plot."""
    if not epsilon or delta <= epsilon:
        return 0.0 if delta and epsilon else None
    entropy = math.log(delta / epsilon)
    return entropy if entropy < MOST_ENTROPY else None


class ThresholdPlot(QWidget):
    """The curve, its knee, and on which side of it guesses are kept."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._epsilon, self._delta = 0.0, 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Threshold over entropy")

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self.updateGeometry()
        self.update()

    def show_numbers(self, epsilon: float, delta: float) -> None:
        """Draw the threshold for other numbers."""
        self._epsilon, self._delta = epsilon, delta
        self.setAccessibleDescription(self.sentence())
        self.update()

    def sentence(self) -> str:
        """The curve in words."""
        top, end = threshold(self._epsilon, self._delta, 0.0), threshold(self._epsilon, self._delta, MOST_ENTROPY)
        bend = knee(self._epsilon, self._delta)
        if not bend:
            falling = (
                ""
                if bend is None
                else f" where the model is sure, and less from there on: {end:.2g} at {MOST_ENTROPY:g} nats"
            )
            return f"A guess needs a probability of more than {top:.3g}{falling or ' at any entropy'}."
        return (
            f"A guess needs a probability of more than {top:.3g} up to an entropy of {bend:.2f} nats, "
            f"and less from there on: {end:.2g} at {MOST_ENTROPY:g} nats."
        )

    def sizeHint(self) -> QSize:
        """Twelve lines of the axes' text high."""
        return QSize(280, round(12 * QFontMetricsF(small_font()).lineSpacing()))

    def top(self) -> float:
        """The probability at the upper edge."""
        highest = threshold(self._epsilon, self._delta, 0.0)
        return next((top for top in TOPS if highest <= 0.8 * top), TOPS[-1])

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Axes, areas, curve, labels."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(small_font())
        metrics = QFontMetricsF(small_font())
        line = metrics.lineSpacing()
        left = metrics.horizontalAdvance("0.025") + 8
        # Above the plot stands the name of the one axis; below it are the figures and the name of the other.
        area = QRectF(left, line + 6, self.width() - left - 12, self.height() - 3 * line - 14)
        self._paint_axes(painter, area, line)
        curve = self._curve(area)
        self._paint_curve(painter, area, curve)
        self._paint_words(painter, area, line)

    def _point(self, area: QRectF, entropy: float, probability: float) -> QPointF:
        x = area.left() + area.width() * entropy / MOST_ENTROPY
        return QPointF(x, area.bottom() - area.height() * min(1.0, probability / self.top()))

    def _curve(self, area: QRectF) -> QPolygonF:
        entropies = [MOST_ENTROPY * number / _POINTS for number in range(_POINTS + 1)]
        entropies = sorted([*entropies, knee(self._epsilon, self._delta) or 0.0])
        points = [self._point(area, h, threshold(self._epsilon, self._delta, h)) for h in entropies]
        return QPolygonF(points)

    def _paint_axes(self, painter: QPainter, area: QRectF, line: float) -> None:
        muted = self._colour(self._theme.text_muted)
        for share in (0.0, 0.5, 1.0):
            y = area.bottom() - share * area.height()
            painter.setPen(QPen(QColor(self._theme.line), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(muted)
            text = f"{share * self.top():.3g}"
            painter.drawText(QRectF(0, y - line / 2, area.left() - 6, line), _RIGHT, text)
        painter.setPen(muted)
        for entropy in range(0, int(MOST_ENTROPY) + 1, 2):
            x = self._point(area, entropy, 0.0).x()
            painter.drawText(QRectF(x - 20, area.bottom() + 4, 40, line), _CENTRE, f"{entropy}")
        painter.drawText(QRectF(0, 0, self.width(), line), _LEFT, "Probability needed")
        under = QRectF(area.left(), area.bottom() + 4 + line, area.width(), line)
        painter.drawText(under, _CENTRE, "Entropy of the model’s next token, H (nats)")

    def _paint_curve(self, painter: QPainter, area: QRectF, curve: QPolygonF) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        kept = QPolygonF([area.topLeft(), *curve.toList(), area.topRight()])
        painter.setBrush(QColor(self._theme.accepted_tint if self.isEnabled() else self._theme.surface_raised))
        painter.drawPolygon(kept)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._colour(self._theme.accent), 2))
        painter.drawPolyline(curve)
        bend = knee(self._epsilon, self._delta)
        if bend is not None:
            painter.setBrush(self._colour(self._theme.accent))
            painter.setPen(QPen(QColor(self._theme.surface), 1.5))
            painter.drawEllipse(self._point(area, bend, threshold(self._epsilon, self._delta, bend)), 4, 4)

    def _paint_words(self, painter: QPainter, area: QRectF, line: float) -> None:
        """On which side guesses are kept, and what the parts of the curve are, where there is room to say it."""
        painter.setPen(self._colour(self._theme.text))
        kept = QRectF(area.center().x(), area.top() + 4, area.width() / 2 - 6, line)
        painter.drawText(kept, _RIGHT, "kept")
        bend = knee(self._epsilon, self._delta)
        flat_to = self._point(area, MOST_ENTROPY if bend is None else bend, self._epsilon)
        is_high = area.bottom() - flat_to.y() > 2.2 * line
        room = flat_to.x() - area.left()
        if is_high and room > 60:
            painter.drawText(QRectF(area.left() + 6, area.bottom() - line - 3, room, line), _LEFT, "not kept")
        if room > 60:
            painter.drawText(QRectF(area.left() + 6, flat_to.y() - line - 3, room, line), _LEFT, "ε")
        if bend:
            painter.drawText(QRectF(flat_to.x() + 8, flat_to.y() - line - 3, 120, line), _LEFT, f"H = {bend:.2f}")
        if bend is not None and is_high:
            on_curve = self._point(area, bend + 0.5, threshold(self._epsilon, self._delta, bend + 0.5))
            painter.drawText(QRectF(on_curve.x() + 8, on_curve.y() - line, 120, line), _LEFT, "δ·exp(−H)")

    def _colour(self, value: str) -> QColor:
        return QColor(value if self.isEnabled() else self._theme.unreached)
