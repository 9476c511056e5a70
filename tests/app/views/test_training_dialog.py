"""The training dialog by itself: what each stage offers, and what the charts draw."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.theme import Theme, load_themes
from app.views.training import Budget, Stage, TrainingDialog
from app.views.training_charts import accuracy_words, spread
from app.views.training_data import DataRow
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
        (Stage.DONE, {"again", "use"}),
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


ROWS = [DataRow("/a", "Tiny", "5 tokens", "Delete these?"), DataRow("/b", "Other", "9 tokens", "And these?")]


@pytest.mark.parametrize("stage", list(Stage))
def test_data_and_calibration_are_for_the_time_between_trainings(dialog: TrainingDialog, stage: Stage) -> None:
    dialog.show_data("Training data of 2 models", ROWS, "All?")
    dialog.show_calibration("The heads were measured in bf16.")
    dialog.show_stage(stage, "Tiny")
    at_rest = stage in (Stage.UNAVAILABLE, Stage.SETUP, Stage.DONE)
    assert dialog.data.isVisible() == dialog.calibration.isVisible() == at_rest
    dialog.show_data("", [], "")
    dialog.show_calibration("")
    assert not dialog.data.isVisible()
    assert not dialog.calibration.isVisible()


def test_nothing_is_deleted_before_the_answer(dialog: TrainingDialog, qtbot: QtBot) -> None:
    dialog.show_stage(Stage.SETUP, "Tiny")
    dialog.show_data("Training data of 2 models", ROWS, "All?")
    wanted: list[list[str]] = []
    dialog.data.deletion_asked.connect(wanted.append)
    dialog.data.toggle.click()
    first, second = dialog.data.rows
    first.delete.click()
    assert first.question.text.text() == "Delete these?"
    first.question.no.click()
    assert not first.question.isVisible()
    assert wanted == []
    second.delete.click()
    second.question.yes.click()
    assert wanted == [["/b"]]
    assert not dialog.data.list.isEnabled(), "until it is known what became of it"
    dialog.show_data("Training data of 2 models", ROWS, "All?")
    dialog.data.delete_all.click()
    assert dialog.data.question.text.text() == "All?"
    dialog.data.question.yes.click()
    assert wanted[1:] == [["/a", "/b"]]


def test_a_question_about_a_training_goes_with_it(dialog: TrainingDialog, qtbot: QtBot) -> None:
    dialog.show_stage(Stage.RUNNING, "Tiny")
    dialog.question.ask("Delete what it wrote?")
    with qtbot.waitSignal(dialog.cancel_agreed):
        dialog.question.yes.click()
    dialog.question.ask("Delete what it wrote?")
    dialog.show_stage(Stage.DONE, "Tiny")
    assert not dialog.question.isVisible()
