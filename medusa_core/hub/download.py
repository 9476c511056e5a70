"""A whole model from the Hub into the library: what is needed, is there room, file by file, in place when all is right.

Closing the generator pauses, and so does killing the program: the next call goes on from what is on the disk. Nothing
that is not complete and verified gets the model's name. Knows nothing of backbones; whether the model fits is asked of
the caller's `check`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from medusa_core.errors import DiskFull, LibraryError, MedusaError
from medusa_core.events import Progress
from medusa_core.hub.alone import alone
from medusa_core.hub.catalogue import add_template
from medusa_core.hub.client import HubClient
from medusa_core.hub.fetch import PART, Meter, fetch
from medusa_core.hub.gguf import GROWTH, convert_gguf
from medusa_core.hub.listing import (
    Listing,
    RemoteFile,
    check_repo_id,
    is_file_name,
    is_library_name,
    is_weights,
    make_listing,
)
from medusa_core.hub.manifest import FileRecord, Manifest, Source, hash_files, now, read_manifest, write_manifest

Check = Callable[[Listing, Path], None]  # what is to be fetched, and config.json, which may not be there

_PLAN = "plan.json"
_CONVERTED = "converted"  # folder of a stage: what its GGUF file becomes, until it is whole
_SPARE_BYTES = 64 * 2**20  # a disk is not filled to its last byte


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A download that was paused or broken off."""

    name: str  # as in the library
    folder: Path
    repo: str
    revision: str
    gguf: str
    done: int  # bytes
    total: int


def library_name(repo: str, gguf: str = "") -> str:
    """What a model from the Hub is called in the library: ORG/NAME, or ORG and the name of the GGUF file."""
    return f"{repo.partition('/')[0]}/{PurePosixPath(gguf).stem}" if gguf else repo


def download(
    client: HubClient, repo: str, cache: Path, *, revision: str = "main", gguf: str = "", check: Check | None = None
) -> Generator[Progress, None, Path]:
    """Bring a model, or heads, into the library at `cache`; returns its folder.

    `gguf`: the one GGUF file to take, which is converted. `check` may refuse by raising before any weights come. Raises
    HubError and its kin, DiskFull, DownloadDamaged, LibraryError, and ModelUnsupported for a GGUF file of unknown kind.
    """
    check_repo_id(repo)
    name = library_name(repo, gguf)
    if not is_library_name(name):
        raise LibraryError(f"{gguf!r} cannot name a folder; download the file yourself and import it under a name.")
    folder = cache / name
    with alone(cache, name, f"{name} is being downloaded by another window or command. Wait for it."):
        try:
            _bring_back(folder)
            listing = make_listing((yield from client.model_info(repo, revision)), repo, revision, gguf)
            if _is_there(folder, listing, gguf):
                _drop_stage(_stage(folder), listing)
                yield Progress(f"{name} is there already", 1, 1)
                return folder
            stage = _stage(folder)
            _prepare(stage, listing, gguf)
            yield from _take_over(folder, listing, stage)
            records = yield from _fetch_all(client, listing, stage, check)
            if listing.kind == "gguf":
                yield from _convert(stage, gguf, folder, listing)
            else:
                yield from _install(stage, folder, listing, records)
        finally:
            with suppress(OSError):
                folder.parent.rmdir()  # of a maker of whom nothing has come
        return folder


def unfinished(cache: Path) -> list[Unfinished]:
    """The downloads that can be gone on with."""
    found = []
    for stage in sorted(cache.glob("*/.*.download")):
        plan = _read_plan(stage)
        if plan is not None and not stage.is_symlink():
            files, name = plan["files"], stage.name.removeprefix(".").removesuffix(".download")
            done = sum(_present(stage, file) for file in files)
            found.append(
                Unfinished(
                    name=f"{stage.parent.name}/{name}",
                    folder=stage,
                    repo=plan["repo"],
                    revision=plan["revision"],
                    gguf=plan["gguf"],
                    done=done,
                    total=sum(file.size for file in files),
                )
            )
    return found


