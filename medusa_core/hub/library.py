"""The folder of models: what is in it, how large, under which licence, when last used; and removing from it.

A model is a folder NAME or ORG/NAME in it. Nothing outside is ever touched, and links are not followed. Knows nothing
of connections or of how models are loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from medusa_core.errors import CatalogueError, LibraryError, ModelNotFound, ModelUnsupported
from medusa_core.hub.alone import alone
from medusa_core.hub.catalogue import read_catalogue
from medusa_core.hub.gguf import is_model
from medusa_core.hub.listing import is_library_name, names_heads
from medusa_core.hub.manifest import Manifest, read_manifest
from medusa_core.weight_files import read_header, weight_files

LAST_USED = ".last-used"

_TRAINED = "heads"  # folder beside the library, and first part of the names of what is in it

_DTYPES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_LICENCE = re.compile(r"^license(?:_name)?:\s*['\"]?([\w.+-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Installed:
    """A model, or heads, in the library."""

    name: str  # NAME or ORG/NAME: what --model or --heads takes
    folder: Path
    kind: Literal["model", "heads"]
    size: int  # bytes on disk
    licence: str  # "" where nothing says it
    dtype: str  # of the weights on disk; "" where nothing says it
    last_used: datetime | None
    source: str  # "hub", "folder", "gguf", or "" where there is no manifest
    origin: str
    problem: str = ""  # one sentence where something is wrong
    trained_here: bool = False  # heads that lie beside the library, as heads/NAME


def installed(cache: Path) -> list[Installed]:
    """Everything in the library, by name."""
    return sorted((_describe(name, folder) for name, folder in _folders(cache)), key=lambda found: found.name.lower())


def trained_folder(cache: Path) -> Path:
    """Where heads lie that were trained here: beside the library."""
    return cache.parent / _TRAINED


def trained(cache: Path) -> list[Installed]:
    """The heads that were trained here, by the names that they have everywhere: heads/NAME."""
    found = installed(trained_folder(cache))
    return [replace(entry, name=f"{_TRAINED}/{entry.name}", trained_here=True) for entry in found]


def trained_place(cache: Path, name: str) -> Path | None:
    """The folder of the heads trained here that are called `name`; None for other names."""
    first, _, rest = name.partition("/")
    folder = trained_folder(cache) / rest
    return folder if first == _TRAINED and is_library_name(rest) and folder.is_dir() else None


def find(cache: Path, name: str) -> Installed:
    """Something of the library, or heads that were trained here; the first of that name. Raises ModelNotFound, which
    lists what there is.
    """
    found = installed(cache) + trained(cache)
    for entry in found:
        if entry.name == name:
            return entry
    there = ", ".join(entry.name for entry in found) or "nothing"
    raise ModelNotFound(f"There is no {name!r} in the library at {cache}. There is {there}.")


def mark_used(folder: Path, cache: Path) -> None:
    """Remember that a model of the library was loaded now; what lies elsewhere is left alone."""
    with contextlib.suppress(OSError):
        if folder.resolve().is_relative_to(cache.resolve()):
            (folder / LAST_USED).touch()


def folder_size(folder: Path) -> int:
    """Bytes on disk, links not followed."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(path) / name).lstat().st_size
    return total


def remove(cache: Path, name: str) -> int:
    """Remove a model, heads (of those trained here too), or what an unfinished download left; returns the bytes that
    became free.

    A link in the library is removed itself, never what it leads to. Raises LibraryError for a name that leads out of
    the library, ModelNotFound.
    """
    folder, stage = _places(cache, name)
    if folder.parent != cache and folder.parent.is_symlink():
        raise LibraryError(f"{folder.parent} is a link, and links are not followed. Remove what it leads to yourself.")
    if folder.is_dir() and not (folder.is_symlink() or is_model(folder) or is_heads(folder)):
        raise LibraryError(f"{folder} is no model's folder, so it is left alone. Remove it yourself.")
    if not _there(folder, stage):
        if trained_place(cache, name) is not None:
            return remove(trained_folder(cache), name.partition("/")[2])
        find(cache, name)  # raises, and says what there is
    return _removed(cache, name, folder, stage)


