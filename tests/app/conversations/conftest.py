"""A store in a folder with letters from everywhere, and the clock it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.conversations import ConversationStore, Message, MessageState


class Clock:
    """A time that only tests move."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        self.time += 1
        return self.time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "profile é ☃ 世界"


@pytest.fixture
def open_store(folder: Path) -> Iterator[Callable[[], ConversationStore]]:
    opened: list[ConversationStore] = []

    def open_one() -> ConversationStore:
        for store in opened:
            store.close()
        opened[:] = [ConversationStore(folder, "socket-name", Clock())]
        return opened[0]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], ConversationStore]) -> ConversationStore:
    return open_store()


@pytest.fixture
def answer(store: ConversationStore) -> Callable[[Message, str], Message]:
    """Give a question a whole reply."""

    def answer(question: Message, text: str) -> Message:
        writer = store.messages.begin_reply(question.id)
        writer.append(text)
        writer.finish(MessageState.COMPLETE)
        return store.messages.get(writer.message)

    return answer


@pytest.fixture
def shown() -> Callable[[ConversationStore, int], list[str]]:
    """The texts of the current branch."""

    def shown(store: ConversationStore, conversation: int) -> list[str]:
        return [message.text for message in store.messages.branch(conversation)]

    return shown
