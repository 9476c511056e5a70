"""Is there room, may we write, and are we alone? Asked before hours of work, not after them.

Knows nothing of what is going to be written or held in memory.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from medusa_core.errors import ConfigError, DiskFull, OutOfMemory, TrainingError
from medusa_core.heads.checkpoint import FORMAT

_SPARE_DISK_BYTES = 64 * 2**20
LOCK = "training.lock"


@contextmanager
def exclusive(folder: Path, rank: int = 0) -> Iterator[None]:
    """Keep the folder to one training. Raises TrainingError where another one holds it, ConfigError if unwritable.

    Of a training of several processes only `rank` 0 takes the lock, for all of them. The system gives it back when
    the process ends, also when killed; the file that may then be left is no lock.
    """
    if rank:
        yield
        return
    check_writable(folder)
    # Not bound to a thread: a generator that holds it may be closed by another one.
    import filelock

    lock = filelock.FileLock(folder / LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise TrainingError(
            f"Another training is using {folder}. Wait for its end, or stop it, or choose another folder."
        ) from error
    try:
        yield
    finally:
        lock.release()


def check_out(folder: Path) -> None:
    """Refuse a place for new heads that cannot be written, or that holds anything but heads. Raises ConfigError."""
    check_writable(folder.absolute().parent)
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ConfigError(f"{folder} exists and holds no heads, so it is not overwritten. Choose another folder.")


def check_writable(folder: Path) -> None:
    """Make the folder and try to write there. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written ({error.strerror}). Choose another folder.") from error


def check_disk(folder: Path, needed: int, what: str) -> None:
    """Raises DiskFull where the disk that holds `folder` has not `needed` bytes left for `what`."""
    free = shutil.disk_usage(folder).free
    if needed + _SPARE_DISK_BYTES > free:
        raise DiskFull(
            f"{what} need about {needed / 2**30:.1f} GiB, and the disk that holds {folder} has {free / 2**30:.1f} GiB "
            "free. Free some space, have fewer tokens written, or choose a folder on another disk."
        )


def check_memory(device: torch.device, needed: int, what: str, way_on: str) -> None:
    """Raises OutOfMemory where the device has not `needed` bytes free for `what`."""
    import psutil

    available = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > available:
        raise OutOfMemory(
            f"{what} need about {needed / 2**30:.1f} GiB of memory, and {available / 2**30:.1f} GiB are free. {way_on}"
        )
