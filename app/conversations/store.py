"""The conversations of a profile: the list, its undo, and the way to messages, search and the steps of replies.

One thread, the GUI's, opens it and is the only one to use it; every call takes a few milliseconds at most, save for
export and import. Knows nothing of widgets, threads or models.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.conversations.database import Database
from app.conversations.lock import ProfileLock
from app.conversations.messages import Messages, add_conversation
from app.conversations.records import Conversation, Hit, MessageState, storable
from app.conversations.search import search
from app.conversations.steps import unpack
from app.conversations.writer import settle
from medusa_core.events import Event

FILE_NAME = "conversations.db"
_COLUMNS = "id, title, created, updated, pinned, deleted"


class ConversationStore:
    """Open from construction to `close`; what is written is on its way to the disk when a call returns."""

    def __init__(
        self, folder: Path, address: str = "", now: Callable[[], float] = time.time, *, in_memory: bool = False
    ) -> None:
        """Open or create the store in a profile's folder. `address` tells a second process where this one listens.

        Raises AlreadyOpen, StoreTooNew, StoreReadOnly or DiskFull. A damaged file is kept aside: see `kept_aside`.
        `in_memory`: where that is not possible, work on a copy of what can be read; nothing is saved.
        """
        self._lock = None if in_memory else ProfileLock(folder, address)
        self.is_saved = not in_memory
        try:
            self._database = Database(folder / FILE_NAME, in_memory=in_memory)
            self.kept_aside = self._database.kept_aside  # tell people about it
            self.cut_replies = self._mark_cut()  # ids of replies that were being written when the last process died
        except BaseException:
            self._release()
            raise
        self._now = now
        self.messages = Messages(self._database, now)

    def close(self) -> None:
        """Let the next process in. A reply still being written counts as cut."""
        self._database.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _mark_cut(self) -> list[int]:
        with self._database.writing() as connection:
            rows = connection.execute("SELECT id FROM message WHERE state = 'streaming'").fetchall()
            for row in rows:
                settle(connection, row["id"])
                connection.execute("UPDATE message SET state = ? WHERE id = ?", (MessageState.CUT, row["id"]))
        return [row["id"] for row in rows]

    # The list

    def conversations(self) -> list[Conversation]:
        """All that are not deleted: pinned ones first, then by their newest message."""
        return [_conversation(row) for row in self._database.read(LIST)]

    def deleted(self) -> list[Conversation]:
        """What can be restored, the last deleted first."""
        statement = f"SELECT {_COLUMNS} FROM conversation WHERE deleted IS NOT NULL ORDER BY deleted DESC, id DESC"
        return [_conversation(row) for row in self._database.read(statement)]

    def get(self, conversation: int) -> Conversation:
        """One conversation, deleted or not."""
        rows = self._database.read(f"SELECT {_COLUMNS} FROM conversation WHERE id = ?", (conversation,))
        if not rows:
            raise KeyError(f"there is no conversation {conversation}")
        return _conversation(rows[0])

    def rename(self, conversation: int, title: str) -> None:
        """Give it another title; an empty one is not taken."""
        if title := " ".join(storable(title).split()):
            self._set(conversation, "title", title)

    def pin(self, conversation: int, *, pinned: bool) -> None:
        """Keep it at the top of the list, or no longer."""
        self._set(conversation, "pinned", int(pinned))

    def delete(self, conversation: int) -> None:
        """Take it off the list and out of the search; `restore` brings it back."""
        self._set(conversation, "deleted", self._now())

    def delete_all(self) -> list[int]:
        """Empty the list; the ids are for `restore`."""
        gone = [conversation.id for conversation in self.conversations()]
        with self._database.writing():
            for conversation in gone:
                self.delete(conversation)
        return gone

    def restore(self, conversation: int) -> None:
        """Undo `delete`."""
        self._set(conversation, "deleted", None)

    def purge(self, older_than_seconds: float) -> None:
        """Forget for good what was deleted or removed longer ago than that."""
        before = self._now() - older_than_seconds
        with self._database.writing() as connection:
            connection.execute("DELETE FROM conversation WHERE deleted < ?", (before,))
            connection.execute("DELETE FROM message WHERE removed_at < ?", (before,))

    def duplicate(self, conversation: int) -> Conversation:
        """A copy with all branches and steps, at the top of the list; a reply still being written is cut in it."""
        old = self.get(conversation)
        with self._database.writing() as connection:
            for row in connection.execute(
                "SELECT id FROM message WHERE conversation = ? AND state = 'streaming'", (conversation,)
            ).fetchall():
                settle(connection, row["id"])
            copy = add_conversation(connection, old.title, self._now())
            _copy_messages(connection, conversation, copy)
        return self.get(copy)

    def search(self, words: str, limit: int = 50) -> list[Hit]:
        """Where the words stand, in titles and in messages; the text of a reply once it is finished."""
        return search(self._database, words, limit)

    def steps(self, message: int) -> list[Event]:
        """The events a reply was made of. Raises StoreError where they cannot be read; the text is not affected."""
        rows = self._database.read("SELECT events FROM steps WHERE message = ? ORDER BY id", (message,))
        return [event for row in rows for event in unpack(row["events"])]

    @property
    def database(self) -> Database:
        """For export and import."""
        return self._database

    def _set(self, conversation: int, column: str, value: Any) -> None:
        with self._database.writing() as connection:
            connection.execute(f"UPDATE conversation SET {column} = ? WHERE id = ?", (value, conversation))


LIST = f"SELECT {_COLUMNS} FROM conversation WHERE deleted IS NULL ORDER BY pinned DESC, updated DESC, id DESC"


def _conversation(row: sqlite3.Row) -> Conversation:
    return Conversation(row["id"], row["title"], row["created"], row["updated"], bool(row["pinned"]), row["deleted"])


def _copy_messages(connection: sqlite3.Connection, source: int, copy: int) -> None:
    """The messages that are not removed, and their steps. New ids are the old ones plus one number, beyond any used."""
    shift = connection.execute(
        "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'message') - min(id) + 1 FROM message "
        "WHERE conversation = ? AND removed_by IS NULL",
        (source,),
    ).fetchone()[0]
    if shift is None:  # no message is left
        return
    connection.execute(
        "INSERT INTO message (id, conversation, parent, role, text, state, figures, created, chosen) "
        "SELECT id + :shift, :copy, parent + :shift, role, text, iif(state = 'streaming', 'cut', state), figures, "
        "created, chosen FROM message WHERE conversation = :source AND removed_by IS NULL ORDER BY id",
        {"shift": shift, "copy": copy, "source": source},
    )
    connection.execute(
        "INSERT INTO steps (message, number, events) SELECT s.message + ?, s.number, s.events FROM steps s "
        "JOIN message m ON m.id = s.message WHERE m.conversation = ? AND m.removed_by IS NULL ORDER BY s.id",
        (shift, source),
    )
