"""The frame: three columns, of which the conversations give way first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application
from app.views.about import KEYS

Start = Callable[..., Application]


def test_a_narrow_window_folds_the_conversations_and_never_the_panel(app: Application, qtbot: QtBot) -> None:
    assert app.views.sidebar.isVisible()
    app.window.resize(1000, 700)
    qtbot.waitUntil(lambda: not app.views.sidebar.isVisible())
    assert app.views.panel.isVisible()
    assert not app.window.sidebar_action.isChecked()
    app.window.resize(1300, 700)
    qtbot.waitUntil(app.views.sidebar.isVisible)
    app.window.resize(1000, 700)
    qtbot.waitUntil(lambda: not app.views.sidebar.isVisible())
    app.window.sidebar_action.trigger()  # who wants it has it in a narrow window, too
    assert app.views.sidebar.isVisible()
    app.window.resize(990, 700)
    qtbot.wait(20)
    assert app.views.sidebar.isVisible()
    assert app.views.chat.width() >= 300


def test_what_was_folded_by_hand_stays_folded(start_app: Start, qtbot: QtBot) -> None:
    app = start_app()
    app.window.sidebar_action.trigger()
    app.window.resize(1000, 700)
    app.window.resize(1300, 700)
    qtbot.wait(20)
    assert not app.views.sidebar.isVisible()
    app.window.close()
    again = start_app()
    assert not again.views.sidebar.isVisible()


def test_a_window_that_was_narrow_has_its_conversations_back_when_it_is_wide(start_app: Start, qtbot: QtBot) -> None:
    app = start_app()
    app.window.resize(1000, 700)
    qtbot.waitUntil(lambda: not app.views.sidebar.isVisible())
    app.window.close()
    again = start_app()
    again.window.resize(1300, 700)
    qtbot.waitUntil(again.views.sidebar.isVisible)


def test_searching_unfolds_the_conversations(app: Application) -> None:
    app.window.sidebar_action.setChecked(False)
    app.window.search_action.trigger()
    assert app.views.sidebar.isVisible()
    assert app.window.focusWidget() is app.views.sidebar.search


def test_every_key_of_the_window_is_listed(app: Application) -> None:
    listed = " ".join(keys for keys, _ in KEYS).replace("←", "Left").replace("→", "Right").split()
    keys = {action.shortcut().toString() for action in app.window.findChildren(type(app.window.sidebar_action))}
    missing = {key for key in keys if key} - set(listed) - {"Del", "F2"}
    assert not missing
    assert {"Ctrl+N", "Ctrl+K", "Ctrl+B", "Ctrl+R", "Alt+Left", "Alt+Right", "Ctrl+T", "F9", "F1", "Esc"} <= keys


@pytest.mark.parametrize("broken", ["not base64 ☃", 5, None])
def test_a_place_that_cannot_be_understood_is_passed_over(start_app: Start, profile: Path, broken: object) -> None:
    import json

    profile.mkdir(parents=True)
    (profile / "window.json").write_text(json.dumps({"columns": broken, "geometry": broken}), encoding="utf-8")
    assert start_app().views.sidebar.isVisible()
