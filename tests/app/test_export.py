"""Heads trained in the whole app, written for other programs, brought in again, and used: every reply stays the same.

Tiny models of every family. What another format cannot hold is refused by name, or left out when that is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.views.model_manager import ModelManager
from app.views.model_rows import ThingRow
from app.views.training import Stage
from app.views.transfers import State, TransferRow
from medusa_core.backbone import cost
from medusa_core.tiny import save_tiny_model
from tests.app.test_training import RECIPE, TOKENS
from tests.core.test_families import made

Start = Callable[..., Application]
FAMILIES = ("llama", "llama-tied", "mistral", "qwen2", "qwen3", "smollm3", "gpt2")
MOMENT = 20_000


@pytest.fixture(autouse=True)
def _no_long_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_ROUNDS", 1), ("_LEAST_ROUNDS", 1), ("_BRIEF_SECONDS", 0.0)):
        monkeypatch.setattr(cost, name, value)  # how fast these models are is of no interest


@pytest.fixture
def start(start_real: Start) -> Start:
    def prepare(app: Application) -> None:
        app.training.recipe, app.training.budgets = RECIPE, (TOKENS,)

    def start(model: Path) -> Application:
        chosen = {"model": str(model), "heads": "none", "drafter": "medusa", "acceptance": "greedy"}
        return start_real({**chosen, "max_new_tokens": 12}, prepare)

    return start


def train(app: Application, qtbot: QtBot, kind: int = 1) -> None:
    """Heads in use; kind 1: the paper's own."""
    app.window.training_action.trigger()
    training, dialog = app.training, app.training.dialog
    assert dialog is not None
    dialog.kinds.setCurrentIndex(kind)
    dialog.buttons["start"].click()
    qtbot.waitUntil(lambda: training.stage is Stage.DONE, timeout=2 * MOMENT)
    dialog.buttons["use"].click()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=MOMENT)


def reply(app: Application, qtbot: QtBot) -> str:
    """The answer of a new conversation."""
    app.window.new_chat_requested.emit()
    app.controller.send("Hi")
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=MOMENT)
    (turn,) = app.controller.turns
    assert turn.figures.tokens
    return turn.answer


def opened(app: Application, qtbot: QtBot) -> ModelManager:
    app.window.models_action.trigger()
    assert app.models.manager is not None
    qtbot.waitUntil(lambda: not app.models.library.running and bool(app.models.shelf.things), timeout=MOMENT)
    return app.models.manager


def heads_row(manager: ModelManager, name: str) -> ThingRow:
    return next(row for row in manager.things.values() if row.name.full == name)


def export(app: Application, row: ThingRow, to: str, qtbot: QtBot) -> TransferRow:
    """Choose a format in the menu of the heads, and wait."""
    before = set(app.models.transfers)
    row.export_actions[to].trigger()
    qtbot.waitUntil(lambda: not app.models.library.running, timeout=MOMENT)
    assert app.models.manager is not None
    (key,) = set(app.models.transfers) - before
    return app.models.manager.transfers.rows[key]


