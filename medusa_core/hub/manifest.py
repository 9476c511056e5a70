"""What the library knows of a model beyond its files: where it came from, its licence, every file's size and sha256.

Written once, when a model arrives; read when models are listed and checked. Knows nothing of connections.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from medusa_core.errors import LibraryError
from medusa_core.events import Progress

FILE = "medusa-model.json"

Source = Literal["hub", "folder", "gguf"]

_VERSION = 1
_CHUNK = 4 * 2**20
_KEYS = {"version", "source", "origin", "revision", "commit", "licence", "added", "files"}


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was when it arrived."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Where a model came from, and what its files are."""

    source: Source
    origin: str  # ORG/NAME, or ORG/NAME and a file, or a path on this machine
    files: dict[str, FileRecord]
    revision: str = ""
    commit: str = ""
    licence: str = ""  # as the card says it; "" where it says nothing
    added: str = ""  # ISO 8601, UTC


def now() -> str:
    """The time, as `added` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, whole or not at all."""
    path, partial = folder / FILE, folder / f"{FILE}.new"
    text = json.dumps({"version": _VERSION, **asdict(manifest)}, indent=2, ensure_ascii=False)
    with partial.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where it has none. Raises LibraryError for one that is broken."""
    path = folder / FILE
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LibraryError(f"{path} cannot be read ({error}). Get or import the model again.") from error
    try:
        if set(found) != _KEYS or found["version"] != _VERSION or found["source"] not in ("hub", "folder", "gguf"):
            raise ValueError(f"it has {', '.join(sorted(found))}")  # noqa: TRY301
        files = {
            str(name): FileRecord(int(entry["size"]), str(entry["sha256"])) for name, entry in found["files"].items()
        }
        rest = {name: str(found[name]) for name in ("origin", "revision", "commit", "licence", "added")}
        return Manifest(source=found["source"], files=files, **rest)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LibraryError(f"{path} is broken: {error}. Get or import the model again.") from error


def hash_files(folder: Path, names: Sequence[str], stage: str) -> Generator[Progress, None, dict[str, FileRecord]]:
    """The records of files as they are now."""
    total = sum((folder / name).stat().st_size for name in names)
    done, records = 0, {}
    for name in names:
        digest, size = hashlib.sha256(), 0
        with (folder / name).open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                yield Progress(f"{stage} {name}", done + size, total, "bytes")
        done += size
        records[name] = FileRecord(size, digest.hexdigest())
    return records
