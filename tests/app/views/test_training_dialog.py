"""The training dialog by itself: what each stage offers, and what the charts draw."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.theme import Theme, load_themes
from app.views.training import Budget, Stage, TrainingDialog
from app.views.training_charts import accuracy_words, spread
from medusa_core.events import HeadFit, TrainingStep


@pytest.fixture
def dialog(theme: Theme, qtbot: QtBot) -> TrainingDialog:
    made = TrainingDialog(theme)
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.mark.parametrize(
    ("stage", "offered"),
    [
        (Stage.UNAVAILABLE, set()),
        (Stage.SETUP, {"probe", "start"}),
        (Stage.PROBING, {"pause"}),
        (Stage.RUNNING, {"pause", "cancel"}),
        (Stage.PAUSED, {"resume", "cancel"}),
        (Stage.DONE, {"again", "delete", "use"}),
    ],
)
def test_a_stage_offers_what_can_be_done(dialog: TrainingDialog, stage: Stage, offered: set[str]) -> None:
    dialog.show_stage(stage, "Tiny", "said")
    assert {name for name, button in dialog.buttons.items() if button.isVisible()} == offered
    assert dialog.setup.isVisible() == (stage is Stage.SETUP)
    assert dialog.title.text() == "Medusa heads for Tiny"
    assert dialog.said.text() == "said"


def test_budgets_tell_what_they_take_once_it_is_known(dialog: TrainingDialog) -> None:
    dialog.show_budgets([Budget(50_000), Budget(400_000)], 400_000)
    assert dialog.budget.currentText() == "400\u202f000 tokens"
    dialog.show_budgets([Budget(50_000, "about 4 min"), Budget(400_000, "about 30 min")], dialog.tokens)
    assert dialog.budget.currentText() == "400\u202f000 tokens  ·  about 30 min"
    assert dialog.tokens == 400_000


def test_steps_are_drawn_and_measurements_named(dialog: TrainingDialog) -> None:
    dialog.show_stage(Stage.RUNNING, "Tiny")
    assert not dialog.charts.isVisible()
    dialog.show_step(TrainingStep(1, 4, 2.5, 0.01, 1.0))
    dialog.show_step(TrainingStep(2, 4, 2.0, 0.01, 2.0, (HeadFit(0.5, 0.7), HeadFit(0.48, 0.6))))
    assert dialog.charts.isVisible()
    assert dialog.loss.points == [(1, 2.5), (2, 2.0)]
    assert dialog.accuracy.shares == [(0.5, 0.48)]
    assert dialog.accuracy.title.figure == accuracy_words((HeadFit(0.5, 0.7), HeadFit(0.48, 0.6))) == "50 %, 48 %"
    dialog.set_theme(load_themes()["dark"])
    dialog.clear_charts()
    assert dialog.loss.points == dialog.accuracy.shares == []
    assert not dialog.charts.isVisible()


def test_labels_keep_their_distance() -> None:
    assert spread([0.5, 0.1, 0.48], 0.1) == pytest.approx([0.58, 0.1, 0.48])
    assert spread([0.3, 0.3, 0.3], 0.1) == pytest.approx([0.3, 0.4, 0.5])
    assert spread([], 0.1) == []
