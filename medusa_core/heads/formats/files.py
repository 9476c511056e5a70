"""Find and open the files of published heads: safetensors, and pickles of which nothing but tensors is taken.

Of a whole model only the heads' tensors are read. Knows nothing of what the tensors mean.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from medusa_core.errors import CheckpointError

WEIGHTS, PICKLE = "medusa_lm_head.safetensors", "medusa_lm_head.pt"
CONFIG = "config.json"
_HYDRA = "hydra_lm_head.pt"
_PICKLES = (".pt", ".pth", ".bin")
_OTHERS = ("adapter_model.safetensors", "pairs.safetensors", "heads.safetensors")  # files of our own folders


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """Names of tensors and the file each is in; opened, a file gives the tensors wanted."""

    place: Path  # for messages: the file, or the folder where there are several
    config: dict[str, Any]  # of config.json beside them; empty where there is none
    names: dict[str, Path]

    def read(self, wanted: Iterable[str]) -> dict[str, torch.Tensor]:
        """These tensors, on the CPU. Raises CheckpointError where a file is damaged."""
        by_file: dict[Path, list[str]] = {}
        for name in wanted:
            by_file.setdefault(self.names[name], []).append(name)
        tensors: dict[str, torch.Tensor] = {}
        for file, names in by_file.items():
            tensors |= _guarded(file, _tensors, file, names)
        return tensors


def folder_of(path: Path) -> Path:
    """The folder in which files beside heads lie."""
    return path if path.is_dir() else path.parent


def weight_files(path: Path) -> list[Path]:
    """The files of published heads at a file or folder; none where there are none. Raises CheckpointError for Hydra."""
    if path.is_file():
        return [path]
    for name in (WEIGHTS, PICKLE):
        if (path / name).is_file():
            return [path / name]
    if (path / _HYDRA).is_file():
        raise CheckpointError(
            f"{path / _HYDRA} holds Hydra heads, whose guesses build on one another; this program reads Medusa heads."
        )
    found = sorted(file for file in path.glob("*.safetensors") if file.name not in _OTHERS)
    return found or sorted(path.glob("pytorch_model*.bin"))


def open_files(path: Path) -> WeightFiles:
    """The heads' files and the names in them. Raises CheckpointError where there are none, or one is damaged."""
    files = weight_files(path)
    if not files:
        raise CheckpointError(
            f"There are no heads in {path}: neither {WEIGHTS}, {PICKLE}, *.safetensors nor pytorch_model*.bin."
        )
    names: dict[str, Path] = {}
    for file in files:
        names |= dict.fromkeys(_guarded(file, _names, file), file)
    return WeightFiles(files[0] if len(files) == 1 else path, read_config(folder_of(path)), names)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, empty where there is none. Raises CheckpointError where it cannot be read."""
    path = folder / CONFIG
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}. Get the heads again.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is broken: it is a {type(config).__name__}. Get the heads again.")
    return config


def _guarded(file: Path, work: Callable[..., Any], *arguments: Any) -> Any:
    """Every way of being unreadable as one error."""
    try:
        return work(*arguments)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{file} asks for code to be run, which is not done; only tensors are read from pickles. "
            "Get the heads as safetensors."
        ) from error
    except (OSError, ValueError, RuntimeError, EOFError, KeyError, SafetensorError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{file} is damaged: {said}. Get the heads again.") from error


def _names(file: Path) -> list[str]:
    if file.suffix in _PICKLES:
        return list(_unpickled(file))
    with safe_open(file, framework="pt") as opened:
        return list(opened.keys())


def _tensors(file: Path, names: list[str]) -> dict[str, torch.Tensor]:
    if file.suffix in _PICKLES:
        state = _unpickled(file)
        return {name: state[name].detach() for name in names}
    with safe_open(file, framework="pt") as opened:
        return {name: opened.get_tensor(name) for name in names}


def _unpickled(file: Path) -> dict[str, torch.Tensor]:
    # Mapped, the weights of a whole model that are not wanted are not read.
    state: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in state.items()
    ):
        raise CheckpointError(f"{file} holds something other than named tensors. Get the heads again.")
    return state
