"""The histogram and the stack of times draw the figures they are given."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views.step_charts import MOST_COLUMNS, LengthHistogram, TimeChart, spaced

LIGHT, DARK = load_themes()["light"], load_themes()["dark"]


@pytest.fixture
def lengths(qtbot: QtBot) -> LengthHistogram:
    chart = LengthHistogram(LIGHT)
    qtbot.addWidget(chart)
    return chart


@pytest.fixture
def times(qtbot: QtBot) -> TimeChart:
    chart = TimeChart(LIGHT)
    qtbot.addWidget(chart)
    return chart


def test_every_length_has_its_bar_and_its_label(lengths: LengthHistogram) -> None:
    lengths.show_shares((0.5, 0.3, 0.2))
    assert list(lengths._bars.opts["height"][:3]) == [0.5, 0.3, 0.2]
    assert [label.toPlainText() for label in lengths._labels if label.isVisible()] == ["50 %", "30 %", "20 %"]
    assert "1: 30 %" in lengths.accessibleDescription()
    low, high = lengths._plot.viewRange()[1]
    assert low <= 0
    assert high > 0.5
    lengths.show_shares(())
    assert not [label for label in lengths._labels if label.isVisible()]


def test_times_stand_on_one_another_in_milliseconds(times: TimeChart) -> None:
    times.show_times([(0.002, 0.02, 0.001), (0.004, 0.03, 0.001)])
    np.testing.assert_allclose(times.columns, [[2, 20, 1], [4, 30, 1]])
    verify = times._bars["verify"].opts
    np.testing.assert_allclose(verify["y0"], [2, 4])
    assert "draft 3.0" in times.accessibleDescription()
    assert "verify 25.0" in times.accessibleDescription()
    assert times._title.figure == "29.0 ms"


def test_many_steps_share_columns_as_means(times: TimeChart) -> None:
    times.show_times([(0.001, 0.01 + 0.001 * (number % 2), 0.0) for number in range(1001)])
    assert len(times.columns) <= MOST_COLUMNS
    np.testing.assert_allclose(times.columns[:, 1], 10.5, atol=0.1)


def test_one_step_that_was_held_up_does_not_flatten_the_others(times: TimeChart) -> None:
    times.show_times([(0.001, 0.01, 0.0)] * 60 + [(0.001, 2.0, 0.0)])
    assert times._plot.viewRange()[1][1] < 50


def test_a_new_reply_is_empty(times: TimeChart) -> None:
    times.show_times([(0.001, 0.02, 0.001)] * 30)
    times.clear()
    assert len(times.columns) == 0
    assert times._title.figure == ""


def test_both_take_another_theme(lengths: LengthHistogram, times: TimeChart) -> None:
    lengths.show_shares((0.5, 0.5))
    times.show_times([(0.001, 0.02, 0.001)] * 3)
    for chart in (lengths, times):
        chart.set_theme(DARK)
        chart.resize(388, 160)
        image = chart.grab().toImage()
        colours = {image.pixelColor(x, y).name() for x in range(0, 388, 2) for y in range(40, 150, 2)}
        assert DARK.surface in colours


@pytest.mark.parametrize("columns", [5, 12, 24, 65])
def test_labels_keep_apart_and_within_the_chart_however_many_there_are(lengths: LengthHistogram, columns: int) -> None:
    lengths.resize(388, 120)
    shares = [0.41 / (1 + number) for number in range(columns)]
    lengths.show_shares(shares)
    lengths.grab()
    drawn = sorted(
        (label.mapRectToScene(label.boundingRect()) for label in lengths._labels if label.isVisible()),
        key=lambda rect: rect.left(),
    )
    assert len(drawn) >= 4
    assert all(left.right() <= right.left() + 4 for left, right in pairwise(drawn))  # a label has margins of its own
    assert drawn[0].left() >= -4
    assert lengths._labels[0].toPlainText() == "41 %"
    lengths.resize(900, 120)
    lengths.grab()
    assert len([label for label in lengths._labels if label.isVisible()]) >= len(drawn)


def test_the_largest_shares_are_told_and_none_that_reads_nothing() -> None:
    assert spaced((0.1, 0.5, 0.3, 0.004), 1) == {0, 1, 2}
    assert spaced((0.1, 0.5, 0.3, 0.05), 2) == {1, 3}
    assert spaced((), 3) == set()
