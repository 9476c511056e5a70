"""Where a training keeps its replies and checkpoints, and what it needs to be gone on with after a restart.

The command line and the app share these folders, so either goes on with what the other began. Knows nothing of how
anything is trained.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.backbone.base import BackboneSpec
from medusa_core.config import DistillConfig, HeadsKind
from medusa_core.errors import ConfigError
from medusa_core.prompt_file import FilePrompt, read_prompts

_SESSION, _PROMPTS = "session.json", "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Session:
    """A training that was begun and has not ended."""

    work: Path
    tokens: int  # of replies, all in all
    prompts: tuple[FilePrompt, ...] = ()  # of the user's own, without followups
    kind: HeadsKind = "rooted"  # of the heads


def data_folder(home: Path, spec: BackboneSpec, data: DistillConfig, file: Sequence[FilePrompt]) -> Path:
    """One folder for each model and recipe of replies; how many tokens are asked for does not matter."""
    from medusa_core.train.distill import recipe

    described = hashlib.sha256(json.dumps(recipe(data, file), sort_keys=True).encode()).hexdigest()[:8]
    return home / "training" / f"{spec.name}-{spec.fingerprint}-{described}"


def begin(session: Session) -> None:
    """Write down what is needed to go on with a training, beside its replies."""
    session.work.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"messages": prompt.messages}) + "\n" for prompt in session.prompts)
    _replace(session.work / _PROMPTS, lines)
    _replace(session.work / _SESSION, json.dumps({"tokens": session.tokens, "kind": session.kind}) + "\n")


def unfinished(home: Path, spec: BackboneSpec) -> Session | None:
    """The training of this model that was begun last and can be gone on with."""
    found = sorted(
        (home / "training").glob(f"{glob.escape(spec.name)}-{glob.escape(spec.fingerprint)}-*/{_SESSION}"),
        key=lambda path: path.stat().st_mtime,
    )
    for path in reversed(found):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError):
            said = json.loads(path.read_text(encoding="utf-8"))
            kind: HeadsKind = "medusa" if said.get("kind") == "medusa" else "rooted"
            has_prompts = (path.parent / _PROMPTS).stat().st_size > 0
            prompts = read_prompts(path.parent / _PROMPTS) if has_prompts else []
            return Session(path.parent, int(said["tokens"]), tuple(prompts), kind)
    return None


def end(work: Path) -> None:
    """The training is complete: there is nothing to go on with, and its user's prompts need not lie about."""
    for name in (_SESSION, _PROMPTS):
        (work / name).unlink(missing_ok=True)


def discard(work: Path) -> int:
    """Remove replies and checkpoints; returns the bytes that became free."""
    size = sum(path.lstat().st_size for path in work.rglob("*") if path.is_file())
    shutil.rmtree(work, ignore_errors=True)
    return size


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
