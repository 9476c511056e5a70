"""The app's trial of itself: passes with a picture, and fails with a message and a status of 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.application import Application
from app.smoke_test import QUESTION, SmokeTest
from medusa_core.errors import ModelNotFound
from medusa_core.testing import ReplayChat

Start = Callable[..., Application]


def run(qtbot: QtBot, start_app: Start, *, screenshot: Path | None = None, limit: int = 20_000) -> SmokeTest:
    app = start_app(ready=False)
    test = SmokeTest(app.controller, app.views, screenshot, limit)
    qtbot.waitUntil(lambda: not app.window.isVisible(), timeout=20_000)
    return test


def test_it_asks_and_takes_a_picture(qtbot: QtBot, start_app: Start, chat: ReplayChat, tmp_path: Path) -> None:
    test = run(qtbot, start_app, screenshot=tmp_path / "shot.png")
    assert (test.status, test.message) == (0, "")
    assert chat.calls[0][0] == [{"role": "user", "content": QUESTION}]
    assert QImage(str(tmp_path / "shot.png")).width() >= 900


def test_an_error_ends_it_with_its_message(qtbot: QtBot, start_app: Start, chat: ReplayChat) -> None:
    chat.error, chat.error_after = ModelNotFound("no model in /nowhere; run setup"), 3
    test = run(qtbot, start_app)
    assert test.status == 1
    assert "no model in /nowhere" in test.message


def test_a_picture_that_cannot_be_written_fails_it(qtbot: QtBot, start_app: Start, tmp_path: Path) -> None:
    test = run(qtbot, start_app, screenshot=tmp_path / "no such folder" / "shot.png")
    assert test.status == 1
    assert "could not be written" in test.message


def test_it_gives_up_in_time(qtbot: QtBot, start_app: Start, chat: ReplayChat) -> None:
    chat.seconds_per_step = 0.2
    test = run(qtbot, start_app, limit=900)
    assert test.status == 1
    assert "within 0.9 s" in test.message
