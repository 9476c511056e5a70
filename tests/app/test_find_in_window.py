"""Find in the whole app: the keys of the window, other variants of a reply, recordings."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.recording_window import RecordingWindow
from app.theme import Theme
from medusa_core.testing import ReplayChat, scripted_reply

Ask = Callable[..., None]
Rest = Callable[[Application], None]


def test_the_keys_of_the_window(app: Application, ask: Ask, qtbot: QtBot) -> None:
    ask(app, "a needle and another needle")
    bar, edit = app.views.chat.find_bar, app.views.composer.edit
    app.window.activateWindow()
    edit.setFocus()
    qtbot.keyClick(edit, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert bar.field.hasFocus()
    qtbot.keyClicks(bar.field, "needle")
    assert bar.count.text() == "1 of 2"
    qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    assert bar.count.text() == "2 of 2"
    edit.setFocus()
    qtbot.keyClick(edit, Qt.Key.Key_F3)
    assert bar.count.text() == "1 of 2"
    qtbot.keyClick(edit, Qt.Key.Key_F3, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "2 of 2"
    qtbot.keyClick(edit, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert edit.hasFocus()
    with qtbot.waitSignal(app.window.search_requested):
        both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        qtbot.keyClick(edit, Qt.Key.Key_F, both)


def test_escape_in_the_bar_stops_no_reply(app: Application, ask: Ask, qtbot: QtBot, wait_for_rest: Rest) -> None:
    app.controller.toggle_slow(True)
    ask(app, "hello", wait=False)
    app.window.activateWindow()
    app.window.find_action.trigger()
    heard: list[bool] = []
    app.window.stop_requested.connect(lambda: heard.append(True))
    qtbot.keyClick(app.views.chat.find_bar.field, Qt.Key.Key_Escape)
    assert not heard
    assert app.controller.phase is Phase.REPLYING
    app.controller.stop()
    wait_for_rest(app)


def test_another_variant_is_looked_through(app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot) -> None:
    ask(app, "hello")
    words = app.controller.turns[0].answer.split()[0]
    first = app.controller.turns[0].answer.lower().count(words.lower())
    chat.events = scripted_reply(3, seed=5)
    app.window.regenerate_action.trigger()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY)
    app.window.find_action.trigger()
    bar = app.views.chat.find_bar
    bar.field.setText(words)
    second = sum(len(text.found.spans) for text in app.views.chat.texts())
    assert second != first
    app.controller.conversations.show_previous_variant()
    qtbot.waitUntil(lambda: str(first) in bar.count.text())


def test_a_recording_is_looked_through_too(qtbot: QtBot, theme: Theme) -> None:
    window = RecordingWindow(theme)
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.open_example(0)
    window.player.skip()
    window.play_button.setFocus()
    qtbot.keyClick(window.play_button, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert window.chat.find_bar.field.hasFocus()
    qtbot.keyClicks(window.chat.find_bar.field, "the")
    assert " of " in window.chat.find_bar.count.text()
    window.close()
