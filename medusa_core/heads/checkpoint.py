"""Heads on disk: `heads.safetensors`, `config.json` and `tree.json` in one folder; strict and versioned.

Every tensor must be there in its shape, none may be left over, and the heads must have been trained for the model they
are loaded onto: each failure says both sides. `docs/FORMAT.md` shows the format on one screen.
Knows nothing of training or decoding.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from medusa_core.backbone.base import Backbone
from medusa_core.errors import CheckpointError, CheckpointMismatch, ConfigError, TreeError
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.tree import RankedTree

FORMAT = "medusa-heads"
VERSION = 1
_WEIGHTS, _CONFIG, _TREE = "heads.safetensors", "config.json", "tree.json"


@dataclass(frozen=True, slots=True)
class BaseModel:
    """The model a set of heads was trained for."""

    name: str
    family: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class HeadsCheckpoint:
    """A set of heads with everything that travels with it."""

    heads: MedusaHeads
    tree: RankedTree
    base: BaseModel
    training: dict[str, Any] = field(default_factory=dict)  # the resolved recipe and its figures


def save_heads(folder: Path, checkpoint: HeadsCheckpoint, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write the folder: into a temporary sibling first, renamed when whole, so that a kill leaves nothing half-written.

    A folder of heads that stands there already is replaced.
    """
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tensors = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor.to(torch.int32)).contiguous().cpu()
        for name, tensor in checkpoint.heads.state_dict().items()
    }
    save_file(tensors, part / _WEIGHTS, metadata={"format": FORMAT})
    config = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "medusa",
        **asdict(checkpoint.heads.shape),
        "base_model": asdict(checkpoint.base),
        "training": checkpoint.training,
    }
    (part / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    checkpoint.tree.save(part / _TREE)
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    os.replace(part, folder)
    shutil.rmtree(old, ignore_errors=True)


def load_heads(folder: Path, backbone: Backbone) -> HeadsCheckpoint:
    """Read the folder's heads for this backbone.

    Raises CheckpointError where a file is missing, damaged or of another version, CheckpointMismatch where the heads
    belong to another model.
    """
    config = _read_config(folder / _CONFIG)
    base, shape = _identity(folder, config)
    if base.fingerprint != backbone.spec.fingerprint:
        raise CheckpointMismatch(
            f"The heads in {folder} were trained for {base.name} ({base.family}, fingerprint {base.fingerprint}); "
            f"the model is {backbone.spec.name} ({backbone.spec.family}, fingerprint {backbone.spec.fingerprint}). "
            "Train heads for this model, or load the model they belong to."
        )
    tensors = _read_weights(folder / _WEIGHTS)
    token_map = tensors.get("token_map")
    if token_map is not None:
        token_map = token_map.long()
        if token_map.numel() == 0 or not 0 <= int(token_map.min()) <= int(token_map.max()) < shape.vocab_size:
            raise CheckpointError(f"{folder / _WEIGHTS}: token_map names tokens outside 0 to {shape.vocab_size - 1}.")
    try:
        heads = MedusaHeads(shape, backbone.output_weight, token_map)
        tree = RankedTree.load(folder / _TREE)
    except (ConfigError, TreeError) as error:
        raise CheckpointError(f"The heads in {folder} are broken: {error}") from error
    _fill(folder / _WEIGHTS, heads, tensors)
    return HeadsCheckpoint(heads.requires_grad_(False).eval(), tree, base, config.get("training") or {})


def _identity(folder: Path, config: dict[str, Any]) -> tuple[BaseModel, HeadsShape]:
    try:
        base = BaseModel(**config["base_model"])
        shape = HeadsShape(
            num_heads=int(config["num_heads"]),
            num_layers=int(config["num_layers"]),
            hidden_size=int(config["hidden_size"]),
            vocab_size=int(config["vocab_size"]),
            draft_vocab_size=int(config["draft_vocab_size"]),
            shared_output=bool(config["shared_output"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / _CONFIG} is incomplete or wrong: {error!r}.") from error
    return base, shape


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"There are no heads in {path.parent}: {path.name} is missing.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a heads file of this program: its 'format' must be {FORMAT!r}.")
    if config.get("version") != VERSION or config.get("kind") != "medusa":
        raise CheckpointError(
            f"{path} holds heads of kind {config.get('kind')!r}, version {config.get('version')!r}; "
            f"this program reads kind 'medusa', version {VERSION}. A newer program may read them."
        )
    return config


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"There are no heads in {path.parent}: {path.name} is missing.") from error
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged: {error}. Get or train the heads again.") from error


def _fill(path: Path, heads: MedusaHeads, tensors: dict[str, torch.Tensor]) -> None:
    """Copy the tensors in, all of them, none left over; the error lists every difference."""
    expected = {name: tuple(tensor.shape) for name, tensor in heads.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    problems = [f"missing {name} {shape}" for name, shape in expected.items() if name not in found]
    problems += [f"unexpected {name} {shape}" for name, shape in found.items() if name not in expected]
    problems += [
        f"{name} is {found[name]} instead of {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if problems:
        raise CheckpointError(f"{path} does not hold what its config.json says: {'; '.join(problems)}.")
    with torch.no_grad():
        for name, target in heads.state_dict().items():
            target.copy_(tensors[name])
    if not all(bool(tensor.isfinite().all()) for tensor in heads.state_dict().values() if tensor.is_floating_point()):
        raise CheckpointError(f"{path} holds numbers that are not finite. Get or train the heads again.")
