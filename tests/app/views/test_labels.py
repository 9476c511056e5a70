"""Figures change without the window being laid out anew, and are never cut."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.views.labels import Figure, Still


class Requests(QObject):
    """Counts how often a widget is to be laid out."""

    def __init__(self, watched: QWidget) -> None:
        super().__init__(watched)
        self.count = 0
        watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() is QEvent.Type.LayoutRequest
        return super().eventFilter(watched, event)


def shown(qtbot: QtBot, inner: QWidget) -> tuple[QWidget, Requests]:
    window = QWidget()
    qtbot.addWidget(window)
    row = QHBoxLayout(window)
    row.addWidget(inner)
    row.addStretch()
    window.resize(400, 60)
    window.show()
    qtbot.wait(10)
    return window, Requests(window)


def test_a_figure_lays_nothing_out_until_it_needs_more_room(qtbot: QtBot) -> None:
    figure = Figure()
    figure.setText("step 88 of 88")
    _, requests = shown(qtbot, figure)
    for number in range(10, 60):
        figure.setText(f"step {number} of {number}")
        qtbot.wait(1)
    assert requests.count <= 2  # a pair of wider digits
    figure.setText("step 1 000 of 1 000")
    qtbot.wait(1)
    assert requests.count >= 1
    assert figure.width() >= figure.sizeHint().width()


@pytest.mark.parametrize("pixels", [8, 22])
def test_a_figure_in_another_font_is_as_large_as_its_text(qtbot: QtBot, pixels: int) -> None:
    figure = Figure()
    figure.setText("307.0 tokens/s")
    _window, _ = shown(qtbot, figure)
    font = figure.font()
    font.setPixelSize(pixels)
    figure.setFont(font)
    qtbot.wait(10)
    assert figure.width() == figure.sizeHint().width()
    figure.setText("308.0 tokens/s")
    qtbot.wait(10)
    assert figure.size() == figure.sizeHint()
    figure.setText("")
    assert figure.width() == figure.sizeHint().width()


def test_what_changes_inside_something_still_moves_nothing_outside(qtbot: QtBot) -> None:
    label = QLabel("one line")
    label.setWordWrap(True)
    still = Still(label)
    still.setFixedHeight(40)
    still.setMinimumWidth(200)
    _, requests = shown(qtbot, still)
    assert label.size() == still.size()
    label.setText("many lines " * 20)
    qtbot.wait(10)
    assert requests.count == 0
    assert label.size() == still.size()
