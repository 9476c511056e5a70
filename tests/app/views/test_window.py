"""The frame: three columns, of which the conversations give way first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.views.about import KEYS
from app.views.blocks import text_of

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
    assert {"Ctrl+F", "F3", "Shift+F3"} <= keys
    assert {"Ctrl+N", "Ctrl+K", "Ctrl+B", "Ctrl+R", "Alt+Left", "Alt+Right", "Ctrl+T", "F9", "F1", "Esc"} <= keys


@pytest.mark.parametrize("broken", ["not base64 ☃", 5, None])
def test_a_place_that_cannot_be_understood_is_passed_over(start_app: Start, profile: Path, broken: object) -> None:
    profile.mkdir(parents=True)
    (profile / "window.json").write_text(json.dumps({"columns": broken, "geometry": broken}), encoding="utf-8")
    assert start_app().views.sidebar.isVisible()


@pytest.mark.parametrize("place", ["composer", "reply", "search"])
def test_the_keys_work_wherever_the_keyboard_is(
    app: Application, ask: Callable[..., None], qtbot: QtBot, place: str
) -> None:
    ask(app, "one")
    widgets = {
        "composer": app.views.composer.edit,
        "reply": text_of(app.views.chat.replies()[0].text.parts[0]),
        "search": app.views.sidebar.search,
    }
    heard: list[str] = []
    ctrl, alt = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
    for signal, key, modifier in (
        (app.window.search_requested, Qt.Key.Key_K, ctrl),
        (app.window.find_requested, Qt.Key.Key_F, ctrl),
        (app.window.find_next_requested, Qt.Key.Key_F3, Qt.KeyboardModifier.NoModifier),
        (app.window.find_previous_requested, Qt.Key.Key_F3, Qt.KeyboardModifier.ShiftModifier),
        (app.window.rule_action.triggered, Qt.Key.Key_E, ctrl),
        (app.window.regenerate_requested, Qt.Key.Key_R, ctrl),
        (app.window.previous_variant_requested, Qt.Key.Key_Left, alt),
        (app.window.next_variant_requested, Qt.Key.Key_Right, alt),
        (app.window.sidebar_action.toggled, Qt.Key.Key_B, ctrl),
        (app.window.tint_toggled, Qt.Key.Key_T, ctrl),
        (app.window.new_chat_requested, Qt.Key.Key_N, ctrl),
    ):
        app.window.sidebar_action.setChecked(True)
        app.window.activateWindow()
        widgets[place].setFocus()
        with qtbot.waitSignal(signal, timeout=300, raising=False) as blocker:
            qtbot.keyClick(widgets[place], key, modifier)
        if not blocker.signal_triggered:
            heard.append(f"{modifier.name}+{key.name}")
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)
        if place == "reply" and key == Qt.Key.Key_R:
            widgets[place] = text_of(app.views.chat.replies()[0].text.parts[0])
    assert not heard
