"""Heads trained in the whole app, on a tiny model: tried, paused, gone on with after a restart, used, cancelled."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.own_questions import in_pieces
from app.training_controller import TrainingController
from app.training_jobs import Recipe
from app.views.training import Stage, TrainingDialog
from medusa_core.backbone import cost
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.head_statistics import HeadStatistics, PathStatistics
from medusa_core.tiny import save_tiny_model
from medusa_core.train import distill, loop
from medusa_core.train import estimate as probe
from medusa_core.train.room import exclusive
from medusa_core.train.work import unfinished

Start = Callable[..., Application]
TOKENS = 700
RECIPE = Recipe(
    DistillConfig(
        tokens=TOKENS, places=4, self_written=0.0, multi_turn=0.0, max_prompt_tokens=120, max_reply_tokens=24
    ),
    TrainConfig(num_heads=2, num_layers=1, draft_vocab_size=0, epochs=2, batch_positions=64, tree_nodes=6, max_rank=3),
)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("made") / "Tiny", seed=3)


@pytest.fixture(autouse=True)
def _quick_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many reports, so that a pause falls into the middle of things."""
    monkeypatch.setattr(distill, "_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(loop, "_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(probe, "_WRITING", 0.01)


@pytest.fixture
def start(made: Path, start_real: Start) -> Start:
    """Started again, it goes on with the settings it had."""
    settings: list[dict[str, str] | None] = [{"model": str(made), "heads": "none"}, None]

    def prepare(app: Application) -> None:
        app.training.recipe, app.training.budgets = RECIPE, (TOKENS, 2 * TOKENS)

    def start() -> Application:
        return start_real(settings.pop(0) if len(settings) > 1 else None, prepare)

    return start


def opened(app: Application) -> tuple[TrainingController, TrainingDialog]:
    app.window.training_action.trigger()
    assert app.training.dialog is not None
    return app.training, app.training.dialog


def test_from_the_choice_to_heads_in_use(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    training, dialog = opened(app)
    assert training.stage is Stage.SETUP
    dialog.buttons["probe"].click()
    assert training.stage is Stage.PROBING
    qtbot.waitUntil(lambda: training.stage is Stage.SETUP, timeout=20_000)
    assert "on the disk" in dialog.budget.currentText()
    assert dialog.tokens == TOKENS
    dialog.buttons["start"].click()
    assert training.stage is Stage.RUNNING
    assert "pause the training" in app.views.composer.reason.text()
    qtbot.waitUntil(lambda: training.stage is Stage.DONE, timeout=30_000)
    assert len(dialog.loss.points) > 3
    assert len(dialog.accuracy.shares) == RECIPE.train.epochs
    assert "First guesses that are right" in dialog.said.text()
    assert not list((profile / "training").glob("*/session.json"))
    dialog.buttons["use"].click()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert app.controller.model is not None
    assert app.controller.model.info.num_heads == 2
    assert app.controller.settings["heads"] == str(profile / "heads" / "Tiny")
    app.controller.send("Hi")
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert app.controller.turns[0].answer
    assert training.stage is Stage.DONE  # and its data can still be deleted
    app.models.open()
    qtbot.waitUntil(lambda: not app.models.library.running and bool(app.models.shelf.things), timeout=20_000)
    (thing,) = app.models.shelf.things
    assert thing.trained_here
    assert thing.base == "Tiny"
    assert thing.entry.last_used is not None


def pause_while_learning(app: Application, qtbot: QtBot) -> None:
    training, dialog = opened(app)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: bool(dialog.loss.points), timeout=30_000)
    dialog.buttons["pause"].click()
    qtbot.waitUntil(lambda: training.stage is not Stage.RUNNING, timeout=20_000)


def test_paused_one_can_chat_and_it_goes_on_after_a_restart(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    pause_while_learning(app, qtbot)
    training, dialog = opened(app)
    assert training.stage is Stage.PAUSED
    assert f"{TOKENS} tokens" in dialog.said.text()
    seen = int(dialog.loss.points[-1][0])
    app.controller.send("Hi")
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert training.stage is Stage.PAUSED
    app.window.close()
    again = start()
    training, dialog = opened(again)
    assert training.stage is Stage.PAUSED
    dialog.buttons["resume"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.DONE, timeout=30_000)
    assert dialog.loss.points[0][0] > seen
    assert (profile / "heads" / "Tiny" / "config.json").is_file()


def test_escape_pauses_too(start: Start, qtbot: QtBot) -> None:
    app = start()
    training, dialog = opened(app)
    dialog.buttons["start"].click()
    app.window.stop_requested.emit()
    qtbot.waitUntil(lambda: training.stage is Stage.PAUSED, timeout=20_000)


def test_cancelled_nothing_is_left(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    training, dialog = opened(app)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: bool(list((profile / "training").glob("*/session.json"))), timeout=20_000)
    dialog.buttons["cancel"].click()
    qtbot.waitUntil(dialog.question.isVisible, timeout=20_000)
    assert "Delete what this training wrote (" in dialog.question.text.text()
    dialog.question.no.click()
    assert training.stage is not Stage.SETUP
    dialog.buttons["cancel"].click()
    qtbot.waitUntil(dialog.question.isVisible, timeout=20_000)
    dialog.question.yes.click()
    qtbot.waitUntil(lambda: training.stage is Stage.SETUP, timeout=20_000)
    assert not list((profile / "training").glob("*"))
    assert not (profile / "heads" / "Tiny").exists()
    assert "deleted" in dialog.said.text()


def test_own_questions_are_learned_from_only_when_asked_to(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    for question in ("What is a ☃?", "And in summer?"):
        app.controller.send(question)
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    first, second = (prompt for piece in in_pieces(app.store) for prompt in piece)
    assert [message["content"] for message in first.messages] == ["What is a ☃?"]
    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    training, dialog = opened(app)
    assert not dialog.own.isChecked()
    dialog.own.setChecked(True)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: bool(list((profile / "training").glob("*/session.json"))), timeout=20_000)
    dialog.buttons["pause"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.PAUSED, timeout=20_000)
    (prompts,) = (profile / "training").glob("*/prompts.jsonl")
    assert len(prompts.read_text(encoding="utf-8").splitlines()) == 2
    assert "2 of your own questions" in dialog.said.text()


def test_what_went_wrong_is_said_and_it_can_be_tried_again(
    start: Start, profile: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medusa_core.errors import DiskFull
    from medusa_core.train import medusa1

    def full(*_: object, **__: object) -> object:
        raise DiskFull("The disk is full.")

    app = start()
    training, dialog = opened(app)
    monkeypatch.setattr(medusa1, "distill", full)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.PAUSED, timeout=20_000)
    assert dialog.problem.text() == "The disk is full."
    assert dialog.buttons["resume"].isVisible()


def train_once(app: Application, qtbot: QtBot) -> None:
    training, dialog = opened(app)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.DONE, timeout=30_000)


def test_cancelled_the_replies_of_a_finished_training_stay(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    train_once(app, qtbot)
    (work,) = (profile / "training").iterdir()
    before = sorted(path.name for path in (work / "replies").iterdir())
    training, dialog = opened(app)
    dialog.buttons["again"].click()
    dialog.budget.setCurrentIndex(1)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: (work / "session.json").exists() and bool(dialog.loss.points), timeout=20_000)
    dialog.buttons["pause"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.PAUSED, timeout=20_000)
    assert len(list((work / "replies").iterdir())) > len(before)
    dialog.buttons["cancel"].click()
    qtbot.waitUntil(dialog.question.isVisible, timeout=20_000)
    assert "Replies that others wrote, or learn from, stay." in dialog.question.text.text()
    dialog.question.yes.click()
    qtbot.waitUntil(lambda: training.stage is Stage.SETUP, timeout=20_000)
    assert sorted(path.name for path in (work / "replies").iterdir()) == before
    assert not list(work.glob("run-*"))
    assert "stayed" in dialog.said.text()


def test_what_another_training_uses_is_not_cancelled(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    pause_while_learning(app, qtbot)
    training, dialog = opened(app)
    (work,) = (profile / "training").iterdir()
    with exclusive(work):
        dialog.buttons["cancel"].click()
        qtbot.waitUntil(dialog.question.isVisible, timeout=20_000)
        dialog.question.yes.click()
        qtbot.waitUntil(lambda: bool(dialog.problem.text()), timeout=20_000)
    assert training.stage is Stage.PAUSED
    assert "Another training is using" in dialog.problem.text()
    assert list((work / "replies").iterdir())
    assert unfinished(profile, app.controller.model.backbone.spec) is not None  # type: ignore[union-attr]


def test_stopped_while_it_is_measured_it_goes_on_from_there(
    start: Start, profile: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heads are learned: they must not be learned again, nor must the window wait for the end."""
    app = start()
    training, dialog = opened(app)
    monkeypatch.setattr(cost, "_ROUNDS_SECONDS", 1e9)
    monkeypatch.setattr(cost, "_ROUNDS", 10**9)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: "pass" in dialog.said.text().lower(), timeout=30_000)
    dialog.buttons["pause"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.PAUSED, timeout=20_000)
    assert not (profile / "heads" / "Tiny").exists()
    session = unfinished(profile, app.controller.model.backbone.spec)  # type: ignore[union-attr]
    assert session is not None
    assert session.trained
    monkeypatch.setattr(cost, "_ROUNDS", 1)
    points = len(dialog.loss.points)
    dialog.buttons["resume"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.DONE, timeout=30_000)
    assert len(dialog.loss.points) == points
    assert (profile / "heads" / "Tiny" / "config.json").is_file()


def test_a_second_training_says_what_became_of_the_first_ones_heads(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    train_once(app, qtbot)
    folder = profile / "heads" / "Tiny"
    made = HeadStatistics.load(folder / "statistics.json")
    best = PathStatistics(10, (10, 10), ((10, 0, 0), (10, 0, 0)), (((0,), 10), ((0, 0), 10)))
    replace(made, greedy=best, sampled=best).save(folder / "statistics.json")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["training"]["expected_tokens_per_step"] = {}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    training, dialog = opened(app)
    dialog.buttons["again"].click()
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.DONE, timeout=30_000)
    assert "They guess worse than the heads trained before" in dialog.said.text()
    assert sorted(path.name for path in (profile / "heads").iterdir()) == ["Tiny", "Tiny-2"]
    dialog.buttons["use"].click()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert app.controller.settings["heads"] == str(profile / "heads" / "Tiny-2")


def test_training_data_can_be_deleted_after_a_restart(start: Start, profile: Path, qtbot: QtBot) -> None:
    app = start()
    train_once(app, qtbot)
    app.window.close()
    other = profile / "training" / "Other-0123456789-11111111"
    (other / "replies").mkdir(parents=True)
    again = start()
    training, dialog = opened(again)
    assert training.stage is Stage.SETUP
    qtbot.waitUntil(dialog.data.isVisible, timeout=20_000)
    assert dialog.data.line.text().startswith("Training data of 2 models on this computer: ")
    assert not dialog.data.list.isVisible()
    dialog.data.toggle.click()
    names = {row.row.name: row for row in dialog.data.rows}
    assert set(names) == {"Tiny", "Other"}
    assert "tokens of replies" in names["Tiny"].row.facts
    names["Other"].delete.click()
    assert other.exists()
    assert names["Other"].question.isVisible()
    names["Other"].question.yes.click()
    qtbot.waitUntil(lambda: len(dialog.data.rows) == 1, timeout=20_000)
    assert not other.exists()
    assert not dialog.data.delete_all.isVisible()
    (row,) = dialog.data.rows
    (work,) = (profile / "training").iterdir()
    with exclusive(work):
        row.delete.click()
        row.question.yes.click()
        qtbot.waitUntil(dialog.data.problem.isVisible, timeout=20_000)
    assert "Another training is using" in dialog.data.problem.text()
    assert work.exists()
    (other / "replies").mkdir(parents=True)
    training.data.look()
    qtbot.waitUntil(dialog.data.delete_all.isVisible, timeout=20_000)
    dialog.data.delete_all.click()
    dialog.data.question.yes.click()
    qtbot.waitUntil(lambda: not dialog.data.rows, timeout=20_000)
    assert not list((profile / "training").iterdir())
    assert not dialog.data.isVisible()


def test_a_model_that_is_gone_is_not_held(start: Start, qtbot: QtBot) -> None:
    """Its memory is needed for the next one."""
    app = start()
    opened(app)
    before = weakref.ref(app.controller.model)
    app.controller.load()
    gc.collect()
    held = before()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert held is None


def test_a_recording_has_nothing_to_train(app: Application) -> None:
    _, dialog = opened(app)
    assert dialog.stage is Stage.UNAVAILABLE
    assert "recording" in dialog.said.text()
    assert not dialog.buttons["start"].isVisible()
    assert Qt.WindowModality.NonModal is dialog.windowModality()
