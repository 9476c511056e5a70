"""What Python was doing when the process died, written by faulthandler and found at the next start.

The file holds a header and the functions that each thread was in: no text of any conversation. It is removed where
the app ends as it should. Knows nothing of windows, or of what the app does.
"""

from __future__ import annotations

import faulthandler
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

FILE_NAME = "crash.log"
KEPT = 5  # logs of earlier crashes, the newest
_LONGEST = 200_000  # characters that are shown


class CrashLog:
    """The log of this process, and what an earlier one left; call only while holding the profile."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._file: TextIO | None = None
        self.found: Path | None = None  # the log of a process that crashed
        with suppress(OSError):
            if self._path.is_file() and _tells_of_a_crash(self._path):
                self.found = _set_aside(self._path)

    def read(self) -> str:
        """What was found; "" for nothing."""
        try:
            return self.found.read_text(encoding="utf-8", errors="replace")[:_LONGEST] if self.found else ""
        except OSError:
            return ""

    def begin(self, facts: Sequence[str]) -> bool:
        """Have this process' end written down, `facts` above it; False where the folder takes no file."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
            self._file.write("".join(f"{line}\n" for line in (*facts, *_about_the_machine(), "")))
            self._file.flush()  # faulthandler writes past Python's buffer
        except OSError:
            self._file = None  # the folder is read-only, or the disk is full
            return False
        faulthandler.enable(self._file, all_threads=True)
        return True

    def end(self) -> None:
        """All is well: nothing is left to be found."""
        if self._file is None:
            return
        faulthandler.disable()
        self._file.close()
        self._file = None
        with suppress(OSError):
            self._path.unlink()


def _tells_of_a_crash(path: Path) -> bool:
    """A process that was killed from outside, or lost its power, leaves a header alone: there is nothing to report."""
    return "\nThread 0x" in (text := path.read_text(encoding="utf-8", errors="replace")) or "\nFatal " in text


def _set_aside(path: Path) -> Path:
    """Give the log a name of its own, by the time of the crash; of the earlier ones the newest stay."""
    when = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(path.stat().st_mtime))
    aside, number = path.with_name(f"crash-{when}.log"), 2
    while aside.exists():
        aside, number = path.with_name(f"crash-{when}-{number}.log"), number + 1
    path.replace(aside)
    for old in sorted(path.parent.glob("crash-*.log"))[:-KEPT]:
        old.unlink()
    return aside


def _about_the_machine() -> tuple[str, ...]:
    return (
        f"Python {platform.python_version()}, {platform.platform()}, {platform.machine()}",
        f"Started {time.strftime('%Y-%m-%d %H:%M:%S %z')} as {Path(sys.executable).name}",
    )
