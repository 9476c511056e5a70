"""What the person asked in the conversations that are in the list, read a few at a time: the store works in one thread
only, that of the window, which must not stand still for all of them.

Knows nothing of what the questions are for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer, Signal

from app.conversations import ConversationStore, Role
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt

MOST = 2000  # questions, the newest
_AT_ONCE_SECONDS = 0.01


class OwnQuestions(QObject):
    """Gathers them while the window goes on."""

    gathered = Signal(list)  # of FilePrompt

    def __init__(self, store: ConversationStore) -> None:
        super().__init__()
        self._store = store
        self._reading: Iterator[list[FilePrompt]] = iter(())
        self._found: list[FilePrompt] = []
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._read)

    def gather(self) -> None:
        """Begin, anew where it is under way; `gathered` tells the end."""
        self._reading, self._found = in_pieces(self._store), []
        self._timer.start()

    def stop(self) -> None:
        """They are not wanted any more."""
        self._timer.stop()

    def _read(self) -> None:
        until = time.monotonic() + _AT_ONCE_SECONDS
        for piece in self._reading:
            self._found += piece
            if len(self._found) >= MOST:
                break
            if time.monotonic() >= until:
                return
        self._timer.stop()
        self.gathered.emit(self._found[:MOST])


def in_pieces(store: ConversationStore) -> Iterator[list[FilePrompt]]:
    """The questions of one conversation after another, each question with what was said before it."""
    for conversation in store.conversations():
        found: list[FilePrompt] = []
        messages: list[ChatMessage] = []
        for message in store.messages.branch(conversation.id):
            if message.role is Role.USER:
                if message.text.strip():
                    messages.append({"role": "user", "content": message.text})
                    found.append(FilePrompt(tuple(messages)))
            elif message.text.strip():
                messages.append({"role": "assistant", "content": message.text})
        yield found
