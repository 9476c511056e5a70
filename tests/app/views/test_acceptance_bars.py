"""Bars that say what the metrics say, by who proposed the guess, beside what the heads were measured to reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views.acceptance_bars import AcceptanceBars
from app.views.step_figures import COLUMNS, StepFigures, table
from medusa_core.events import Source, Step
from medusa_core.testing import scripted_reply

LIGHT = load_themes()["light"]


def steps(count: int = 40, **options: int) -> list[Step]:
    return [event for event in scripted_reply(count, **options) if isinstance(event, Step)]


def figures_of(shown: list[Step]) -> StepFigures:
    figures = StepFigures()
    for step in shown:
        figures.add(step)
    return figures


def by_lookup(step: Step, depth: int) -> Step:
    """The same step, but what lies that far ahead was looked up."""
    nodes = tuple(replace(node, source=Source.LOOKUP) if node.depth == depth else node for node in step.nodes)
    return replace(step, nodes=nodes)


@pytest.fixture
def bars(qtbot: QtBot) -> AcceptanceBars:
    bars = AcceptanceBars(LIGHT)
    qtbot.addWidget(bars)
    bars.resize(388, 140)
    return bars


def test_bars_show_the_metrics(bars: AcceptanceBars) -> None:
    figures = figures_of(steps())
    bars.show_figures(figures)
    assert bars.shares == figures.metrics.acceptance_per_head
    assert bars.figure == f"{figures.metrics.tokens_per_step:.2f} tokens per step"
    assert f"+1 {100 * bars.shares[0]:.0f} %" in bars.accessibleDescription()
    assert "at least k guesses" in bars.toolTip()


def test_the_parts_of_a_bar_are_by_who_proposed_the_guess_and_add_up_to_it(bars: AcceptanceBars) -> None:
    figures = figures_of([by_lookup(step, 2) if step.index % 2 else step for step in steps()])
    bars.show_figures(figures)
    assert set(bars.parts[0]) == {Source.HEAD}
    assert set(bars.parts[1]) == {Source.HEAD, Source.LOOKUP}
    for share, parts in zip(bars.shares, bars.parts, strict=True):
        assert sum(parts.values()) == pytest.approx(share)
    assert "lookup" in bars.accessibleDescription()


def test_a_painted_bar_is_as_long_as_its_share(bars: AcceptanceBars) -> None:
    figures = figures_of(steps())
    bars.show_figures(figures)
    image = bars.grab().toImage()
    for row, share in enumerate(bars.shares):
        y = int(bars._title.height() + 4 + row * 22 + 11)
        colours = [image.pixelColor(QPoint(x, y)).name() for x in range(30, 388)]
        length = colours.count(LIGHT.accepted)
        track = length + colours.count(LIGHT.surface_raised)
        assert length / track == pytest.approx(share, abs=0.02)


def test_what_the_heads_were_measured_to_reach_stands_beside(bars: AcceptanceBars) -> None:
    bars.show_figures(figures_of(steps()), (0.5, 0.25))
    assert bars.expected == (0.5, 0.25)
    assert "heads expected 50 %" in bars.accessibleDescription()
    image = bars.grab().toImage()
    y = int(bars._title.height() + 4 + 22 + 11 - 7)  # above the second bar
    ticks = [x for x in range(30, 330) if image.pixelColor(x, y).name() == LIGHT.text]
    assert ticks
    bars.show_figures(figures_of([replace(step, nodes=step.nodes[:1], path=(0,)) for step in steps()]), (0.5,))
    assert bars.expected == ()  # nobody guesses


def test_a_row_that_nothing_reached_takes_no_room(bars: AcceptanceBars) -> None:
    before = bars.sizeHint().height()
    bars.show_figures(figures_of(steps(400, nodes=60, heads=7, seed=3)))
    assert max(row for row, share in enumerate(bars.shares, 1) if share) > 4
    assert bars.sizeHint().height() > before
    only_first = [replace(step, path=step.path[:2], token_ids=step.token_ids[:2]) for step in steps(20, heads=7)]
    bars.show_figures(figures_of(only_first))
    assert len(bars.shares) > 4
    assert bars.sizeHint().height() == before
    bars.clear()
    assert bars.shares == ()


def test_the_table_of_the_steps_has_a_row_for_each() -> None:
    shown = [by_lookup(step, 1) for step in steps(12)]
    rows = table(shown)
    assert rows[0] == list(COLUMNS)
    assert len(rows) == 13
    for step, row in zip(shown, rows[1:], strict=True):
        found = dict(zip(COLUMNS, row, strict=True))
        kept = len(step.path) - 1
        assert (found["step"], found["tokens"], found["guesses_kept"]) == (
            str(step.index + 1),
            str(len(step.token_ids)),
            str(kept),
        )
        assert found["kept_of_lookup"] == str(min(kept, 1))
        assert found["verify_seconds"] == "0.027000"


def test_another_theme(bars: AcceptanceBars) -> None:
    dark = load_themes()["dark"]
    bars.show_figures(figures_of(steps()))
    bars.set_theme(dark)
    image = bars.grab().toImage()
    colours = {image.pixelColor(x, y).name() for x in range(0, 388, 2) for y in range(20, 140, 2)}
    assert dark.accepted in colours
