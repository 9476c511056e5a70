"""Notices stand until they are settled, can be copied, and offer ways on."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.notices import Notice, NoticeArea, Topic, Way

TROUBLE = Notice(Topic.MODEL, "It does not fit.", "Traceback: here", (Way.LOAD_AGAIN, Way.OPEN_SETTINGS))


@pytest.fixture
def area(qtbot: QtBot, theme: Theme) -> NoticeArea:
    shown = NoticeArea(theme, 500)
    qtbot.addWidget(shown)
    return shown


def button(area: NoticeArea, label: str, topic: Topic = Topic.MODEL) -> QPushButton:
    frame = area.frame(topic)
    assert frame is not None
    return next(found for found in frame.findChildren(QPushButton) if found.text() == label)


def test_a_way_on_is_one_press(area: NoticeArea, qtbot: QtBot) -> None:
    area.tell(TROUBLE)
    with qtbot.waitSignal(area.way_chosen) as chosen:
        button(area, "Open settings").click()
    assert chosen.args == [Way.OPEN_SETTINGS]


def test_copying_takes_the_details_along(area: NoticeArea, qapp: QApplication) -> None:
    area.tell(TROUBLE)
    button(area, "Copy").click()
    assert qapp.clipboard().text() == "It does not fit.\n\nTraceback: here"


def test_details_unfold(area: NoticeArea) -> None:
    area.tell(TROUBLE)
    frame = area.frame(Topic.MODEL)
    assert isinstance(frame, QWidget)
    details = frame.findChild(QPlainTextEdit)
    assert isinstance(details, QPlainTextEdit)
    assert not details.isVisible()
    button(area, "Details").click()
    assert details.isVisible()
    assert details.toPlainText() == "Traceback: here"


def test_one_notice_a_topic_and_none_after_dismissal(area: NoticeArea) -> None:
    area.tell(TROUBLE)
    area.tell(Notice(Topic.MODEL, "Still not."))
    area.tell(Notice(Topic.REPLY, "Broke off."))
    assert [notice.text for notice in area.shown()] == ["Still not.", "Broke off."]
    area.settle(Topic.MODEL)
    button(area, "Dismiss", Topic.REPLY).click()
    assert area.shown() == []
    assert not area.isVisible()


def test_markup_in_a_message_is_shown_as_it_is(area: NoticeArea) -> None:
    area.tell(Notice(Topic.MODEL, "expected <b>16</b> rows"))
    frame = area.frame(Topic.MODEL)
    assert isinstance(frame, QWidget)
    assert frame.accessibleName() == "expected <b>16</b> rows"
