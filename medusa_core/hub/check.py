"""Is a model of the library whole: its files against what arrived, its weights' headers, its configuration.

Knows nothing of connections or of how models are loaded.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import LibraryError, ModelUnsupported
from medusa_core.events import Progress
from medusa_core.hub.library import Installed
from medusa_core.hub.listing import is_file_name, is_weights
from medusa_core.hub.manifest import Manifest, hash_files, read_manifest
from medusa_core.weight_files import read_header

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "vocab.txt")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found."""

    name: str
    files: int  # that were compared with their checksums; 0: there are none to compare with
    tensors: int  # in headers that could be read
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Nothing is wrong with it."""
        return not self.problems


def check(found: Installed) -> Generator[Progress, None, CheckReport]:
    """Read everything a model has on the disk and compare it with what arrived, as far as that was written down."""
    folder, problems = found.folder, []
    manifest: Manifest | None = None
    try:
        manifest = read_manifest(folder)
    except LibraryError as error:
        problems.append(str(error))
    if manifest is not None:
        problems += yield from _compare(folder, manifest)
    problems += _configuration(found)
    tensors = 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            tensors += len(read_header(path))
        except ModelUnsupported as error:
            problems.append(str(error))
    problems += _index(folder)
    return CheckReport(found.name, len(manifest.files) if manifest else 0, tensors, tuple(dict.fromkeys(problems)))


def _compare(folder: Path, manifest: Manifest) -> Generator[Progress, None, list[str]]:
    problems, to_read = [], []
    for name, record in manifest.files.items():
        path = folder / name
        if not (is_file_name(name) and path.is_file()):
            problems.append(f"{name} is missing")
        elif path.stat().st_size != record.size:
            problems.append(f"{name} has {path.stat().st_size:,} bytes and arrived with {record.size:,}")
        else:
            to_read.append(name)
    now = yield from hash_files(folder, to_read, "Reading")
    return problems + [f"{name} is not what arrived" for name in to_read if now[name] != manifest.files[name]]


def _configuration(found: Installed) -> list[str]:
    problems = []
    if found.kind == "heads" and not (found.folder / "config.json").exists():
        return []  # published heads can do without: everything is in their tensors
    try:
        config: Any = json.loads((found.folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return [f"config.json cannot be read: {error}"]
    if not isinstance(config, dict):
        return ["config.json describes nothing"]
    if found.kind == "model":
        if not isinstance(config.get("model_type"), str):
            problems.append("config.json names no model_type")
        if not any((found.folder / name).is_file() for name in _TOKENIZERS):
            problems.append("there is no tokenizer")
    if not any(is_weights(path.name) for path in found.folder.iterdir()):
        problems.append("there are no weights")
    return problems


def _index(folder: Path) -> list[str]:
    """Files of weights that the index names and that are not there."""
    problems = []
    for path in sorted(folder.glob("*.index.json")):
        try:
            index: Any = json.loads(path.read_text(encoding="utf-8"))
            named = {str(name) for name in index["weight_map"].values()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(f"{path.name} cannot be read: {error}")
            continue
        problems += [f"{name} is missing" for name in sorted(named) if not (folder / name).is_file()]
    return problems