def _take_over(folder: Path, listing: Listing, stage: Path) -> Generator[Progress, None, None]:
    """What an older commit on this machine has in common with the one wanted need not come again."""
    with suppress(LibraryError, OSError):
        manifest = read_manifest(folder)
        there = {} if manifest is None else {record.sha256: name for name, record in manifest.files.items()}
        for file in listing.files:
            name = there.get(file.sha256)
            if name is None or _is_complete(stage, file) or not is_file_name(name):
                continue
            record = (yield from hash_files(folder, [name], "Reading"))[name]
            if record.sha256 == file.sha256:
                (stage / file.name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, stage / f"{file.name}.new")
                (stage / f"{file.name}.new").replace(stage / file.name)


def _fetch_all(
    client: HubClient, listing: Listing, stage: Path, check: Check | None
) -> Generator[Progress, None, dict[str, FileRecord]]:
    _check_room(listing, stage)
    meter = Meter(listing.size, client.clock)
    records, asked = {}, check is None
    for file in listing.files:
        if not asked and is_weights(file.name):
            _ask(check, listing, stage)
            asked = True
        if _is_complete(stage, file):
            meter.done += file.size
            yield meter.progress(f"{file.name} is there already", meter.done)
            digest = file.sha256 or (yield from hash_files(stage, [file.name], "Reading"))[file.name].sha256
        else:
            (stage / file.name).parent.mkdir(parents=True, exist_ok=True)
            digest = yield from fetch(client, listing.repo, listing.commit, file, stage / file.name, meter)
        records[file.name] = FileRecord(file.size, digest)
    return records


def _ask(check: Check | None, listing: Listing, stage: Path) -> None:
    """Whether to go on to the weights; where not, nothing is left behind that was not there before."""
    assert check is not None
    try:
        check(listing, stage / "config.json")
    except MedusaError:
        if not any(_present(stage, file) for file in listing.files if is_weights(file.name)):
            shutil.rmtree(stage, ignore_errors=True)
        raise


def _manifest(listing: Listing, source: Source, origin: str, files: dict[str, FileRecord]) -> Manifest:
    """What is written down of a download that is complete."""
    return Manifest(
        source=source,
        origin=origin,
        revision=listing.revision,
        commit=listing.commit,
        licence=listing.licence,
        added=now(),
        files=files,
    )


def _install(
    stage: Path, folder: Path, listing: Listing, records: dict[str, FileRecord]
) -> Generator[Progress, None, None]:
    """Give a complete download its name."""
    for added in add_template(stage, listing.repo) if listing.kind == "model" else []:
        records |= yield from hash_files(stage, [added], "Reading")
    write_manifest(stage, _manifest(listing, "hub", listing.repo, records))
    (stage / _PLAN).unlink(missing_ok=True)
    _put_in_place(stage, folder)


def _convert(stage: Path, gguf: str, folder: Path, listing: Listing) -> Generator[Progress, None, None]:
    """A model folder of a GGUF file that has come; the file itself is not kept. Broken off, it is made anew."""

    def finish(made: Path) -> Generator[Progress, None, None]:
        records = yield from hash_files(made, sorted(path.name for path in made.iterdir()), "Reading")
        write_manifest(made, _manifest(listing, "gguf", f"{listing.repo}/{gguf}", records))

    made = yield from convert_gguf(stage / gguf, stage / _CONVERTED, finish)
    _put_in_place(made, folder)
    shutil.rmtree(stage, ignore_errors=True)


