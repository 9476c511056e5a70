"""One program at a time works on one model of the library: a lock for each name.

Knows nothing of what is done meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medusa_core.errors import LibraryError

LOCKS = ".locks"  # folder of the library


@contextmanager
def alone(cache: Path, name: str, refusal: str) -> Iterator[None]:
    """Hold the lock of the model `name` in the library at `cache`; raises LibraryError(refusal) where another does.

    The lock's file stays: were it removed, one program could lock the file that is gone, and the next a new one.
    """
    from filelock import FileLock, Timeout

    folder = (cache / name).parent
    if folder != cache and folder.is_symlink():
        raise LibraryError(f"{folder} is a link, and links are not followed. Remove it.")
    (cache / LOCKS).mkdir(parents=True, exist_ok=True)
    # No model's name has a % in it. It may be let go of by another thread than took it: a download can be paused there.
    lock = FileLock(cache / LOCKS / f"{name.replace('/', '%')}.lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise LibraryError(refusal) from error
    try:
        yield
    finally:
        lock.release()
