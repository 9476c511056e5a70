"""One process at a time: a lock in the profile, and beside it who holds it. Knows nothing of what the profile holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

from filelock import FileLock, Timeout

from app.conversations.errors import AlreadyOpen, Owner, StoreReadOnly


class ProfileLock:
    """Held from construction to `release`; the system lets go of it when the process dies."""

    def __init__(self, folder: Path, address: str = "") -> None:
        """Raises AlreadyOpen with the other process, and StoreReadOnly where the folder takes no lock."""
        self._owner_file = folder / "conversations.owner"
        self._lock = FileLock(folder / "conversations.lock", timeout=0)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise AlreadyOpen(folder, self._read_owner()) from None
        except OSError as error:
            raise StoreReadOnly(
                f"{folder} cannot be written, so conversations are not saved ({error.strerror or error}). "
                "Make the folder writable, or start with --profile and another one."
            ) from error
        self._write_owner(Owner(os.getpid(), address))

    def release(self) -> None:
        """Let the next process in."""
        if self._lock.is_locked:
            self._owner_file.unlink(missing_ok=True)
            self._lock.release()

    def _write_owner(self, owner: Owner) -> None:
        # A file of its own: Windows lets nobody read the locked one. Its absence only costs the second process the
        # way to the first's window, so a disk with no room for it is no reason to fail.
        try:
            self._owner_file.write_text(json.dumps({"pid": owner.pid, "address": owner.address}), encoding="utf-8")
        except OSError:
            self._owner_file.unlink(missing_ok=True)

    def _read_owner(self) -> Owner | None:
        try:
            data = json.loads(self._owner_file.read_text(encoding="utf-8"))
            return Owner(int(data["pid"]), str(data["address"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
