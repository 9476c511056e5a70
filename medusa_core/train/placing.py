"""Where new heads go: never over another model's, nor over better ones for the same model.

Knows nothing of how heads are trained or measured; the figures compared are those that training wrote beside them.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.backbone.base import BackboneSpec
from medusa_core.config import HeadsKind
from medusa_core.errors import StatisticsError
from medusa_core.head_statistics import FILE as STATISTICS
from medusa_core.head_statistics import SIZES, HeadStatistics
from medusa_core.heads.adapters import has_adapters
from medusa_core.heads.checkpoint import FORMAT, bring_back, whole_folder

_CONFIG = "config.json"
_FINGERPRINT = 8  # characters that tell models of one name apart


@dataclass(frozen=True, slots=True)
class Placed:
    """Where new heads lie now, and what became of those that were there before."""

    folder: Path
    before: Path | None = None  # where the earlier heads for this model and of this kind lie, or lay
    draft_nodes: int = 0  # that both expectations are for; 0: there is nothing to compare
    tokens: float = 0.0  # a step, expected of the new heads on held-out replies
    tokens_before: float = 0.0  # of the earlier ones

    @property
    def replaced(self) -> bool:
        """Whether the new heads took the place of the earlier ones."""
        return self.before == self.folder


def place(new: Path, home: Path, spec: BackboneSpec, kind: HeadsKind) -> Placed:
    """Move a folder of new heads to the folder of heads `home`.

    Earlier heads for the same model and of the same kind are replaced by better ones; else both are kept. Raises as
    `save_heads`.
    """
    usual = _usual_place(home, spec, kind)
    placed = Placed(usual)
    if _is_taken(usual):
        nodes, now, before = _compared(new, usual)
        better = nodes > 0 and now >= before
        placed = Placed(usual if better else _free(home, usual.name), usual, nodes, now, before)
    with whole_folder(placed.folder) as part:
        shutil.copytree(new, part, dirs_exist_ok=True)
    shutil.rmtree(new, ignore_errors=True)
    if placed.before is not None and not placed.replaced:
        # Where nobody names any, the newest heads are loaded: those stay the ones that guess better.
        os.utime(placed.before / _CONFIG)
    return placed


def _usual_place(home: Path, spec: BackboneSpec, kind: HeadsKind) -> Path:
    """NAME, or NAME-paper, where that is free or holds such heads; else with the model's fingerprint."""
    name = f"{spec.name}-paper" if kind == "medusa" else spec.name
    for each in (name, f"{name}-{spec.fingerprint[:_FINGERPRINT]}"):
        bring_back(home / each)
        if not _is_taken(home / each) or _is_for(home / each, spec, kind):
            return home / each
    return _free(home, f"{name}-{spec.fingerprint[:_FINGERPRINT]}")


def _free(home: Path, name: str) -> Path:
    number = 2
    while _is_taken(home / f"{name}-{number}"):
        number += 1
    return home / f"{name}-{number}"


def _is_taken(folder: Path) -> bool:
    return folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))


def _is_for(folder: Path, spec: BackboneSpec, kind: HeadsKind) -> bool:
    """Whether heads of this kind for this model lie there, as this program trains them here: without adapters."""
    config = _config(folder)
    base = config.get("base_model")
    fingerprint = base.get("fingerprint") if isinstance(base, dict) else None
    same = (config.get("format"), config.get("kind"), fingerprint) == (FORMAT, kind, spec.fingerprint)
    return same and not has_adapters(folder)


def _compared(new: Path, old: Path) -> tuple[int, float, float]:
    """Draft nodes of the largest tree that both have an expectation for, and these; 0 where there is none.

    Small trees have none in what training wrote down; then what was counted says it.
    """
    ours, theirs = _expected(new), _expected(old)
    if nodes := max(set(ours) & set(theirs), default=0):
        return nodes, ours[nodes], theirs[nodes]
    try:
        curves = [HeadStatistics.load(folder / STATISTICS).together.expected(max(SIZES)) for folder in (new, old)]
    except StatisticsError:
        return 0, 0.0, 0.0
    return max(map(len, curves)) - 1, curves[0][-1], curves[1][-1]  # more guesses than a tree has bring nothing more


def _expected(folder: Path) -> dict[int, float]:
    """Tokens a step by draft nodes, as training wrote them down."""
    training = _config(folder).get("training")
    found = training.get("expected_tokens_per_step") if isinstance(training, dict) else None
    items = found.items() if isinstance(found, dict) else ()
    return {int(nodes): float(tokens) for nodes, tokens in items if nodes.isdigit() and type(tokens) in (int, float)}


def _config(folder: Path) -> dict[str, Any]:
    try:
        config: Any = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
