"""The app's trial of itself: passes with a picture, and fails with a message and a status of 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.application import Application
from app.smoke_test import QUESTION, SECOND_QUESTION, Asking, Finding, Trial
from medusa_core.config import TypicalAcceptance
from medusa_core.errors import ModelNotFound
from medusa_core.events import Step
from medusa_core.testing import ReplayChat

Start = Callable[..., Application]


def run(
    qtbot: QtBot, start_app: Start, make: Callable[[Application], Trial] | None = None, *, limit: int = 20_000
) -> Trial:
    app = start_app(ready=False)
    trial = make(app) if make else Asking(app.controller, app.views, None, limit)
    qtbot.waitUntil(lambda: not app.window.isVisible(), timeout=20_000)
    return trial


def test_it_asks_steers_and_finds_it_all_again(
    qtbot: QtBot, start_app: Start, chat: ReplayChat, tmp_path: Path
) -> None:
    shot = tmp_path / "shot.png"
    trial = run(qtbot, start_app, lambda app: Asking(app.controller, app.views, shot))
    assert (trial.status, trial.message) == (0, "")
    assert [call[0][-1]["content"] for call in chat.calls] == [QUESTION] * 3 + [SECOND_QUESTION]
    steered = chat.written[2]
    recorded = [token for event in chat.events if isinstance(event, Step) for token in event.token_ids]
    assert steered != tuple(recorded[: len(steered)])
    assert isinstance(chat.calls[3][1].acceptance, TypicalAcceptance)
    assert QImage(str(shot)).width() >= 900
    trial = run(qtbot, start_app, lambda app: Finding(app.controller, app.views))
    assert (trial.status, trial.message) == (0, "")


def test_a_chat_that_is_not_there_fails_it(qtbot: QtBot, start_app: Start) -> None:
    trial = run(qtbot, start_app, lambda app: Finding(app.controller, app.views))
    assert trial.status == 1
    assert "nothing was found" in trial.message


def test_an_error_ends_it_with_its_message(qtbot: QtBot, start_app: Start, chat: ReplayChat) -> None:
    chat.error, chat.error_after = ModelNotFound("no model in /nowhere; run setup"), 3
    trial = run(qtbot, start_app)
    assert trial.status == 1
    assert "no model in /nowhere" in trial.message


def test_a_picture_that_cannot_be_written_fails_it(qtbot: QtBot, start_app: Start, tmp_path: Path) -> None:
    shot = tmp_path / "no such folder" / "shot.png"
    trial = run(qtbot, start_app, lambda app: Asking(app.controller, app.views, shot))
    assert trial.status == 1
    assert "could not be written" in trial.message


def test_it_gives_up_in_time(qtbot: QtBot, start_app: Start, chat: ReplayChat) -> None:
    chat.seconds_per_step = 0.2
    trial = run(qtbot, start_app, limit=900)
    assert trial.status == 1
    assert "within 0.9 s" in trial.message