def ended(app: Application, row: TransferRow, qtbot: QtBot) -> TransferRow:
    qtbot.waitUntil(lambda: not app.models.library.running, timeout=MOMENT)
    assert row.transfer is not None
    assert row.transfer.state is State.DONE, row.transfer.text
    return row


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a person chooses to write into."""
    folder = tmp_path / "для других ☃"
    folder.mkdir()
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(folder))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_trained_written_brought_in_and_used(
    family: str, start: Start, target: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    app = start(made(tmp_path / "Tiny", family))
    plain = reply(app, qtbot)
    train(app, qtbot)
    assert app.controller.model is not None
    assert app.controller.model.info.num_heads == 2
    assert reply(app, qtbot) == plain
    manager = opened(app, qtbot)
    row = heads_row(manager, "Tiny-paper")
    assert not row.export_actions["ours"].isVisible(), "they are in that format"
    for to in ("vllm", "tgi"):
        refused = export(app, row, to, qtbot)
        assert refused.transfer is not None
        assert refused.transfer.state is State.REFUSED
        assert "a correction by the token before" in refused.text.text()
        refused.anyway_button.click()
        said = ended(app, refused, qtbot).text.text()
        assert f"Tiny-paper-{to}, without the correction by the token before" in said
        manager.import_asked.emit([target / f"Tiny-paper-{to}"])
        qtbot.waitUntil(lambda: app.models.shelf.has(f"Tiny-paper-{to}"), timeout=MOMENT)  # noqa: B023
        heads_row(manager, f"Tiny-paper-{to}").use_button.click()
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=MOMENT)
        assert app.controller.settings["heads"] == f"Tiny-paper-{to}"
        assert app.controller.model.info.num_heads == 2
        assert reply(app, qtbot) == plain
    back = export(app, heads_row(opened(app, qtbot), "Tiny-paper-vllm"), "ours", qtbot)
    assert "Tiny-paper-vllm-ours." in ended(app, back, qtbot).text.text()
    app.controller.change_setting("heads", str(target / "Tiny-paper-vllm-ours"))
    app.controller.load()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=MOMENT)
    assert app.controller.model.info.heads_problem == ""
    assert reply(app, qtbot) == plain


def test_heads_that_see_the_root_are_refused_by_name(start: Start, target: Path, tmp_path: Path, qtbot: QtBot) -> None:
    app = start(save_tiny_model(tmp_path / "Tiny", seed=3))
    train(app, qtbot, kind=0)
    refused = export(app, heads_row(opened(app, qtbot), "Tiny"), "vllm", qtbot)
    assert refused.transfer is not None
    assert refused.transfer.state is State.FAILED
    assert "heads of kind rooted, which see the root" in refused.text.text()
    assert "--" not in refused.text.text(), "no command line's remedy in a window"
    assert not list(target.iterdir())


def test_heads_of_one_kind_do_not_take_the_others_place(
    start: Start, tmp_path: Path, profile: Path, qtbot: QtBot
) -> None:
    app = start(save_tiny_model(tmp_path / "Tiny", seed=3))
    train(app, qtbot, kind=0)
    assert app.training.dialog is not None
    app.training.dialog.buttons["again"].click()
    train(app, qtbot, kind=1)
    kinds = {}
    for path in (profile / "heads").glob("*/config.json"):
        config = json.loads(path.read_text(encoding="utf-8"))
        kinds[path.parent.name] = (config["kind"], config["num_layers"])
    assert kinds == {"Tiny": ("rooted", 1), "Tiny-paper": ("medusa", 1)}


def test_without_their_model_they_are_not_written(start: Start, target: Path, tmp_path: Path, qtbot: QtBot) -> None:
    model = save_tiny_model(tmp_path / "Tiny", seed=3)
    app = start(model)
    train(app, qtbot)
    app.controller.change_setting("model", str(save_tiny_model(tmp_path / "Other", seed=4)))
    app.controller.change_setting("heads", "none")
    app.controller.load()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=MOMENT)
    refused = export(app, heads_row(opened(app, qtbot), "Tiny-paper"), "vllm", qtbot)
    assert "only beside Tiny. Get it first." in refused.text.text()
    assert not list(target.iterdir())


def test_a_folder_that_cannot_be_written_to_is_named(
    start: Start, target: Path, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start(save_tiny_model(tmp_path / "Tiny", seed=3))
    train(app, qtbot)
    row = heads_row(opened(app, qtbot), "Tiny-paper")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path / "file"))
    refused = export(app, row, "tgi", qtbot)
    refused.anyway_button.click()
    qtbot.waitUntil(lambda: not app.models.library.running, timeout=MOMENT)
    assert refused.transfer is not None
    assert refused.transfer.state is State.FAILED
    assert str(tmp_path / "file") in refused.text.text()
