"""Write what was measured into a heads folder: `tree.json` and `statistics.json`, each whole or not at all; or into a
calibrated copy of heads that must stay as they are.

Knows nothing of how it was measured.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from medusa_core.errors import ConfigError
from medusa_core.head_statistics import FILE, HeadStatistics
from medusa_core.heads.checkpoint import HeadsCheckpoint, save_heads
from medusa_core.heads.formats.convert import ours_from
from medusa_core.heads.formats.read import read_published
from medusa_core.tree import RankedTree

_TREE = "tree.json"


def store(heads: Path, out: Path, tree: RankedTree, statistics: HeadStatistics) -> None:
    """Put both files into `out`: the folder `heads` itself, or another, which becomes a copy of it with these files.

    Another folder appears whole or not at all. In the same one, statistics that a kill left without their tree do no
    harm: the tree follows from them.
    """
    if out.resolve() != heads.resolve():
        part = out.with_name(f"{out.name}.{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(heads, part)
        for each in (part, *part.rglob("*")):  # what comes with the program may be only to be read
            each.chmod(each.stat().st_mode | stat.S_IWUSR)
        statistics.save(part / FILE)
        tree.save(part / _TREE)
        if out.is_dir():
            shutil.rmtree(out)
        os.replace(part, out)
        return
    for name, content in ((FILE, statistics), (_TREE, tree)):
        path = heads / f".{name}.part"
        content.save(path)
        os.replace(path, heads / name)


def store_copy(
    heads: Path, out: Path, checkpoint: HeadsCheckpoint, tree: RankedTree, statistics: HeadStatistics
) -> None:
    """Put a calibrated copy of the loaded heads, which lie in `heads`, into the folder `out`.

    Published heads become a folder of our own format: theirs may hold a whole model.
    """
    if not checkpoint.source:
        store(heads, out, tree, statistics)
        return
    tensors, shape = read_published(heads), checkpoint.heads.shape
    tensors = tensors.sharing() if shape.shared_output else tensors
    save_heads(out, ours_from(tensors, shape.vocab_size, checkpoint.base, tree, statistics), tensors.dtype)


def check_store(heads: Path, out: Path, shipped: Path) -> None:
    """Refuse, before anything is measured, the heads that come with the program and a folder that cannot be written.

    Raises ConfigError.
    """
    if out.resolve().is_relative_to(shipped.resolve()):
        raise ConfigError(
            f"The heads in {out} come with the program and stay as they are. "
            "Name a folder for a calibrated copy of them (--out DIR)."
        )
    if out.resolve() == heads.resolve() and not os.access(heads, os.W_OK):
        raise ConfigError(f"{heads} cannot be written. Name a folder for a calibrated copy of these heads (--out DIR).")
