"""Sliders that say what the closed forms say, beside what was measured."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.expectation import Expectation
from app.theme import load_themes
from app.views.expectation_page import NO_REPLY, NOT_CALIBRATED, ExpectationPage
from medusa_core.events import Step
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import Measured
from medusa_core.testing import scripted_reply
from medusa_core.theory import expected_tokens_of_candidates

MEASURED = Measured(rows=(1, 9, 17), pass_seconds=(0.01, 0.012, 0.02), accuracies=((0.5, 0.2), (0.4, 0.1)))
SPEED_UP = "Speed-up over plain decoding"


@pytest.fixture
def page(qtbot: QtBot) -> ExpectationPage:
    page = ExpectationPage(load_themes()["light"])
    qtbot.addWidget(page)
    return page


def button(page: ExpectationPage, text: str) -> QPushButton:
    return next(each for each in page.findChildren(QPushButton) if each.text() == text)


def test_sliders_and_figures_agree_with_the_closed_forms(page: ExpectationPage) -> None:
    page.show_expectation(Expectation((0.5, 0.25), (1, 1)))
    page._rows[0].slider.setValue(60)
    page._rows[0].candidates.setValue(3)
    expected = expected_tokens_of_candidates((0.6, 0.25), (3, 1))
    assert page.expectation == Expectation((0.6, 0.25), (3, 1))
    assert page.figure("Tokens per step", "predicted") == f"{expected:.2f}"
    assert page._rows[0].effective.text() == "94 %"
    assert page.figure(SPEED_UP, "predicted") == "–"  # nobody measured a pass
    page.set_measured(MEASURED, 100.0)
    assert page.figure(SPEED_UP, "predicted") == f"{page.expectation.speed_up(MEASURED):.2f}×"
    assert "6 draft nodes" in page.note


def test_the_presets_say_why_they_cannot_be_had(page: ExpectationPage) -> None:
    assert button(page, "From calibration").toolTip() == NOT_CALIBRATED
    assert button(page, "From this conversation").toolTip() == NO_REPLY
    assert not button(page, "From calibration").isEnabled()


def test_the_calibration_sets_as_many_sliders_as_there_are_heads(page: ExpectationPage) -> None:
    page.set_measured(MEASURED, 100.0)
    button(page, "From calibration").click()
    assert page.expectation.accuracies == (0.5, 0.4)


def test_the_conversation_sets_the_sliders_and_the_measured_figures(page: ExpectationPage) -> None:
    metrics = ReplyMetrics()
    for event in scripted_reply(60):
        if isinstance(event, Step):
            metrics.add(event)
    page.set_measured(MEASURED, 40.0)
    page.set_conversation(metrics)
    button(page, "From this conversation").click()
    predicted = float(page.figure("Tokens per step", "predicted"))
    assert predicted == pytest.approx(metrics.tokens_per_step, abs=0.05)  # sliders are whole percents
    assert page.figure("Tokens per step", "measured") == f"{metrics.tokens_per_step:.2f}"
    assert page.figure(SPEED_UP, "measured") == f"{metrics.tokens_per_second / 40:.2f}×"


def test_every_control_has_a_name(page: ExpectationPage) -> None:
    for row in page._rows:
        assert "head" in row.slider.accessibleName()
        assert "head" in row.candidates.accessibleName()
