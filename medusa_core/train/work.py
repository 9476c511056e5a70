"""Where a training keeps its replies and checkpoints, what it needs to be gone on with, and what of it is its own.

The command line and the app share these folders, so either goes on with what the other began; what a training wrote
itself is written down (`noting`), so that cancelling it takes nothing that others wrote. Knows nothing of how anything
is trained.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medusa_core.backbone.base import BackboneSpec
from medusa_core.config import DistillConfig, HeadsKind
from medusa_core.errors import ConfigError, MedusaError, TrainingError
from medusa_core.prompt_file import FilePrompt, read_prompts

REPLIES, NEW_HEADS, SESSION = "replies", "new-heads", "session.json"
_PROMPTS, _MADE = "prompts.jsonl", "made.json"
_SHARDS = "replies-*.safetensors"


@dataclass(frozen=True, slots=True)
class Session:
    """A training that was begun and has not ended."""

    work: Path
    tokens: int  # of replies, all in all
    prompts: tuple[FilePrompt, ...] = ()  # of the user's own, without followups
    kind: HeadsKind = "rooted"  # of the heads
    trained: bool = False  # its heads lie in `work / NEW_HEADS`, and are only to be measured


@dataclass(frozen=True, slots=True)
class Written:
    """What a training wrote itself, and goes with it when it is cancelled."""

    tokens: int  # of replies
    size: int  # bytes on the disk
    others: bool  # there are replies that stay: they were there before, or belong to another training too


def data_folder(home: Path, spec: BackboneSpec, data: DistillConfig, file: Sequence[FilePrompt]) -> Path:
    """One folder for each model and recipe of replies; how many tokens are asked for does not matter."""
    from medusa_core.train.distill import recipe

    described = hashlib.sha256(json.dumps(recipe(data, file), sort_keys=True).encode()).hexdigest()[:8]
    return home / "training" / f"{spec.name}-{spec.fingerprint}-{described}"


def begin(session: Session) -> Session:
    """Write down what is needed to go on with a training, beside its replies; returns how far it is."""
    found = _session(session.work / SESSION)
    if found is not None and (found.tokens, found.kind) == (session.tokens, session.kind):
        session = replace(session, trained=session.trained or found.trained)
    session.work.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"messages": prompt.messages}) + "\n" for prompt in session.prompts)
    _replace(session.work / _PROMPTS, lines)
    said = {"tokens": session.tokens, "kind": session.kind, "trained": session.trained}
    _replace(session.work / SESSION, json.dumps(said) + "\n")
    return session


def unfinished(home: Path, spec: BackboneSpec) -> Session | None:
    """The training of this model that was begun last and can be gone on with."""
    found = sorted(
        (home / "training").glob(f"{glob.escape(spec.name)}-{glob.escape(spec.fingerprint)}-*/{SESSION}"),
        key=lambda path: path.stat().st_mtime,
    )
    return next(filter(None, map(_session, reversed(found))), None)


def _session(path: Path) -> Session | None:
    """As it was written down; None where it was not, or is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError):
        said = json.loads(path.read_text(encoding="utf-8"))
        kind: HeadsKind = "medusa" if said.get("kind") == "medusa" else "rooted"
        has_prompts = (path.parent / _PROMPTS).stat().st_size > 0
        prompts = read_prompts(path.parent / _PROMPTS) if has_prompts else []
        trained = said.get("trained") is True and (path.parent / NEW_HEADS).is_dir()
        return Session(path.parent, int(said["tokens"]), tuple(prompts), kind, trained)
    return None


def end(work: Path) -> None:
    """The training is complete: there is nothing to go on with, its user's prompts need not lie about, and what it
    wrote is for all trainings of the recipe."""
    for name in (SESSION, _PROMPTS, _MADE):
        (work / name).unlink(missing_ok=True)
    shutil.rmtree(work / NEW_HEADS, ignore_errors=True)


