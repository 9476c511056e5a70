"""The page of messages: it follows its end only while the reader is there."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton, QScrollArea, QScrollBar
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.chat import Chat
from medusa_core.events import Event, Finished
from medusa_core.testing import scripted_reply

EVENTS: list[Event] = scripted_reply(200)


@pytest.fixture
def chat(qtbot: QtBot, theme: Theme) -> Chat:
    shown = Chat(theme, ("What is this?",))
    qtbot.addWidget(shown)
    shown.resize(480, 300)
    shown.show()
    shown.add_question("hello")
    shown.begin_reply("greedy")
    return shown


def bar_of(chat: Chat) -> QScrollBar:
    area = chat.findChild(QScrollArea)
    assert area is not None
    return area.verticalScrollBar()


def stream(qtbot: QtBot, chat: Chat, events: list[Event]) -> None:
    for start in range(0, len(events), 5):
        chat.show_events(list(events[start : start + 5]))
        QApplication.processEvents()
    qtbot.wait(20)


def test_it_follows_the_end_while_the_reader_is_there(qtbot: QtBot, chat: Chat) -> None:
    stream(qtbot, chat, EVENTS)
    assert bar_of(chat).maximum() > 300
    assert bar_of(chat).value() == bar_of(chat).maximum()
    assert not chat.jump_button.isVisible()


def test_it_stays_where_the_reader_scrolled_to(qtbot: QtBot, chat: Chat) -> None:
    stream(qtbot, chat, EVENTS[:150])
    bar_of(chat).setValue(40)
    assert not chat.jump_button.isVisible()  # nothing new yet
    stream(qtbot, chat, EVENTS[150:])  # the end of the reply included
    assert bar_of(chat).value() == 40
    assert chat.jump_button.isVisible()
    qtbot.mouseClick(chat.jump_button, Qt.MouseButton.LeftButton)
    assert bar_of(chat).value() == bar_of(chat).maximum()
    assert not chat.jump_button.isVisible()
    assert chat.is_following()


def test_scrolling_back_to_the_end_follows_again(qtbot: QtBot, chat: Chat) -> None:
    stream(qtbot, chat, EVENTS[:150])
    bar_of(chat).setValue(40)
    bar_of(chat).setValue(bar_of(chat).maximum())
    stream(qtbot, chat, EVENTS[150:])
    assert bar_of(chat).value() == bar_of(chat).maximum()


def test_a_new_question_brings_the_end_into_view(qtbot: QtBot, chat: Chat) -> None:
    stream(qtbot, chat, EVENTS)
    bar_of(chat).setValue(0)
    chat.add_question("and then?")
    qtbot.wait(20)
    assert bar_of(chat).value() == bar_of(chat).maximum()


def test_the_end_of_a_reply_moves_nothing(qtbot: QtBot, chat: Chat) -> None:
    stream(qtbot, chat, EVENTS[:-1])
    text = chat.replies()[0].text
    before = text.mapTo(chat, text.rect().topLeft())
    stream(qtbot, chat, EVENTS[-1:])
    assert isinstance(EVENTS[-1], Finished)
    assert text.mapTo(chat, text.rect().topLeft()) == before


def test_holding_a_step_brings_it_into_view(qtbot: QtBot, chat: Chat) -> None:
    stream(qtbot, chat, EVENTS)
    chat.hold_step(0, 2)
    assert bar_of(chat).value() < 100
    chat.hold_step(0, 199)
    assert bar_of(chat).value() > bar_of(chat).maximum() - 100


def test_a_suggestion_asks_itself(qtbot: QtBot, chat: Chat) -> None:
    chat.clear()
    chat.set_hint("Ready", "Ask.", suggest=True)
    button = next(button for button in chat.findChildren(QPushButton) if button.text() == "What is this?")
    assert button.isVisible()
    with qtbot.waitSignal(chat.suggestion_chosen) as chosen:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert chosen.args == ["What is this?"]
    chat.set_hint("One moment", "Loading.", suggest=False)
    assert not button.isVisible()


def test_copying_gives_the_source(qtbot: QtBot, chat: Chat, qapp: QApplication) -> None:
    stream(qtbot, chat, EVENTS)
    reply = chat.replies()[0]
    reply.copy_button.click()
    assert qapp.clipboard().text() == reply.text.text


def test_the_tint_setting_holds_for_later_replies_too(qtbot: QtBot, chat: Chat) -> None:
    chat.set_tinted(False)
    stream(qtbot, chat, EVENTS[:20])
    untinted = chat.replies()[0].text.grab().toImage()
    chat.set_tinted(True)
    assert chat.replies()[0].text.grab().toImage() != untinted
