"""Find in the open chat: how many places there are, which one the reader is at, and the way to the next.

Knows nothing of how the texts come about, or of how places are painted.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer

from app.views.chat import Chat
from app.views.matches import Span, nth, number_at, pattern_of
from app.views.source_text import SourceText

_COUNT_EVERY_MS = 200  # while a reply is written


class FindController(QObject):
    """One method per intent. Each text finds its places itself whenever it is written; here they are only counted."""

    def __init__(self, chat: Chat) -> None:
        super().__init__(chat)
        self._chat, self._bar = chat, chat.find_bar
        self._text: SourceText | None = None  # where the reader is, or was last
        self._position = 0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_COUNT_EVERY_MS)
        self._timer.timeout.connect(self.count)
        chat.texts_changed.connect(self.count_soon)
        self._bar.words_changed.connect(self.find)
        self._bar.next_asked.connect(self.go_to_next)
        self._bar.previous_asked.connect(self.go_to_previous)
        self._bar.closed.connect(self.end)

    # Intents

    def open(self) -> None:
        """Show the bar: with the words that are selected in the chat, or else with those of the last time."""
        was_open = self._bar.is_open
        self._chat.open_find_bar()
        if not was_open:
            self.find(self._bar.words)

    def find(self, words: str) -> None:
        """Go to the first place from where the reader is on."""
        if not self._bar.is_open:
            return
        self._chat.look_for(pattern_of(words))
        texts = self._chat.texts()
        found = _places(texts)
        if any(found):
            self._go(texts, found, number_at(found, *self._reader(texts)))
        else:
            self._bar.show_count(0, 0)

    def go_to_next(self) -> None:
        """The place after this one; after the last comes the first."""
        self._step(1)

    def go_to_previous(self) -> None:
        """The place before this one; before the first comes the last."""
        self._step(-1)

    def end(self) -> None:
        """Nothing is looked for any more."""
        self._timer.stop()
        self._text = None
        self._chat.look_for(None)

    # Counting and going

    def count_soon(self) -> None:
        """The texts have changed, as they may many times a second."""
        if self._bar.is_open and not self._timer.isActive():
            self._timer.start()

    def count(self) -> None:
        """Say how many places there are now; nothing is scrolled."""
        texts = self._chat.texts()
        found = _places(texts)
        self._bar.show_count(self._number(texts, found) + 1, sum(map(len, found)))

    def _step(self, by: int) -> None:
        if not self._bar.is_open:
            self.open()
            return
        texts = self._chat.texts()
        found = _places(texts)
        if not any(found):
            return
        number = self._number(texts, found)
        if number < 0:  # between two places
            number = number_at(found, *self._reader(texts)) - (by > 0)
        self._go(texts, found, number + by)

    def _number(self, texts: Sequence[SourceText], found: Sequence[Sequence[Span]]) -> int:
        """Of the place the reader is at; -1 for none."""
        at = _index(texts, self._text)
        current = texts[at].found.current if at >= 0 else None
        return number_at(found, at, current[0]) if current else -1

    def _reader(self, texts: Sequence[SourceText]) -> tuple[int, int]:
        """The text and the position to look from: those of the last place, or else the first line in view."""
        at = _index(texts, self._text)
        return (at, self._position) if at >= 0 else self._chat.first_in_view(texts)

    def _go(self, texts: Sequence[SourceText], found: Sequence[Sequence[Span]], number: int) -> None:
        places = sum(map(len, found))
        at, span = nth(found, number % places)
        before = _index(texts, self._text)
        if before not in (-1, at):
            texts[before].found.show(None)
        self._text, self._position = texts[at], span[0]
        self._chat.reveal(texts[at])
        self._chat.bring_to_middle(texts[at], texts[at].found.show(span))
        self._bar.show_count(number % places + 1, places)


def _places(texts: Sequence[SourceText]) -> list[list[Span]]:
    return [text.found.spans for text in texts]


def _index(texts: Sequence[SourceText], text: SourceText | None) -> int:
    """Which of the texts it is; -1 for none: its message may be gone."""
    return next((number for number, known in enumerate(texts) if known is text), -1)
