"""Where things lie: the program's resources, the user's folder of models. Knows nothing of what is in them."""

from __future__ import annotations

from pathlib import Path

DEFAULT = "default"
NONE = "none"
PAPER = "paper"  # heads exactly as the paper has them, for the default model
DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"


def resources_folder() -> Path:
    """Where the shipped heads, prompts and icons lie: beside the packages."""
    return Path(__file__).resolve().parent.parent.parent / "resources"


def default_cache(profile: Path | None = None) -> Path:
    """Where models are kept: under the profile's folder if one is given, else in the user's cache."""
    if profile is not None:
        return profile / "models"
    import platformdirs

    return Path(platformdirs.user_cache_dir("medusa-chat", appauthor=False)) / "models"
