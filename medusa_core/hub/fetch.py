"""One file from the Hub onto the disk: by ranges into a `.part`, hashed on the way, renamed when it is right.

A part that a pause, a lost connection or a killed program left is hashed and gone on with: only the rest is
transferred. Knows nothing of models or of what the file is for.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.disk import flush_file, is_full
from medusa_core.errors import DiskFull, DownloadDamaged
from medusa_core.events import Progress
from medusa_core.hub.client import DownloadProgress, HubClient, TryAgainError
from medusa_core.hub.listing import RemoteFile

if TYPE_CHECKING:
    import httpx2

PART = ".part"

_CHUNK = 4 * 2**20
_SAY_SECONDS = 0.1  # between two words of progress
_RATE_SECONDS = 5.0  # the time that the rate is taken over
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Meter:
    """Counts the bytes of a whole download, and how fast they come."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self.total, self.done = total, 0
        self._clock, self._said = clock, float("-inf")
        self._moments: deque[tuple[float, int]] = deque()
        self._arrived = 0

    def arrived(self, size: int) -> None:
        """Bytes came over the connection."""
        self._arrived += size
        now = self._clock()
        self._moments.append((now, self._arrived))
        while now - self._moments[0][0] > _RATE_SECONDS and len(self._moments) > 2:
            self._moments.popleft()

    @property
    def due(self) -> bool:
        """Whether it is time to say something again."""
        return self._clock() - self._said >= _SAY_SECONDS

    def progress(self, stage: str, done: int) -> DownloadProgress:
        """Where the whole download is when `done` bytes of it are there."""
        self._said = self._clock()
        rate = 0.0
        if len(self._moments) > 1:
            (since, before), (now, after) = self._moments[0], self._moments[-1]
            rate = (after - before) / (now - since) if now > since else 0.0
        return DownloadProgress(stage, done, self.total, "bytes", rate)


class _Arriving:
    """The bytes of one file as they come: hashed, counted, written."""

    def __init__(self, file: RemoteFile, part: Path) -> None:
        self.file, self.part = file, part
        self.furthest = 0  # that any try has come
        self.restart()

    def restart(self) -> None:
        self.size = 0
        self.sha256 = hashlib.sha256()
        # Git's own hash of small files; it stands for identity here, not for secrecy.
        self.blob = hashlib.sha1(b"blob %d\0" % self.file.size, usedforsecurity=False)

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.furthest = max(self.furthest, self.size)
        self.sha256.update(data)
        if not self.file.sha256:
            self.blob.update(data)

    @property
    def right(self) -> bool:
        found = self.sha256.hexdigest() if self.file.sha256 else self.blob.hexdigest()
        return self.size == self.file.size and found == self.file.key


def fetch(
    client: HubClient, repo: str, commit: str, file: RemoteFile, target: Path, meter: Meter
) -> Generator[Progress, None, str]:
    """Bring one file to `target`; returns its sha256. `meter.done` grows by its size at the end.

    Closing the generator pauses: the part stays. Raises DiskFull, DownloadDamaged, HubError.
    """
    stage = f"Downloading {file.name}"
    arriving = _Arriving(file, target.with_name(target.name + PART))
    yield from _read_part(arriving, meter)
    patience, begun_anew = client.patience(), False
    while True:
        try:
            if arriving.size < file.size or not arriving.part.exists():
                yield from _transfer(client, repo, commit, arriving, meter, stage, patience.progressed)
        except TryAgainError as problem:
            yield from patience.wait(problem, meter.done + arriving.size, meter.total)
            continue
        if arriving.right:
            break
        arriving.part.unlink(missing_ok=True)
        if begun_anew:
            raise DownloadDamaged(
                f"{file.name} of {repo} does not match its checksum on the Hub, not even when fetched anew: expected "
                f"{file.key[:12]}…, got {(arriving.sha256 if file.sha256 else arriving.blob).hexdigest()[:12]}…. "
                "The connection or a proxy changes it; try another network, or later."
            )
        begun_anew = True
        arriving.restart()
        yield meter.progress(f"{file.name} arrived damaged; fetching it once more", meter.done)
    flush_file(arriving.part)
    arriving.part.replace(target)
    meter.done += file.size
    yield meter.progress(stage, meter.done)
    return arriving.sha256.hexdigest()


def _read_part(arriving: _Arriving, meter: Meter) -> Generator[DownloadProgress, None, None]:
    """Hash what an earlier try left; what cannot be the beginning of the file is dropped."""
    part = arriving.part
    if not part.is_file() or part.is_symlink() or part.stat().st_size > arriving.file.size:
        part.unlink(missing_ok=True)
        return
    with part.open("rb") as source:
        while chunk := source.read(_CHUNK):
            arriving.add(chunk)
            yield meter.progress(f"Reading what is there of {arriving.file.name}", meter.done + arriving.size)


def _transfer(
    client: HubClient,
    repo: str,
    commit: str,
    arriving: _Arriving,
    meter: Meter,
    stage: str,
    progressed: Callable[[], None],
) -> Generator[DownloadProgress, None, None]:
    """One request for the rest of the file. Raises TryAgainError where the connection ends before the file does."""
    file = arriving.file
    with client.open(client.file_url(repo, commit, file.name), repo, file.name, arriving.size) as response:
        if response.status_code == 416:  # there is nothing from here on: what is there is no part of this file
            arriving.part.unlink(missing_ok=True)
            arriving.restart()
            raise TryAgainError(f"The Hub has nothing more of {file.name}; beginning anew", after=0.0)
        _check_start(response, arriving)
        yield meter.progress(stage, meter.done + arriving.size)
        try:
            with arriving.part.open("ab" if arriving.size else "wb") as part:
                for data in response.iter_bytes():
                    if arriving.size + len(data) > file.size:
                        # More than there is: not this file. The checksum says so, and it is fetched anew.
                        arriving.size = file.size + 1
                        return
                    _write(part, data)
                    before = arriving.furthest
                    arriving.add(data)
                    meter.arrived(len(data))
                    if arriving.furthest > before:  # the same bytes once more are no progress
                        progressed()
                    if meter.due:
                        yield meter.progress(stage, meter.done + arriving.size)
        except OSError as error:
            if is_full(error):
                raise DiskFull(
                    f"The disk is full: {file.size - arriving.size:,} bytes of {file.name} are missing. Free some "
                    f"space at {arriving.part.parent} and get the model again; it goes on where it stopped."
                ) from error
            raise
    if arriving.size < file.size:
        raise TryAgainError(f"The connection ended {file.size - arriving.size:,} bytes early")


def _write(part: Any, data: bytes) -> None:
    part.write(data)
    part.flush()  # what a killed program leaves is all that had come


def _check_start(response: httpx2.Response, arriving: _Arriving) -> None:
    """Make what follows start where the part ends: a server may ignore the range and send everything."""
    if response.status_code == 206:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        total = found.group(3) if found else "*"
        if found is None or int(found.group(1)) != arriving.size or total not in ("*", str(arriving.file.size)):
            arriving.part.unlink(missing_ok=True)
            arriving.restart()
            raise TryAgainError(f"The Hub sent another part of {arriving.file.name} than was asked for")
    elif arriving.size:
        arriving.restart()
