"""One's own questions are read a few at a time, and come in the end all together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from app import own_questions
from app.conversations import ConversationStore
from app.own_questions import OwnQuestions
from medusa_core.prompt_file import FilePrompt


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    store = ConversationStore(tmp_path)
    for number in range(5):
        store.messages.ask(f"Question {number}?")
    store.messages.ask(" ")
    yield store
    store.close()


def test_the_window_goes_on_between_two_conversations(
    store: ConversationStore, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_questions, "_AT_ONCE_SECONDS", 0.0)
    read: list[int] = []
    branch = store.messages.branch
    monkeypatch.setattr(store.messages, "branch", lambda number: read.append(number) or branch(number))
    own = OwnQuestions(store)
    own.gather()
    assert not read
    turns: list[int] = []  # of the window's event loop: how much was read before each
    other = QTimer()
    other.timeout.connect(lambda: turns.append(len(read)))
    other.start(0)
    with qtbot.waitSignal(own.gathered, timeout=5000) as found:
        pass
    other.stop()
    assert set(range(1, 6)) <= set(turns)
    prompts: list[FilePrompt] = found.args[0]
    assert sorted(prompt.messages[0]["content"] for prompt in prompts) == [f"Question {n}?" for n in range(5)]
    assert len(read) == 6


def test_only_so_many_and_not_after_the_app_has_ended(
    store: ConversationStore, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_questions, "MOST", 3)
    own = OwnQuestions(store)
    with qtbot.waitSignal(own.gathered, timeout=5000) as found:
        own.gather()
    assert len(found.args[0]) == 3
    own.gather()
    own.stop()
    with qtbot.assertNotEmitted(own.gathered, wait=50):
        pass
