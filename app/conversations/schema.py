"""The tables of the store, version by version, and how a file of any earlier version becomes one of this.

A version is a tuple of statements, never changed once released; the number of those applied stands in the file
(`user_version`). Knows nothing of what the rows mean to the app.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

_TABLES = (
    """CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,  -- seconds since 1970, UTC
        updated REAL NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0,
        deleted REAL  -- when; NULL while it is in the list
    )""",
    # Messages form a tree: the variants of a place share a parent, and the one chosen last is on the current branch.
    # `removed_by` is the message whose removal took this one away, itself or one above it.
    """CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        parent INTEGER REFERENCES message ON DELETE CASCADE,
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        state TEXT NOT NULL,
        figures TEXT,  -- JSON
        created REAL NOT NULL,
        chosen INTEGER NOT NULL,
        removed_by INTEGER,
        removed_at REAL
    )""",
    # What a streaming message got so far, beyond its text: rows are only ever added until it is finished.
    """CREATE TABLE piece (
        id INTEGER PRIMARY KEY,
        message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
        text TEXT NOT NULL
    )""",
    """CREATE TABLE steps (
        id INTEGER PRIMARY KEY,
        message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
        number INTEGER NOT NULL,  -- of decoding steps among the events
        events BLOB NOT NULL  -- lines of the event log, compressed
    )""",
    "CREATE INDEX conversation_order ON conversation (pinned DESC, updated DESC, id DESC) WHERE deleted IS NULL",
    "CREATE INDEX message_place ON message (conversation, parent, removed_by, chosen)",
    "CREATE INDEX message_parent ON message (parent)",
    "CREATE INDEX message_unfinished ON message (state) WHERE state = 'streaming'",
    "CREATE INDEX message_removed ON message (removed_by) WHERE removed_by IS NOT NULL",
    "CREATE INDEX piece_message ON piece (message)",
    "CREATE INDEX steps_message ON steps (message)",
)


def _index(table: str, column: str, name: str) -> tuple[str, ...]:
    """A full-text index over one column, kept in step by triggers."""
    forget = f"INSERT INTO {name} ({name}, rowid, {column}) VALUES ('delete', old.id, old.{column})"
    learn = f"INSERT INTO {name} (rowid, {column}) VALUES (new.id, new.{column})"
    options = f"content='{table}', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3'"
    return (
        f"CREATE VIRTUAL TABLE {name} USING fts5({column}, {options})",
        f"CREATE TRIGGER {name}_insert AFTER INSERT ON {table} BEGIN {learn}; END",
        f"CREATE TRIGGER {name}_delete AFTER DELETE ON {table} BEGIN {forget}; END",
        f"CREATE TRIGGER {name}_update AFTER UPDATE OF {column} ON {table} BEGIN {forget}; {learn}; END",
        f"INSERT INTO {name} ({name}) VALUES ('rebuild')",
    )


_INDEXES = {
    "message_index": _index("message", "text", "message_index"),
    "title_index": _index("conversation", "title", "title_index"),
}
VERSIONS: tuple[tuple[str, ...], ...] = (
    _TABLES,
    _INDEXES["message_index"] + _INDEXES["title_index"],
)


def version_of(connection: sqlite3.Connection) -> int:
    """How many versions have been applied; 0 for a new file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, versions: Sequence[Sequence[str]] = VERSIONS) -> None:
    """Apply the versions that are missing, each wholly or not at all."""
    for number, statements in enumerate(versions[version_of(connection) :], version_of(connection) + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def rebuild_indexes(connection: sqlite3.Connection) -> None:
    """Make the full-text indexes anew from the texts; a damaged one cannot even be emptied, so it goes first."""
    for name, (create, *_triggers, fill) in _INDEXES.items():
        for statement in (f"DROP TABLE {name}", create, fill):
            connection.execute(statement)