def _put_in_place(made: Path, folder: Path) -> None:
    """Give a whole folder its name; what had it before goes."""
    old = _old(folder)
    if folder.exists():
        folder.rename(old)
    made.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _is_there(folder: Path, listing: Listing, gguf: str) -> bool:
    try:
        manifest = read_manifest(folder)
    except LibraryError:
        return False  # broken: fetched anew
    if manifest is None:
        if folder.exists():
            raise LibraryError(f"{folder} is there, but not from the Hub. Remove it, or call its folder otherwise.")
        return False
    if manifest.origin != (f"{listing.repo}/{gguf}" if gguf else listing.repo):
        raise LibraryError(f"{folder} holds {manifest.origin}. Remove it, or call its folder otherwise.")
    whole = all((folder / name).is_file() for name in manifest.files)
    return whole and manifest.commit == listing.commit


def _prepare(stage: Path, listing: Listing, gguf: str) -> None:
    """Keep of an earlier try what still belongs to the files wanted now, and write down what is wanted."""
    plan = _read_plan(stage)
    before = {file.name: file.key for file in plan["files"]} if plan else {}
    wanted = {file.name for file in listing.files if before.get(file.name) == file.key}
    if stage.is_symlink():
        raise LibraryError(f"{stage} is a link, and links are not written through. Remove it.")
    stage.mkdir(parents=True, exist_ok=True)
    _clear(stage, wanted)
    text = json.dumps(
        {
            "repo": listing.repo,
            "revision": listing.revision,
            "gguf": gguf,
            "files": [asdict(file) for file in listing.files],
        }
    )
    partial = stage / f"{_PLAN}.new"
    partial.write_text(text, encoding="utf-8")
    partial.replace(stage / _PLAN)


def _drop_stage(stage: Path, listing: Listing) -> None:
    """What a download that was killed in its last moment left; what another commit's left may still be wanted."""
    plan = _read_plan(stage)
    if plan is not None and plan["files"] == list(listing.files) and not stage.is_symlink():
        shutil.rmtree(stage, ignore_errors=True)


def _clear(folder: Path, wanted: Collection[str], prefix: str = "") -> None:
    """Remove everything that is not wanted. Links are removed, not followed."""
    for path in folder.iterdir():
        name = prefix + path.name.removesuffix(PART)
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and any(each.startswith(f"{name}/") for each in wanted):
            _clear(path, wanted, f"{name}/")
        elif name not in wanted or is_folder:
            shutil.rmtree(path) if is_folder else path.unlink()


def _read_plan(stage: Path) -> dict[str, Any] | None:
    """What was wanted; None where it cannot be read, so that everything is fetched anew."""
    try:
        plan: Any = json.loads((stage / _PLAN).read_text(encoding="utf-8"))
        files = [RemoteFile(**entry) for entry in plan["files"]]
        return {name: str(plan[name]) for name in ("repo", "revision", "gguf")} | {"files": files}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_room(listing: Listing, stage: Path) -> None:
    """Refuse before the first byte what the disk has no room for."""
    missing = sum(file.size - _present(stage, file) for file in listing.files)
    needed = missing + _SPARE_BYTES + (GROWTH * listing.size if listing.kind == "gguf" else 0)
    free = shutil.disk_usage(stage).free
    if free < needed:
        more = ", the converted model included" if listing.kind == "gguf" else ""
        raise DiskFull(
            f"{listing.repo} needs {needed / 1e9:.2f} GB more on the disk{more}; {stage.parent} has "
            f"{free / 1e9:.2f} GB free. Free some space, remove a model, or choose another folder of models."
        )


def _is_complete(stage: Path, file: RemoteFile) -> bool:
    path = stage / file.name
    return path.is_file() and not path.is_symlink() and path.stat().st_size == file.size


def _present(stage: Path, file: RemoteFile) -> int:
    """Bytes of a file that are there."""
    if _is_complete(stage, file):
        return file.size
    part = stage / (file.name + PART)
    return min(part.stat().st_size, file.size) if part.is_file() else 0


def _stage(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.download")


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _bring_back(folder: Path) -> None:
    """After a replacement that was broken off between its two renames."""
    old = _old(folder)
    if old.is_dir() and not folder.exists():
        old.rename(folder)
    elif old.is_dir():
        shutil.rmtree(old, ignore_errors=True)
