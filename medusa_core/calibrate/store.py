"""Write what was measured into a heads folder: `tree.json` and `statistics.json`, each whole or not at all.

Knows nothing of how it was measured.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from medusa_core.errors import ConfigError
from medusa_core.head_statistics import FILE, HeadStatistics
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
