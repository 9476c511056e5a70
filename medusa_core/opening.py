"""From the names in a ModelConfig to a chat that is ready: `hub.py` finds the folders, `chat.py` loads them.

Knows nothing of windows or command lines.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core import hub
from medusa_core.config import ModelConfig
from medusa_core.errors import ModelNotFound
from medusa_core.events import Progress

if TYPE_CHECKING:
    from medusa_core.chat import Chat


def open_chat(config: ModelConfig, cache: Path) -> Generator[Progress, None, Chat]:
    """Find, convert where needed, and load the model and its heads; returns the chat.

    Heads that are missing or broken are left out and `Chat.info.heads_problem` says why. Raises ModelNotFound,
    ModelUnsupported, OutOfMemory, DiskFull or ConfigError where the model itself cannot be had.
    """
    yield Progress("Starting PyTorch", 0, 1)
    from medusa_core.chat import open_folder  # torch is imported here, once somebody waits for it

    folder = yield from hub.model_folder(config.model, cache)
    heads, problem = None, ""
    try:
        heads = hub.heads_folder(config.heads)
    except ModelNotFound as error:
        problem = str(error)
    name = hub.DEFAULT_MODEL_NAME if config.model == hub.DEFAULT else folder.resolve().name
    chat = yield from open_folder(
        folder,
        heads,
        name=name,
        heads_name=config.heads,
        dtype=config.dtype,
        device=config.device,
        costs=cache.parent / "costs",
    )
    if problem:
        chat.info = replace(chat.info, heads_problem=problem)
    return chat
