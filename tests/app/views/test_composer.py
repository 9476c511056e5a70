"""The composer's keys and states."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.composer import Composer, ComposerState


@pytest.fixture
def composer(qtbot: QtBot, theme: Theme) -> Composer:
    shown = Composer(500)
    qtbot.addWidget(shown)
    shown.resize(500, 200)
    shown.show()
    shown.set_state(ComposerState.READY)
    return shown


def test_enter_sends_and_clears(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "hello")
    with qtbot.waitSignal(composer.submitted) as sent:
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert sent.args == ["hello"]
    assert composer.text() == ""


def test_shift_enter_starts_a_new_line(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "one")
    with qtbot.assertNotEmitted(composer.submitted):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.edit, "two")
    with qtbot.waitSignal(composer.submitted) as sent:
        qtbot.keyClick(composer.edit, Qt.Key.Key_Enter)
    assert sent.args == ["one\ntwo"]


def test_blank_text_is_not_sent(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "   ")
    assert not composer.button.isEnabled()
    with qtbot.assertNotEmitted(composer.submitted):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)


def test_while_waiting_the_text_stays_and_the_reason_shows(composer: Composer, qtbot: QtBot) -> None:
    composer.set_state(ComposerState.WAITING, "The model is being loaded.")
    qtbot.keyClicks(composer.edit, "hello")
    with qtbot.assertNotEmitted(composer.submitted):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.text() == "hello"
    assert not composer.button.isEnabled()
    assert composer.reason.isVisible()
    assert composer.reason.text() == "The model is being loaded."


def test_while_replying_the_button_and_escape_stop(composer: Composer, qtbot: QtBot) -> None:
    composer.set_state(ComposerState.REPLYING)
    assert composer.button.text() == "Stop"
    assert composer.button.isEnabled()
    with qtbot.waitSignal(composer.stop_requested):
        qtbot.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(composer.stop_requested):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Escape)
    qtbot.keyClicks(composer.edit, "next question")
    with qtbot.assertNotEmitted(composer.submitted):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.text() == "next question"


def test_it_grows_to_eight_lines_and_then_scrolls(composer: Composer) -> None:
    heights = []
    for lines in range(1, 12):
        composer.set_text("\n".join("x" * lines))
        heights.append(composer.edit.height())
    assert heights[:8] == sorted(set(heights[:8]))
    assert set(heights[7:]) == {heights[7]}
    assert composer.edit.verticalScrollBarPolicy() is Qt.ScrollBarPolicy.ScrollBarAsNeeded
    composer.set_text("one line")
    assert composer.edit.height() == heights[0]
    assert composer.edit.verticalScrollBar().maximum() == 0
