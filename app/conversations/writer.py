"""A reply on its way into the store: text as it comes, steps in batches, and how it ended.

Knows nothing of where the reply comes from, or of its place in the tree.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable

from app.conversations.database import Database
from app.conversations.records import Figures, MessageState, storable
from app.conversations.steps import pack
from medusa_core.events import Event, Progress, Step

_STEPS_AFTER_SECONDS = 0.5
_STEPS_AT_MOST = 16  # in one batch


class ReplyWriter:
    """Saves one reply while it streams; a killed process loses none of the text, and half a second of steps.

    After an error nothing is lost: what could not be saved is kept, and goes with the next call.
    """

    def __init__(self, database: Database, message: int, now: Callable[[], float]) -> None:
        self.message = message
        self._database, self._now = database, now
        row = database.read("SELECT figures FROM message WHERE id = ?", (message,))[0]
        self.figures = Figures.from_dict(json.loads(row["figures"] or "{}"))
        self._text: list[str] = []  # not saved yet
        self._events: list[Event] = []
        self._saved_steps_at = time.monotonic()

    def append(self, text: str, events: Iterable[Event] = ()) -> None:
        """Save what came since the last call. Raises DiskFull or a StoreError.

        The steps of a reply that goes on are numbered through, and their spans count characters of the whole text.
        """
        if text:
            self._text.append(storable(text))
        self._events += _kept(events)
        with_steps = self._is_time_for_steps()
        if not self._text and not with_steps:
            return
        with self._database.writing() as connection:
            self._save_text(connection)
            if with_steps:
                self._save_steps(connection)
        # Only after the commit: a failed one keeps everything for the next try.
        self._text.clear()
        if with_steps:
            self._events.clear()
            self._saved_steps_at = time.monotonic()

    def restart(self, text: str) -> None:
        """Have the reply begin with this instead of what was saved so far; for ends that turn out otherwise."""
        self._text.clear()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM piece WHERE message = ?", (self.message,))
            connection.execute("UPDATE message SET text = ? WHERE id = ?", (storable(text), self.message))

    def tell(self, figures: Figures) -> None:
        """Save what has turned out about the reply while it is written."""
        self.figures = figures
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE message SET figures = ? WHERE id = ?", (json.dumps(figures.as_dict()), self.message)
            )

    def finish(self, state: MessageState, figures: Figures | None = None) -> None:
        """Save the rest, and how the reply ended. Raises DiskFull or a StoreError; it can then be called again."""
        with self._database.writing() as connection:
            self._save_text(connection)
            self._save_steps(connection)
            settle(connection, self.message)
            connection.execute(
                "UPDATE message SET state = ?, figures = ? WHERE id = ?",
                (state, json.dumps((figures or self.figures).as_dict()), self.message),
            )
            connection.execute(
                "UPDATE conversation SET updated = ? WHERE id = (SELECT conversation FROM message WHERE id = ?)",
                (self._now(), self.message),
            )
        self._text.clear()
        self._events.clear()

    def _is_time_for_steps(self) -> bool:
        waited = time.monotonic() - self._saved_steps_at
        return len(self._events) >= _STEPS_AT_MOST or (bool(self._events) and waited >= _STEPS_AFTER_SECONDS)

    def _save_text(self, connection: sqlite3.Connection) -> None:
        if self._text:
            connection.execute("INSERT INTO piece (message, text) VALUES (?, ?)", (self.message, "".join(self._text)))

    def _save_steps(self, connection: sqlite3.Connection) -> None:
        if self._events:
            number = sum(isinstance(event, Step) for event in self._events)
            connection.execute(
                "INSERT INTO steps (message, number, events) VALUES (?, ?, ?)",
                (self.message, number, pack(self._events)),
            )


def settle(connection: sqlite3.Connection, message: int) -> None:
    """Join the pieces of a streaming message to its text. It can go on streaming afterwards."""
    pieces = connection.execute("SELECT text FROM piece WHERE message = ? ORDER BY id", (message,)).fetchall()
    if not pieces:
        return
    text = connection.execute("SELECT text FROM message WHERE id = ?", (message,)).fetchone()[0]
    connection.execute("UPDATE message SET text = ? WHERE id = ?", (text + "".join(row[0] for row in pieces), message))
    connection.execute("DELETE FROM piece WHERE message = ?", (message,))


def _kept(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Progress)]
