"""Charts as files: PNG at twice the size on screen, SVG, or the figures behind them as CSV.

Knows nothing of which charts there are.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtGui import QColor, QImage, QPainter, QRegion
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from app.theme import Theme
from app.views.step_figures import table
from medusa_core.events import Step

KINDS = {".png": "Picture (*.png)", ".svg": "Drawing (*.svg)", ".csv": "Figures of every step (*.csv)"}
_SCALE = 2
_MARGIN = 16


def export(path: Path, widget: QWidget, theme: Theme, steps: Sequence[Step]) -> None:
    """Write what the name's ending says: the widget as it looks, or the steps' figures. Raises OSError."""
    match path.suffix.lower():
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(table(steps))
        case ".svg":
            _save_svg(path, widget, theme)
        case ".png":
            _save_png(path, widget, theme)
        case other:
            raise OSError(f"charts are saved as {', '.join(KINDS)}, not as {other or 'a file without an ending'}")


def _save_png(path: Path, widget: QWidget, theme: Theme) -> None:
    size = _page(widget)
    image = QImage(size * _SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(_SCALE)
    image.fill(QColor(theme.surface))
    _paint(QPainter(image), widget)
    if not image.save(str(path), "PNG"):
        raise OSError(f"{path.name} could not be written in {path.parent}")


def _save_svg(path: Path, widget: QWidget, theme: Theme) -> None:
    size = _page(widget)
    with path.open("wb"):
        pass  # the generator does not tell why it could not write
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(), size))
    generator.setTitle("Medusa Chat")
    painter = QPainter(generator)
    painter.fillRect(QRect(QPoint(), size), QColor(theme.surface))
    _paint(painter, widget)


def _page(widget: QWidget) -> QSize:
    return widget.size() + QSize(2 * _MARGIN, 2 * _MARGIN)


def _paint(painter: QPainter, widget: QWidget) -> None:
    widget.render(painter, QPoint(_MARGIN, _MARGIN), QRegion(), QWidget.RenderFlag.DrawChildren)
    painter.end()
