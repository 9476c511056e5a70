"""The chart of speed says what the metrics say, beside plain decoding, on axes that only double."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views.charts import FEWEST_STEPS, WINDOW_STEPS, SpeedChart, doubled
from medusa_core.events import Step
from medusa_core.metrics import ReplyMetrics
from medusa_core.testing import scripted_reply

LIGHT = load_themes()["light"]


def steps(count: int, seed: int = 0, seconds: float = 0.03) -> list[Step]:
    found = [event for event in scripted_reply(count, seed=seed) if isinstance(event, Step)]
    return [replace(step, seconds=seconds) for step in found]


def metrics_of(shown: list[Step]) -> ReplyMetrics:
    metrics = ReplyMetrics()
    for step in shown:
        metrics.add(step)
    return metrics


@pytest.fixture
def chart(qtbot: QtBot) -> SpeedChart:
    chart = SpeedChart(LIGHT)
    qtbot.addWidget(chart)
    return chart


def test_speed_points_are_means_over_the_last_steps(chart: SpeedChart) -> None:
    shown = steps(40)
    for start in range(0, 40, 7):
        chart.add(shown[start : start + 7])
    seconds, speeds = chart.points
    tokens = [len(step.token_ids) for step in shown]
    expected = [
        sum(tokens[max(0, end - WINDOW_STEPS) : end]) / (0.03 * min(end, WINDOW_STEPS))
        for end in range(FEWEST_STEPS, 41)
    ]
    np.testing.assert_allclose(speeds, expected)
    np.testing.assert_allclose(seconds, 0.03 * np.arange(FEWEST_STEPS, 41))


def test_the_speed_figure_is_the_metrics_figure(chart: SpeedChart) -> None:
    shown = steps(33)
    chart.add(shown)
    assert chart.figure == f"{metrics_of(shown).tokens_per_second:.1f} tokens/s"


def test_more_steps_than_the_first_buffer_holds(chart: SpeedChart) -> None:
    shown = steps(600)
    chart.add(shown)
    seconds, _ = chart.points
    assert len(seconds) == 600 - FEWEST_STEPS + 1
    assert seconds[-1] == pytest.approx(18.0)


def test_the_axis_grows_only_by_doubling_and_never_back(chart: SpeedChart) -> None:
    fast = steps(60, seconds=0.004)
    slow = [replace(step, index=60 + step.index, seconds=0.2) for step in steps(30)]
    tops = [chart.top]
    for step in fast + slow:
        chart.add([step])
        tops.append(chart.top)
    assert all(np.log2(after / before).is_integer() for before, after in pairwise(tops))
    assert tops == sorted(tops)
    assert tops[-1] > tops[0]
    assert tops[-1] >= chart.points[1].max()


def test_a_new_reply_starts_with_the_first_axis(chart: SpeedChart) -> None:
    first = chart.top
    chart.add(steps(60, seconds=0.004))
    chart.clear()
    assert chart.top == first
    assert chart.figure == ""
    assert len(chart.points[0]) == 0


def test_the_view_range_holds_zero_and_the_top(chart: SpeedChart) -> None:
    chart.resize(388, 160)
    chart.add(steps(40))
    low, high = chart._plot.viewRange()[1]
    assert low <= 0.0
    assert high >= chart.top


def test_steps_without_any_time_do_not_divide_by_zero(chart: SpeedChart) -> None:
    chart.add(steps(6, seconds=0.0))
    assert set(chart.points[1]) == {0.0}


def test_the_held_step_is_marked_where_it_ended(chart: SpeedChart) -> None:
    chart.add(steps(20))
    chart.mark(9)
    assert chart._marker.isVisible()
    assert chart._marker.value() == pytest.approx(0.3)
    chart.mark(None)
    assert not chart._marker.isVisible()


@pytest.mark.parametrize(("needed", "top"), [(0.0, 20.0), (20.0, 20.0), (20.1, 40.0), (900.0, 1280.0)])
def test_doubled(needed: float, top: float) -> None:
    assert doubled(20.0, needed) == top


def test_plain_decoding_is_a_dashed_line_within_the_axis(chart: SpeedChart) -> None:
    assert not chart._plain.isVisible()
    chart.set_plain(95.0)
    assert chart._plain.value() == 95.0
    assert chart._plain.pen.style() is Qt.PenStyle.DashLine
    assert chart.top == 160.0
    chart.clear()
    assert chart.top == 160.0  # the line stays
    assert "95.0 tokens/s, at most, without drafting" in chart.toolTip()
    assert chart._plain.label.format == "plain ≤ 95"
    chart.set_plain(81.0, of_a_reply=True)
    assert "81.0 tokens/s, as a reply without drafting was written" in chart.toolTip()
    assert chart._plain.label.format == "plain 81"
    chart.set_plain(0.0)
    assert not chart._plain.isVisible()
    assert chart.plain == 0.0


@pytest.mark.parametrize("speed", [30.0, 75.0, 85.0, 155.0])
def test_the_dashed_lines_label_is_whole_wherever_the_line_is(chart: SpeedChart, speed: float, qtbot: QtBot) -> None:
    chart.resize(388, 110)
    chart.show()
    qtbot.waitExposed(chart)
    chart.set_plain(155.0)  # the axis reaches to 160
    chart.set_plain(speed)
    chart.grab()
    label = chart._plain.label
    drawn = label.mapRectToScene(label.boundingRect())
    assert chart._plot.sceneRect().contains(drawn)


def test_it_takes_another_theme(chart: SpeedChart) -> None:
    dark = load_themes()["dark"]
    chart.add(steps(20))
    chart.set_theme(dark)
    chart.resize(388, 160)
    image = chart.grab().toImage()
    colours = {image.pixelColor(x, y).name() for x in range(388) for y in range(30, 160)}
    assert dark.surface in colours
    assert dark.accent in colours