@contextlib.contextmanager
def noting(work: Path) -> Iterator[None]:
    """Write down which replies and checkpoints come up meanwhile, which nobody else can write then.

    Where the process is killed, what came up since counts as somebody else's: it may be.
    """
    from medusa_core.train.room import exclusive

    # Nothing is noted where another training holds the folder: then this one writes nothing. Nor where the disk is
    # full.
    with contextlib.suppress(TrainingError, OSError), exclusive(work):
        here = _contents(work)
        _replace(work / _MADE, json.dumps({"made": sorted(_made(work) & here), "before": sorted(here)}))
    try:
        yield
    finally:
        with contextlib.suppress(MedusaError, OSError):
            before = _noted(work).get("before")
            if isinstance(before, list):
                with exclusive(work):
                    made = _made(work) | (_contents(work) - set(before))
                    _replace(work / _MADE, json.dumps({"made": sorted(made)}))


def written(work: Path, *, running: bool = False) -> Written:
    """What of a training's folder is its own. `running`: within `noting`, so that all that is new is."""
    mine = _own(work, running=running)
    shards = {path for path in mine if path.suffix == ".safetensors"}
    stay = any(path not in shards for path in (work / REPLIES).glob(_SHARDS))
    size = sum(map(folder_size, mine)) + folder_size(work / NEW_HEADS)
    return Written(reply_tokens(shards), size, stay)


def cancel(work: Path) -> Written:
    """Remove what the training wrote itself, the whole folder where nobody else wrote anything; says what it was.

    Raises TrainingError while a training is using the folder.
    """
    from medusa_core.train.room import exclusive

    if not work.is_dir():
        return Written(0, 0, others=False)
    with exclusive(work):
        found = written(work)
        for path in _own(work):
            remove(path)
        end(work)
        nothing_left = not _contents(work)
    if nothing_left:
        shutil.rmtree(work, ignore_errors=True)
    return found


def reply_tokens(shards: set[Path]) -> int:
    """Of all replies in these files; those that are damaged count nothing."""
    from medusa_core.train.shards import shard_sizes

    count = 0
    for path in shards:
        with contextlib.suppress(TrainingError):
            count += sum(each.tokens for each in shard_sizes(path))
    return count


def folder_size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    paths = (path, *path.rglob("*")) if path.is_dir() else (path,)
    size = 0
    for each in paths:
        with contextlib.suppress(OSError):  # it went away meanwhile
            size += each.lstat().st_size if not each.is_dir() else 0
    return size


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _own(work: Path, *, running: bool = False) -> set[Path]:
    """The shards and checkpoint folders that are the training's own.

    Replies that a checkpoint of another training was learned from stay: it could not be gone on with without them.
    """
    here, names = _contents(work), _made(work)
    before = _noted(work).get("before")
    if running and isinstance(before, list):
        names |= here - set(before)
    names &= here
    foreign = any(not name.startswith(f"{REPLIES}/") for name in here - names)
    return {work / name for name in names if not (foreign and name.startswith(f"{REPLIES}/"))}


def _contents(work: Path) -> set[str]:
    """Shards and folders of checkpoints, by their paths below `work`."""
    shards = {f"{REPLIES}/{path.name}" for path in (work / REPLIES).glob(_SHARDS)}
    kept = (REPLIES, NEW_HEADS, f"{NEW_HEADS}.part", f"{NEW_HEADS}.old")
    runs = {path.name for path in work.iterdir() if path.is_dir() and path.name not in kept} if work.is_dir() else set()
    return shards | runs


def _made(work: Path) -> set[str]:
    made = _noted(work).get("made")
    return {name for name in made if isinstance(name, str)} if isinstance(made, list) else set()


def _noted(work: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        noted: Any = json.loads((work / _MADE).read_text(encoding="utf-8"))
        return noted if isinstance(noted, dict) else {}
    return {}


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
