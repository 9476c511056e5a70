"""What is on this machine already comes into the library: folders and files of heads are copied, GGUF files converted.

Only what is needed is taken, and everything is in place at the end or nothing is. Knows nothing of the Hub.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator
from pathlib import Path

from medusa_core.disk import flush_file, is_full
from medusa_core.errors import DiskFull, LibraryError, ModelNotFound
from medusa_core.events import Progress
from medusa_core.hub.catalogue import add_template
from medusa_core.hub.gguf import convert_gguf, remove_leftovers, unfinished_folder
from medusa_core.hub.library import is_heads
from medusa_core.hub.listing import choose_files, is_library_name, names_heads
from medusa_core.hub.manifest import FileRecord, Manifest, hash_files, now, read_manifest, write_manifest

_CHUNK = 4 * 2**20
_SPARE_BYTES = 64 * 2**20
_PUBLISHED = {".safetensors": "medusa_lm_head.safetensors", ".pt": "medusa_lm_head.pt"}  # as heads are found in folders
_OWN_WEIGHTS, _CONFIG = "heads.safetensors", "config.json"


def import_model(source: Path, cache: Path, name: str = "") -> Generator[Progress, None, Path]:
    """Copy a model's or heads' folder or a file of published heads, or convert a GGUF file, into the library under
    `name`; returns the new folder.

    `name`: NAME or ORG/NAME; "": the folder's or the file's own. Raises ModelNotFound, LibraryError where the name is
    taken or cannot be one, DiskFull, ModelUnsupported, CheckpointError for a file of weights that are no heads.
    """
    source = source.expanduser()
    name = name or import_name(source)
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} cannot name a model; names are NAME or ORG/NAME, of letters, digits, . _ and -. Choose another."
        )
    folder = cache / name
    if folder.exists() or folder.is_symlink():
        raise LibraryError(f"There is a model {name} in the library already. Remove it, or choose another name.")
    if source.is_file():
        if source.suffix.lower() == ".gguf":
            return (yield from _converted(source, folder))
        return (yield from _copied(source.parent, folder, "heads", _heads_file(source)))
    if not source.is_dir():
        raise ModelNotFound(f"There is neither a folder nor a file at {source}.")
    found = (path for path in (*source.iterdir(), *source.glob("*/*")) if path.is_file())
    chosen = choose_files(path.relative_to(source).as_posix() for path in found)
    if chosen is None:
        raise ModelNotFound(
            f"{source} holds no model and no heads: a model needs config.json and weights in *.safetensors or "
            "pytorch_model*.bin, heads medusa_lm_head.safetensors or .pt."
        )
    kind, names = chosen
    return (yield from _copied(source, folder, kind, {name: name for name in names}))


def import_name(source: Path) -> str:
    """What something is called that is imported without a name: as its folder, or as its file where that tells more."""
    path = source.resolve()
    if not path.is_file():
        return path.name
    return path.parent.name if names_heads(path.name) else path.stem


def gguf_folder(file: Path, cache: Path) -> Generator[Progress, None, Path]:
    """The model folder of a GGUF file anywhere on this machine: converted into `cache` where it is not there yet."""
    file = file.resolve()
    stat = file.stat()
    mark = hashlib.sha256(f"{file}\n{stat.st_size}\n{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    for folder in (cache / file.stem, cache / f"{file.stem}-{mark}"):
        if not folder.exists():
            return (yield from _converted(file, folder, mark))
        if _mark(folder) == mark:
            return folder
    raise LibraryError(f"{folder} is there already, and not made of {file}. Remove it.")


def _mark(folder: Path) -> str:
    try:
        manifest = read_manifest(folder)
    except LibraryError:
        return ""
    return manifest.revision if manifest is not None and manifest.source == "gguf" else ""


def _converted(source: Path, folder: Path, mark: str = "") -> Generator[Progress, None, Path]:
    def finish(made: Path) -> Generator[Progress, None, None]:
        records = yield from hash_files(made, sorted(path.name for path in made.iterdir()), "Reading")
        origin = str(source.resolve())
        write_manifest(made, Manifest(source="gguf", origin=origin, revision=mark, added=now(), files=records))

    return (yield from convert_gguf(source, folder, finish))


def _heads_file(source: Path) -> dict[str, str]:
    """Of a file of published heads: the name that they are found by in a folder, and its own.

    Its tensors' names are looked at, so that no other weights come in as heads.
    """
    if source.name == _OWN_WEIGHTS:
        raise ModelNotFound(f"{source} is one of several files of heads. Name their folder.")
    if source.suffix not in _PUBLISHED:
        raise ModelNotFound(
            f"{source} is a file, and neither a GGUF file nor one of published heads ({', '.join(_PUBLISHED)}). "
            "Name a model's folder, or such a file."
        )
    from medusa_core.heads.formats.read import read_published  # imports torch
    from medusa_core.heads.formats.tensors import FULL_MODEL

    if read_published(source).format == FULL_MODEL:
        raise ModelNotFound(f"{source} is of a whole model with its heads. Name its folder.")
    known = names_heads(source.name) and is_heads(source.parent) and (source.parent / _CONFIG).is_file()
    return {_PUBLISHED[source.suffix]: source.name} | ({_CONFIG: _CONFIG} if known else {})


def _copied(source: Path, folder: Path, kind: str, names: dict[str, str]) -> Generator[Progress, None, Path]:
    """Copy files of the folder `source`; `names`: what each is to be called, and what it is called there."""
    total = sum((source / name).stat().st_size for name in names.values())
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    free = shutil.disk_usage(folder.parent).free
    if free < total + _SPARE_BYTES:
        raise DiskFull(
            f"{source.name} takes {total / 1e9:.2f} GB, and {folder.parent} has {free / 1e9:.2f} GB free. Free some "
            "space, or use the model where it is, by naming its folder."
        )
    stage = unfinished_folder(folder)
    try:
        records, done = {}, 0
        for name, found in names.items():
            (stage / name).parent.mkdir(exist_ok=True)
            records[name] = yield from _copy(source / found, stage / name, done, total)
            done += records[name].size
        for added in add_template(stage, folder.name) if kind == "model" else []:
            records |= yield from hash_files(stage, [added], "Reading")
        origin = str((source / next(iter(names.values())) if len(names) == 1 else source).resolve())
        write_manifest(stage, Manifest(source="folder", origin=origin, added=now(), files=records))
        stage.rename(folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return folder


def _copy(source: Path, target: Path, before: int, total: int) -> Generator[Progress, None, FileRecord]:
    digest, size = hashlib.sha256(), 0
    try:
        with source.open("rb") as reader, target.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                writer.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                yield Progress(f"Copying {source.name}", before + size, total, "bytes")
        flush_file(target)
    except OSError as error:
        if is_full(error):
            raise DiskFull(f"The disk is full: {source.name} could not be copied to {target.parent.parent}.") from error
        raise
    return FileRecord(size, digest.hexdigest())
