"""The messages of conversations, as trees: asking, editing, trying again, choosing among variants, removing.

A place in the tree has variants; the one chosen last is on the current branch, which runs from a first question down to
a message with none below it. Knows nothing of the list of conversations beyond naming and dating one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from app.conversations.database import Database
from app.conversations.records import Figures, Message, MessageState, Role, storable, title_from
from app.conversations.writer import ReplyWriter, settle

# Named m: the row; variants of a place share conversation and parent, and are not removed.
_COLUMNS = """m.id, m.conversation, m.parent, m.role, m.text, m.state, m.figures, m.created,
    (SELECT count(*) FROM message v WHERE v.conversation = m.conversation AND v.parent IS m.parent
        AND v.removed_by IS NULL) AS variants,
    (SELECT count(*) FROM message v WHERE v.conversation = m.conversation AND v.parent IS m.parent
        AND v.removed_by IS NULL AND v.id < m.id) AS variant"""
_CHOSEN = """SELECT c.id FROM message c WHERE c.conversation = :conversation AND c.parent IS {parent}
    AND c.removed_by IS NULL ORDER BY c.chosen DESC LIMIT 1"""
_BRANCH = f"""WITH RECURSIVE branch (id, depth) AS (
    SELECT ({_CHOSEN.format(parent="NULL")}), 0
    UNION ALL
    SELECT ({_CHOSEN.format(parent="branch.id")}), depth + 1 FROM branch WHERE branch.id IS NOT NULL
) """
BRANCH_MESSAGES = f"{_BRANCH} SELECT {_COLUMNS} FROM branch JOIN message m ON m.id = branch.id ORDER BY depth"
_BRANCH_END = f"{_BRANCH} SELECT id FROM branch WHERE id IS NOT NULL ORDER BY depth DESC LIMIT 1"
_CHOOSE = """UPDATE message SET chosen = 1 + (SELECT max(v.chosen) FROM message v
    WHERE v.conversation = message.conversation AND v.parent IS message.parent) WHERE id = ?"""
_SUBTREE = """WITH RECURSIVE subtree (id) AS (
    SELECT ? UNION ALL SELECT m.id FROM message m JOIN subtree ON m.parent = subtree.id
) """
_ANCESTORS = """WITH RECURSIVE above (id, parent) AS (
    SELECT id, parent FROM message WHERE id = ?
    UNION ALL SELECT m.id, m.parent FROM message m JOIN above ON m.id = above.parent
) SELECT id FROM above"""


class Messages:
    """Reads and writes messages. Ids that are not there raise KeyError: the caller has mixed something up."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._database, self._now = database, now

    # Reading

    def get(self, message: int) -> Message:
        """One message, removed or not."""
        rows = self._database.read(f"SELECT {_COLUMNS} FROM message m WHERE m.id = ?", (message,))
        if not rows:
            raise KeyError(f"there is no message {message}")
        return self._message(rows[0])

    def branch(self, conversation: int) -> list[Message]:
        """The messages that are shown, from the first question on."""
        return [self._message(row) for row in self._database.read(BRANCH_MESSAGES, {"conversation": conversation})]

    def variants(self, message: int) -> list[Message]:
        """All tries at the message's place, oldest first, itself among them unless it is removed."""
        statement = f"""SELECT {_COLUMNS} FROM message m JOIN message here ON here.id = ?
            WHERE m.conversation = here.conversation AND m.parent IS here.parent AND m.removed_by IS NULL
            ORDER BY m.id"""
        return [self._message(row) for row in self._database.read(statement, (message,))]

    # Writing

    def ask(self, text: str, conversation: int | None = None) -> Message:
        """A question at the end of the current branch; with no conversation, the first of a new one, named after it."""
        with self._database.writing() as connection:
            if conversation is None:
                conversation = add_conversation(connection, title_from(storable(text)), self._now())
            ends = self._database.read(_BRANCH_END, {"conversation": conversation})
            return self._add(connection, conversation, ends[0]["id"] if ends else None, Role.USER, text)

    def edit(self, message: int, text: str) -> Message:
        """Another wording of a message, as a new variant that is chosen; the old one keeps what followed it."""
        old = self.get(message)
        with self._database.writing() as connection:
            return self._add(connection, old.conversation, old.parent, old.role, text)

    def begin_reply(self, question: int, figures: Figures | None = None) -> ReplyWriter:
        """A reply to stream into; where the question has one already, a variant of it that is chosen."""
        asked, figures = self.get(question), figures or Figures()
        with self._database.writing() as connection:
            reply = self._add(
                connection, asked.conversation, question, Role.ASSISTANT, "", MessageState.STREAMING, figures
            )
        return ReplyWriter(self._database, reply.id, self._now)

    def continue_reply(self, message: int) -> ReplyWriter:
        """Go on writing a reply that was cut or stopped; its text so far stays."""
        with self._database.writing() as connection:
            settle(connection, message)
            connection.execute("UPDATE message SET state = ? WHERE id = ?", (MessageState.STREAMING, message))
        return ReplyWriter(self._database, message, self._now)

    def choose(self, message: int) -> None:
        """Show this variant, and what followed it when it was last shown."""
        with self._database.writing() as connection:
            connection.execute(_CHOOSE, (message,))

    def beside(self, message: int, by: int) -> Message:
        """Choose the next variant (`by` 1) or the previous one (-1); at the ends, the same again."""
        variants = self.variants(message)
        place = next(index for index, variant in enumerate(variants) if variant.id == message)
        found = variants[max(0, min(len(variants) - 1, place + by))]
        self.choose(found.id)
        return found

    def reveal(self, message: int) -> None:
        """Choose the branch that leads to this message."""
        with self._database.writing() as connection:
            for row in connection.execute(_ANCESTORS, (message,)).fetchall():
                connection.execute(_CHOOSE, (row["id"],))

    def remove(self, message: int) -> None:
        """Take a message away, and what follows it; `restore` brings both back."""
        with self._database.writing() as connection:
            connection.execute(
                f"{_SUBTREE} UPDATE message SET removed_by = ?, removed_at = ? "
                "WHERE id IN (SELECT id FROM subtree) AND removed_by IS NULL",
                (message, message, self._now()),
            )

    def restore(self, message: int) -> None:
        """Undo `remove`. What was removed below it before stays away; so does everything while one above it is."""
        with self._database.writing() as connection:
            above = connection.execute(
                "SELECT p.removed_by, p.removed_at FROM message m JOIN message p ON p.id = m.parent WHERE m.id = ?",
                (message,),
            ).fetchone()
            by, at = tuple(above) if above else (None, None)
            connection.execute(
                "UPDATE message SET removed_by = ?, removed_at = ? WHERE removed_by = ?", (by, at, message)
            )

    # Rows

    def _add(
        self,
        connection: sqlite3.Connection,
        conversation: int,
        parent: int | None,
        role: Role,
        text: str,
        state: MessageState = MessageState.COMPLETE,
        figures: Figures | None = None,
    ) -> Message:
        now = self._now()
        number = connection.execute(
            "INSERT INTO message (conversation, parent, role, text, state, figures, created, chosen) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 0) RETURNING id",
            (conversation, parent, role, storable(text), state, figures_text(figures), now),
        ).fetchone()[0]
        connection.execute(_CHOOSE, (number,))
        connection.execute("UPDATE conversation SET updated = ? WHERE id = ?", (now, conversation))
        return self.get(number)

    def _message(self, row: sqlite3.Row) -> Message:
        values: dict[str, Any] = dict(row)
        values["role"], values["state"] = Role(row["role"]), MessageState(row["state"])
        values["figures"] = None if row["figures"] is None else Figures.from_dict(json.loads(row["figures"]))
        if values["state"] is MessageState.STREAMING:
            pieces = self._database.read("SELECT text FROM piece WHERE message = ? ORDER BY id", (row["id"],))
            values["text"] += "".join(piece["text"] for piece in pieces)
        return Message(**values)


def add_conversation(
    connection: sqlite3.Connection, title: str, created: float, updated: float | None = None, *, pinned: bool = False
) -> int:
    """A new line of the list; its id."""
    return int(
        connection.execute(
            "INSERT INTO conversation (title, created, updated, pinned) VALUES (?, ?, ?, ?) RETURNING id",
            (title, created, created if updated is None else updated, pinned),
        ).fetchone()[0]
    )


def figures_text(figures: Figures | None) -> str | None:
    """The figures as they stand in their column."""
    return None if figures is None else json.dumps(figures.as_dict())
