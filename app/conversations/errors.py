"""What can go wrong with the store, each with its name.

    MedusaError
    └── StoreError (OSError)    the conversations cannot be read or written
        ├── AlreadyOpen         another process keeps them open
        ├── StoreTooNew         a newer version of the app wrote them
        ├── StoreReadOnly       the folder or the file takes no writing
        └── StoreDamaged        the file is broken; opening the store again keeps it aside
    DiskFull (OSError)          of the library: no room to write
    ImportDamaged (ValueError)  a file to import is not one of ours, or is broken

Turns the errors of SQLite into these. Knows nothing of tables.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import DiskFull, MedusaError


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that keeps a store open."""

    pid: int
    address: str  # where it listens: the name of its local socket; "" where it does not


class StoreError(MedusaError, OSError):
    """The conversations cannot be read or written."""


class AlreadyOpen(StoreError):
    """Another process keeps the conversations open."""

    def __init__(self, folder: Path, owner: Owner | None) -> None:
        who = f"process {owner.pid}" if owner else "another process"
        super().__init__(f"The conversations in {folder} are open in {who}. Use its window, or start with --profile.")
        self.owner = owner  # None where the other one has not yet said who it is


class StoreTooNew(StoreError):
    """A newer version of the app wrote the conversations."""


class StoreReadOnly(StoreError):
    """The folder or the file of the conversations takes no writing."""


class StoreDamaged(StoreError):
    """The file of the conversations is broken."""


class ImportDamaged(MedusaError, ValueError):
    """A file to import is not one of ours, or is broken; nothing of it was taken over."""


_PRIMARY = 0xFF  # SQLite keeps details in the higher bits of its error codes
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary error code; Python's own refusals have none: 0."""
    return int(getattr(error, "sqlite_errorcode", 0)) & _PRIMARY


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken."""
    return code_of(error) in _DAMAGED


def translated(error: sqlite3.Error, path: Path) -> MedusaError:
    """The error in this house's terms."""
    code = code_of(error)
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"The disk of {path.parent} is full: the newest text is not saved yet. Make room for it.")
    if code in _READ_ONLY:
        return StoreReadOnly(
            f"{path} cannot be written, so conversations are not saved ({error}). "
            "Make the folder writable, or start with --profile and another one."
        )
    if code in _DAMAGED:
        return StoreDamaged(
            f"{path} is damaged ({error}). Start the app again: it keeps the file and begins a new one."
        )
    return StoreError(f"The conversations in {path} could not be read or saved ({error}). Try again.")
