"""A page of messages in a window that has the keyboard, and on it a reply that thought."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.chat import Chat
from app.views.reply import Reply
from tests.app.views.thinking.thoughts import TEXT, restored


@pytest.fixture
def chat(qtbot: QtBot, theme: Theme) -> Chat:
    shown = Chat(theme, ())
    qtbot.addWidget(shown)
    shown.resize(640, 480)
    shown.show()
    shown.activateWindow()
    qtbot.waitUntil(shown.isActiveWindow)
    return shown


@pytest.fixture
def reply(chat: Chat) -> Reply:
    """A reply whose steps are known, folded."""
    return restored(chat, TEXT)
