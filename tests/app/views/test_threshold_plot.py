"""The plot of the threshold: where it bends, what it says in words, and what it paints."""

from __future__ import annotations

import math

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.threshold_plot import ThresholdPlot, knee, threshold


def test_the_threshold_is_the_papers() -> None:
    assert threshold(0.09, 0.3, 0.0) == 0.09
    assert threshold(0.09, 0.3, 3.0) == pytest.approx(0.3 * math.exp(-3.0))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.09, 0.3), (0.01, 0.9)])
def test_it_bends_where_both_terms_agree(epsilon: float, delta: float) -> None:
    bend = knee(epsilon, delta)
    assert bend is not None
    assert delta * math.exp(-bend) == pytest.approx(epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "bend"), [(0.3, 0.1, 0.0), (0.0, 0.3, None), (0.001, 1.0, None)])
def test_it_may_fall_from_the_start_or_never_within_the_plot(epsilon: float, delta: float, bend: float | None) -> None:
    assert knee(epsilon, delta) == bend


@pytest.fixture
def plot(qtbot: QtBot, theme: Theme) -> ThresholdPlot:
    shown = ThresholdPlot(theme)
    qtbot.addWidget(shown)
    shown.resize(360, 180)
    return shown


def painted(plot: ThresholdPlot) -> QImage:
    return plot.grab().toImage()


def test_other_numbers_give_another_picture_and_other_words(plot: ThresholdPlot) -> None:
    plot.show_numbers(0.09, 0.3)
    first, words = painted(plot), plot.accessibleDescription()
    assert "0.09" in words
    assert "1.20 nats" in words
    plot.show_numbers(0.2, 0.3)
    assert painted(plot) != first
    assert plot.accessibleDescription() != words


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.01, 1.0)])
def test_the_extremes_can_be_drawn_and_said(plot: ThresholdPlot, epsilon: float, delta: float) -> None:
    plot.show_numbers(epsilon, delta)
    assert not painted(plot).isNull()
    assert plot.sentence().endswith(".")
    assert threshold(epsilon, delta, 0.0) <= plot.top()


def test_kept_lies_above_the_curve(plot: ThresholdPlot, theme: Theme) -> None:
    plot.show_numbers(0.09, 0.3)
    image = painted(plot)
    colours = [image.pixelColor(300, y).name() for y in range(image.height())]
    assert theme.accepted_tint in colours
    assert colours.index(theme.accepted_tint) < colours.index(theme.accent)
