"""Files of earlier versions become ones of this, and queries stay quick."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from app.conversations import ConversationStore
from app.conversations.schema import VERSIONS, migrate, version_of
from app.conversations.store import FILE_NAME

Shown = Callable[[ConversationStore, int], list[str]]


def version_1(path: Path) -> None:
    """A file as the first version wrote it."""
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, VERSIONS[:1])
    connection.execute("INSERT INTO conversation (title, created, updated) VALUES ('Große Katzen', 1, 2)")
    for row in ((1, None, "user", "Wie groß?", "complete"), (1, 1, "assistant", "Sehr gr", "streaming")):
        connection.execute(
            "INSERT INTO message (conversation, parent, role, text, state, created, chosen) "
            "VALUES (?, ?, ?, ?, ?, 1, 1)",
            row,
        )
    connection.execute("INSERT INTO piece (message, text) VALUES (2, 'oß.')")
    connection.close()


def test_a_file_of_version_1_becomes_one_of_this(folder: Path, shown: Shown) -> None:
    version_1(folder / FILE_NAME)
    store = ConversationStore(folder)
    assert shown(store, 1) == ["Wie groß?", "Sehr groß."]
    assert store.cut_replies == [2]
    assert [hit.message for hit in store.search("große")] == [None]
    assert {hit.message for hit in store.search("groß")} == {None, 1, 2}
    store.close()


def test_a_migration_that_fails_leaves_the_old_version_whole(folder: Path) -> None:
    path = folder / FILE_NAME
    version_1(path)
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (*VERSIONS, ("CREATE TABLE extra (a)", "nonsense")))
    assert version_of(connection) == len(VERSIONS)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert "extra" not in tables
    assert connection.execute("SELECT text FROM message WHERE id = 1").fetchone()[0] == "Wie groß?"
    connection.close()


@pytest.mark.parametrize("name", ["LIST", "BRANCH_MESSAGES"])
def test_queries_use_their_index(store: ConversationStore, name: str) -> None:
    from app.conversations import messages
    from app.conversations import store as stores

    statement = getattr(stores if name == "LIST" else messages, name)
    plan = store.database.read(f"EXPLAIN QUERY PLAN {statement}", {"conversation": 1})
    scans = [row["detail"] for row in plan if row["detail"].startswith("SCAN")]
    assert all("branch" in scan or "USING INDEX" in scan or "CONSTANT" in scan for scan in scans), scans
    sorts = [row["detail"] for row in plan if "TEMP B-TREE" in row["detail"]]
    assert name == "BRANCH_MESSAGES" or not sorts
