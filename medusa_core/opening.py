"""From the names in a ModelConfig to a chat that is ready: `hub.py` finds the folders, `chat.py` loads them.

Knows nothing of windows or command lines.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core import fit, hub
from medusa_core.config import ModelConfig
from medusa_core.errors import CatalogueError, LibraryError, ModelNotFound
from medusa_core.events import Progress
from medusa_core.hub.catalogue import read_catalogue
from medusa_core.hub.library import mark_used
from medusa_core.hub.manifest import read_manifest
from medusa_core.hub.suiting import suiting_heads

if TYPE_CHECKING:
    from medusa_core.chat import Chat


def open_chat(config: ModelConfig, cache: Path) -> Generator[Progress, None, Chat]:
    """Find, convert where needed, and load the model and its heads; returns the chat.

    "default" heads are those that suit the model. Heads that are missing or broken are left out and
    `Chat.info.heads_problem` says why. A model that ships no chat template gets the catalogue's, if that has one.
    Raises ModelNotFound, ModelUnsupported, DoesNotFit before loading, OutOfMemory, DiskFull or ConfigError where the
    model itself cannot be had.
    """
    yield Progress("Starting PyTorch", 0, 1)
    from medusa_core.backbone.precision import fitting_dtype  # torch is imported here, once somebody waits for it
    from medusa_core.chat import open_folder

    folder = yield from hub.model_folder(config.model, cache)
    name = hub.DEFAULT_MODEL_NAME if config.model == hub.DEFAULT else folder.resolve().name
    wanted = suiting_heads(folder, name, cache) if config.heads == hub.DEFAULT else config.heads
    heads, problem = None, ""
    try:
        heads = hub.heads_folder(wanted, cache)
    except ModelNotFound as error:
        problem = str(error)
    dtype = fitting_dtype(folder, config.dtype, config.device, config.context, heads)
    chat = yield from open_folder(
        folder,
        heads,
        name=name,
        heads_name=wanted,
        dtype=dtype,
        device=config.device,
        costs=cache.parent / "costs",
    )
    fit.give_back()  # weights were there twice for a moment
    mark_used(folder, cache)
    if heads is not None:
        for library in (cache, cache.parent / "heads"):
            mark_used(heads, library)
    if not chat.text.has_template and (template := _template(folder)):
        chat.text.use_template(template)
    if problem:
        chat.info = replace(chat.info, heads_problem=problem)
    return chat


def _template(folder: Path) -> str:
    """The catalogue's chat template for a model folder, by where it came from or what it is called; "" for none."""
    try:
        manifest = read_manifest(folder)
        names = [manifest.origin] if manifest is not None else []
        found = (read_catalogue().template(name) for name in (*names, folder.resolve().name))
        return next(filter(None, found), "")
    except (CatalogueError, LibraryError):
        return ""  # the model itself is well, and says what it lacks when it is asked something
