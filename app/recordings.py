"""A reply and how it was decoded, as a file that opens without any model: a header, then the events, a line each.

A file whose name ends in `.gz` is compressed; reading tells by its first bytes. Reading is strict, and says what is
wrong in one sentence. Knows nothing of widgets or of how events are drawn.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from medusa_core.errors import ConfigError, MedusaError
from medusa_core.events import Event, Finished, Prefilled, Step, read_log, write_log
from medusa_core.model_info import Measured, ModelInfo

SUFFIXES = (".jsonl.gz", ".jsonl")
EXAMPLES = Path(__file__).resolve().parent.parent / "resources" / "recordings"
_FORMAT = "medusa-recording"
_VERSION = 1
_MOST_BYTES = 256 * 2**20  # decompressed: a reply of 100 000 tokens has less


class RecordingError(MedusaError, ValueError):
    """A file is no recording, is broken, or was written by a newer program."""


@dataclass(frozen=True)
class Recording:
    """One reply."""

    question: str
    info: ModelInfo  # the model that wrote it
    rule: str  # the acceptance rule in a word or two
    settings: tuple[tuple[str, str], ...]  # how it was decoded, as people read it
    events: tuple[Event, ...]
    recorded: str = ""  # the day, YYYY-MM-DD
    title: str = field(default="", compare=False)  # of the file; not in it

    @property
    def steps(self) -> tuple[Step, ...]:
        """The decoding steps."""
        return tuple(event for event in self.events if isinstance(event, Step))


def examples() -> list[Path]:
    """The recordings that come with the app."""
    return sorted(path for path in EXAMPLES.glob("*") if path.name.endswith(SUFFIXES))


def title_of(path: Path) -> str:
    """A file's name for people."""
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("-", " ")


def save(recording: Recording, path: Path) -> None:
    """Write the file; it is there wholly or not at all. Raises OSError."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "recorded": recording.recorded,
        "question": recording.question,
        "rule": recording.rule,
        "settings": dict(recording.settings),
        "model": asdict(recording.info),
    }
    lines = [json.dumps(header, ensure_ascii=False), *write_log(recording.events), ""]
    data = "\n".join(lines).encode("utf-8")
    part = path.with_name(f"{path.name}.part")
    # No time in the compressed file: the same recording is the same bytes.
    part.write_bytes(gzip.compress(data, 9, mtime=0) if path.name.endswith(".gz") else data)
    os.replace(part, path)


def load(path: Path) -> Recording:
    """Read the file. Raises RecordingError saying what is wrong and what to do."""
    try:
        lines = _text(path).split("\n")  # `splitlines` would also cut inside of a text
        header = _header(lines[0] if lines else "")
        events = tuple(_events(lines[1:]))
        return Recording(
            question=_string(header, "question"),
            info=_info(header.get("model")),
            rule=_string(header, "rule"),
            settings=tuple((str(name), str(value)) for name, value in dict(header["settings"]).items()),
            events=events,
            recorded=_string(header, "recorded"),
            title=title_of(path),
        )
    except RecordingError as error:
        raise RecordingError(f"{path.name} cannot be opened: {error}") from error
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    except (ConfigError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RecordingError(f"{path.name} is damaged: {error}. Record the reply again.") from error


def _text(path: Path) -> str:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            data = (gzip.GzipFile(fileobj=file) if zipped else file).read(_MOST_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RecordingError(f"the compressed file is damaged ({error}). Copy it again.") from error
    if len(data) > _MOST_BYTES:
        raise RecordingError(f"it holds more than {_MOST_BYTES // 2**20} MB, more than any reply.")
    return data.decode("utf-8")


def _header(line: str) -> dict[str, Any]:
    try:
        header: Any = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise RecordingError("it is not a recording of Medusa Chat.")
    version = header.get("version")
    if version != _VERSION:
        newer = isinstance(version, int) and version > _VERSION
        way = "Update Medusa Chat to open it." if newer else "Record the reply again."
        raise RecordingError(f"it has version {version!r}, and this program reads version {_VERSION}. {way}")
    return header


def _events(lines: Sequence[str]) -> list[Event]:
    events = list(read_log(lines))
    if not any(isinstance(event, Step) for event in events):
        raise RecordingError("it holds no decoding step. Record the reply again.")
    for number, step in enumerate(event for event in events if isinstance(event, Step)):
        if step.index != number:
            raise RecordingError(f"step {number + 1} is missing or out of order. Record the reply again.")
        _check(step)
    if not isinstance(events[-1], Finished) or not isinstance(events[0], Prefilled):
        raise RecordingError("its beginning or its end is missing. Record the reply again.")
    return events


def _check(step: Step) -> None:
    """What drawing relies on: parents come before their children, one deeper, and the path runs through them."""
    nodes, place = step.nodes, f"step {step.index + 1}"
    right = bool(nodes) and nodes[0].depth == 0 and step.path[:1] == (0,)
    for index, node in enumerate(nodes[1:], 1):
        right = right and 0 <= node.parent < index and node.depth == nodes[node.parent].depth + 1
    for before, after in zip(step.path, step.path[1:], strict=False):
        right = right and 0 < after < len(nodes) and nodes[after].parent == before
    if not right or len(step.spans) != len(step.token_ids):
        raise RecordingError(f"the tree of {place} is broken. Record the reply again.")


def _info(data: Any) -> ModelInfo:
    if not isinstance(data, dict):
        raise RecordingError("it does not say which model wrote the reply. Record the reply again.")
    known = {entry.name for entry in fields(ModelInfo)}
    values = {name: value for name, value in data.items() if name in known}
    measured = values.pop("measured", {})
    return ModelInfo(**values, measured=Measured(**{name: _tuples(value) for name, value in measured.items()}))


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _string(header: dict[str, Any], name: str) -> str:
    value = header.get(name)
    if not isinstance(value, str):
        raise RecordingError(f"its header has no {name!r}. Record the reply again.")
    return value
