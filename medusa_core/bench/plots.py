"""Line charts as SVG text: a few series over one axis, drawn with nothing but the standard library.

Knows nothing of what the numbers mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_COLOURS = ("#2a6fb0", "#c2571a", "#3a8f4d", "#8450a8", "#a63d4f", "#6b6b6b")
_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 170, 40, 48
_TICKS = 5
_OPENING = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
    f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">'
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: points (x, y), by x."""

    name: str
    points: tuple[tuple[float, float], ...]


def line_chart(title: str, x_label: str, y_label: str, series: Sequence[Series], *, doubling: bool = False) -> str:
    """The chart as an SVG document; `doubling`: equal steps along x are equal factors. Y begins at 0."""
    points = [point for line in series for point in line.points]
    xs = sorted({x for x, _ in points}) or [0.0]
    axis = _Axis(xs[0], xs[-1], doubling=doubling and xs[0] > 0)
    top = _round_up(max((y for _, y in points), default=1.0))
    parts = [
        _OPENING,
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 22, title, size=15),
        *_grid(xs, axis, top),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, x_label, anchor="middle"),
        _sideways(16, (_TOP + _HEIGHT - _BOTTOM) / 2, y_label),
    ]
    for number, line in enumerate(series):
        parts += _line(line, axis, top, _COLOURS[number % len(_COLOURS)], number)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    doubling: bool

    def place(self, x: float) -> float:
        """Where x stands, in pixels."""
        low, high = (math.log2(value) if self.doubling else value for value in (self.low, self.high))
        share = ((math.log2(x) if self.doubling else x) - low) / (high - low) if high > low else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _height(y: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM)


def _grid(xs: Sequence[float], axis: _Axis, top: float) -> list[str]:
    """Horizontal lines with their values, and a mark at every x that was measured."""
    parts = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _height(value, top)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#d8d8d8"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{value:g}", anchor="end"))
    parts += [_text(axis.place(x), _HEIGHT - _BOTTOM + 18, f"{x:g}", anchor="middle") for x in xs]
    return parts


def _line(line: Series, axis: _Axis, top: float, colour: str, number: int) -> list[str]:
    places = [(axis.place(x), _height(y, top)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    legend = _TOP + 12 + 20 * number
    left = _WIDTH - _RIGHT + 14
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places),
        f'<line x1="{left}" y1="{legend}" x2="{left + 20}" y2="{legend}" stroke="{colour}" stroke-width="2"/>',
        _text(left + 26, legend + 4, line.name),
    ]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _sideways(x: float, y: float, text: str) -> str:
    turned = f"translate({x:.1f} {y:.1f}) rotate(-90)"
    return f'<text transform="{turned}" text-anchor="middle">{escape(text)}</text>'


def _round_up(value: float) -> float:
    """The next number whose parts are easily read: 1, 1.5, 2, 2.5, 3, 4, 5 or 7.5 times a power of ten."""
    if not (math.isfinite(value) and value > 0):
        return 1.0
    power = float(10 ** math.floor(math.log10(value)))
    return next(step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if value <= step * power * (1 + 1e-9))
