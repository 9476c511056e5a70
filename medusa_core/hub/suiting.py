"""Which heads suit a model where nobody names any: shipped with it, in its own files, trained here, or got for it.

Only configurations and headers are read; whether the heads really fit is seen when they are loaded. Knows nothing of
connections or of how heads are loaded.
"""

from __future__ import annotations

from pathlib import Path

from medusa_core.errors import CatalogueError, ModelUnsupported
from medusa_core.hub.catalogue import read_catalogue
from medusa_core.hub.library import config_of, installed
from medusa_core.hub.places import DEFAULT, DEFAULT_MODEL_NAME, NONE
from medusa_core.weight_files import folder_tensors


def suiting_heads(model: Path, name: str, cache: Path) -> str:
    """What `heads` to load with the model in the folder `model`, which is known as `name`: a name or a folder.

    `cache`: the library of models; heads that were trained here lie beside it, the newest are taken. "none" where there
    are no heads for it.
    """
    if name == DEFAULT_MODEL_NAME:
        return DEFAULT
    if has_own_heads(model):
        return str(model)
    trained = [entry.folder for entry in installed(cache.parent / "heads") if heads_base(entry.folder) == name]
    if trained:
        # Of two kinds that were trained here those that see the root, which guess better.
        newest = max(trained, key=lambda folder: (_sees_root(folder), (folder / "config.json").stat().st_mtime))
        return str(newest)
    got = [entry for entry in installed(cache) if entry.kind == "heads"]
    fitting = [entry.name for entry in got if heads_base(entry.folder, entry.name) == name]
    return fitting[0] if fitting else NONE


def has_own_heads(model: Path) -> bool:
    """Whether a model was published together with its heads (Medusa-2, Liger)."""
    if "medusa_num_heads" in config_of(model):
        return True
    try:
        return any(tensor.startswith("medusa_head") for tensor in folder_tensors(model))
    except ModelUnsupported:
        return False  # damaged, which loading it says


def heads_base(folder: Path, name: str = "") -> str:
    """The model that heads are for, without its maker; "" where nothing says it. `name`: theirs on the Hub."""
    config = config_of(folder)
    stated = config.get("base_model")
    found = (stated.get("name") if isinstance(stated, dict) else "") or config.get("base_model_name_or_path")
    if isinstance(found, str) and found:
        return found.rpartition("/")[2]
    try:
        entries = read_catalogue().models if name else ()
    except CatalogueError:
        return ""
    return next((entry.name.rpartition("/")[2] for entry in entries if any(h.repo == name for h in entry.heads)), "")


def is_ours(folder: Path) -> bool:
    """Whether heads are of this program's own format."""
    return config_of(folder).get("format") == "medusa-heads"


def _sees_root(folder: Path) -> bool:
    return config_of(folder).get("kind") == "rooted"
