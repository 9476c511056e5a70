"""Training data that lies on this computer: whose it is, how much it takes, and taking it away.

Knows nothing of how it is written or learned from.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.train.room import LOCK, exclusive
from medusa_core.train.work import REPLIES, SESSION, folder_size, remove, reply_tokens

_TRAINING, _CALIBRATION = "training", "calibration"
_NAME_PARTS = 2  # after the model's name: its fingerprint, and the recipe or the precision


@dataclass(frozen=True, slots=True)
class KeptData:
    """The replies, and checkpoints, of one model and recipe."""

    folder: Path
    model: str
    tokens: int  # of replies
    size: int  # bytes on the disk
    changed: float  # when something was written last, in seconds since the epoch
    own: bool  # answers to questions of the user's own are among them
    paused: bool  # a training can be gone on with
    measuring: bool  # only for measuring heads, nothing was trained on them


def kept_data(home: Path) -> list[KeptData]:
    """All of it, the last written first."""
    found = [
        _described(folder)
        for place in (_TRAINING, _CALIBRATION)
        for folder in sorted((home / place).glob("*"))
        if folder.is_dir() and not folder.is_symlink() and folder.name.count("-") >= _NAME_PARTS
    ]
    return sorted(found, key=lambda data: -data.changed)


def discard(folder: Path) -> int:
    """Remove replies and checkpoints; returns the bytes that became free.

    Raises TrainingError while a training is using them.
    """
    if not folder.is_dir():
        return 0
    before = folder_size(folder)
    with exclusive(folder):
        for path in folder.iterdir():
            if path.name != LOCK:
                remove(path)
    shutil.rmtree(folder, ignore_errors=True)  # with the lock, which an open file could be
    return before - folder_size(folder) if folder.exists() else before


def _described(folder: Path) -> KeptData:
    shards = {path for path in folder.rglob("replies-*.safetensors") if path.is_file()}
    owner = _owner(folder / REPLIES / "replies.json")
    prompts = folder / "prompts.jsonl"
    times = [path.lstat().st_mtime for path in (folder, *shards)]
    return KeptData(
        folder=folder,
        model=folder.name.rsplit("-", _NAME_PARTS)[0],
        tokens=reply_tokens(shards),
        size=folder_size(folder),
        changed=max(times),
        own=bool(owner.get("file")) or (prompts.is_file() and prompts.stat().st_size > 0),
        paused=(folder / SESSION).is_file(),
        measuring=folder.parent.name == _CALIBRATION,
    )


def _owner(path: Path) -> dict[str, Any]:
    """Whose replies they are, as the writer noted it."""
    try:
        owner: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}