def discard(cache: Path, name: str) -> int:
    """Remove what an unfinished download left, and leave the model alone, where there is one; the bytes freed."""
    folder, stage = _places(cache, name)
    if folder.parent.is_symlink() or not _there(stage):
        return 0
    return _removed(cache, name, stage)


def _places(cache: Path, name: str) -> tuple[Path, Path]:
    """Where a model is, and where what an unfinished download left."""
    if not is_library_name(name):
        raise LibraryError(f"{name!r} is no name of a model in the library; such names are NAME or ORG/NAME.")
    folder = cache / name
    return folder, folder.with_name(f".{folder.name}.download")


def _there(*places: Path) -> list[Path]:
    return [path for path in places if path.is_dir() or path.is_symlink()]


def _removed(cache: Path, name: str, *places: Path) -> int:
    """Remove what is there of these places, while nobody else works on them; the bytes freed."""
    with alone(cache, name, f"{name} is being downloaded now, so it is left alone; stop the download, then remove it."):
        freed = sum(map(_remove_folder, _there(*places)))
    parent = (cache / name).parent
    if parent != cache:
        with contextlib.suppress(OSError):
            parent.rmdir()  # of a maker of whom nothing is left
    return freed


def is_heads(folder: Path) -> bool:
    """Whether a folder holds Medusa heads, ours or published, and no model."""
    config = config_of(folder)
    if config.get("format") == "medusa-heads" or config.get("model_type") == "medusa":
        return True
    if "medusa_num_heads" in config and "model_type" not in config:
        return True
    return not config and any(map(names_heads, _file_names(folder)))


def _file_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def licence_of(folder: Path) -> str:
    """The licence that a model's card names; "" where it names none."""
    try:
        card = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    if not card.startswith("---"):
        return ""
    found = _LICENCE.findall(card[3:].partition("\n---")[0])
    return next((licence for licence in found if licence != "other"), found[0] if found else "")


def _remove_folder(folder: Path) -> int:
    """Bytes freed. A link goes, not what it leads to."""
    if folder.is_symlink():
        folder.unlink()
        return 0
    size = folder_size(folder)
    doomed = folder.with_name(f".{folder.name.lstrip('.')}.removing")  # half removed, it must not look like a model
    shutil.rmtree(doomed, ignore_errors=True)
    folder.rename(doomed)
    shutil.rmtree(doomed)
    return size


def _folders(cache: Path) -> Iterator[tuple[str, Path]]:
    for folder in _children(cache):
        if is_model(folder) or is_heads(folder):
            yield folder.name, folder
        elif not folder.is_symlink():
            for inner in _children(folder):
                if is_model(inner) or is_heads(inner):
                    yield f"{folder.name}/{inner.name}", inner


def _children(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        return []


def _describe(name: str, folder: Path) -> Installed:
    manifest: Manifest | None = None
    problem = ""
    try:
        manifest = read_manifest(folder)
    except LibraryError as error:
        problem = str(error)
    try:
        dtype = _dtype(folder)
    except ModelUnsupported as error:
        dtype, problem = "", str(error)
    return Installed(
        name=name,
        folder=folder,
        kind="heads" if is_heads(folder) else "model",
        size=folder_size(folder),
        licence=(manifest.licence if manifest else "") or licence_of(folder) or _known_licence(name),
        dtype=dtype,
        last_used=_last_used(folder),
        source=manifest.source if manifest else "",
        origin=manifest.origin if manifest else "",
        problem=problem,
    )


def _dtype(folder: Path) -> str:
    config = config_of(folder)
    quantized = config.get("quantization_config")
    if isinstance(quantized, dict):
        return str(quantized.get("quant_method", "quantized"))
    largest, found = 0, ""
    for path in weight_files(folder)[:1]:
        for tensor in read_header(path).values():
            if tensor.numbers > largest:
                largest, found = tensor.numbers, tensor.dtype
    found = found or str(config.get("dtype") or config.get("torch_dtype") or "")
    return _DTYPES.get(found, found)


def _known_licence(name: str) -> str:
    try:
        entry = read_catalogue().entry(name)
    except CatalogueError:
        return ""
    return entry.licence if entry is not None else ""


def _last_used(folder: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp((folder / LAST_USED).stat().st_mtime, UTC)
    except OSError:
        return None


def config_of(folder: Path) -> dict[str, Any]:
    """What config.json of a folder says; nothing where it cannot be read."""
    try:
        found: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
