"""One SQLite file: opened, checked, brought up to date; read and written with named errors.

Not safe for several threads: the one that opened it is the only one to use it, and SQLite refuses the others. Knows
nothing of conversations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.conversations.errors import StoreTooNew, is_damage, translated
from app.conversations.schema import VERSIONS, migrate, rebuild_indexes, version_of

_ALWAYS_CHECKED = 32 * 1024 * 1024  # bytes; checking a file of this size takes some tens of milliseconds


class Database:
    """A connection in write-ahead mode: what was committed survives a killed process without a flush per commit."""

    def __init__(self, path: Path, *, in_memory: bool = False) -> None:
        """Raises a StoreError or DiskFull. A damaged file is kept aside, and a new one begun.

        `in_memory`: work on a copy of what can be read of the file, and write nothing to the disk.
        """
        self.path = path
        self.kept_aside: Path | None = None  # where the damaged file went, if there was one
        self._suspect = path.with_suffix(".suspect")  # left by a process that met damage: check, whatever the size
        try:
            if in_memory:
                self._connection = _copy_of(path)
                return
            try:
                self._connection = self._open()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self.kept_aside = keep_aside(path)
                self._connection = self._open()
        except sqlite3.Error as error:
            raise translated(error, path) from error
        self._suspect.unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        journal = self.path.with_name(self.path.name + "-wal")
        size = self.path.stat().st_size if self.path.exists() else 0
        left_open = journal.exists() and journal.stat().st_size > 0
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA busy_timeout = 2000")
            _refuse_newer(connection, self.path)
            if size and (left_open or size <= _ALWAYS_CHECKED or self._suspect.exists()):
                _check(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection)
            if self._suspect.exists():
                rebuild_indexes(connection)  # the check does not look into them
        except BaseException:
            connection.close()
            raise
        return connection

    def read(self, statement: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._named(error) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: everything in it is written, or nothing. One inside another is part of it."""
        if self._in_transaction():
            yield self._connection
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._in_transaction():  # a full disk may have ended it already
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._named(error) from error

    def _in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        """Write everything into the one file. Does not raise: what was committed is safe in the journal, too."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA optimize")
        self._connection.close()

    def _named(self, error: sqlite3.Error) -> Exception:
        if is_damage(error):
            with suppress(OSError):
                self._suspect.touch()
        return translated(error, self.path)


def _copy_of(path: Path) -> sqlite3.Connection:
    """A database in memory with what the file holds; an empty one where the file cannot be read, or is not ours."""
    for way in ("mode=ro", "immutable=1") if path.exists() else ():  # the second reads where no journal can be made
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            source = sqlite3.connect(f"{path.absolute().as_uri()}?{way}", uri=True)
            try:
                source.backup(connection)
            finally:
                source.close()
            _check(connection)
            return _ready(connection, path)
        except (sqlite3.Error, StoreTooNew):
            connection.close()
    return _ready(sqlite3.connect(":memory:", isolation_level=None), path)


def _ready(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    _refuse_newer(connection, path)
    connection.execute("PRAGMA foreign_keys = ON")
    migrate(connection)
    return connection


def _refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    if (version := version_of(connection)) > len(VERSIONS):
        raise StoreTooNew(
            f"{path} was written by a newer version of the app (its version is {version}, this one reads "
            f"{len(VERSIONS)}). It was left as it is: update the app, or start with --profile and another one."
        )


def _check(connection: sqlite3.Connection) -> None:
    """Raises DatabaseError with SQLite's own code for damage where the file is broken, or not one of ours."""
    problems = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    version = version_of(connection)
    if problems == "ok" and version == 0 and tables:
        problems = "it is a database of something else"
    if problems == "ok" and version and not {"conversation", "message", "piece", "steps"} <= tables:
        problems = "tables are missing"
    if problems != "ok":
        error = sqlite3.DatabaseError(problems)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def keep_aside(path: Path) -> Path:
    """Rename a damaged file, and the journal that belongs to it; earlier ones kept aside stay too."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.broken-{number}{path.suffix}")).exists():
        number += 1
    for ending in ("-wal", "-shm", ""):  # the file last: a half-done rename is then taken up again
        source = path.with_name(path.name + ending)
        if source.exists():
            source.replace(aside.with_name(aside.name + ending))
    return aside
