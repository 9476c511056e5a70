"""Heads on disk: `heads.safetensors`, `config.json` and `tree.json` in one folder; strict and versioned.

Every tensor must be there in its shape, none may be left over, and the heads must have been trained for the model they
are loaded onto: each failure says both sides. `docs/FORMAT.md` shows the format on one screen.
Knows nothing of training or decoding.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.disk import flush, is_full
from medusa_core.errors import (
    CheckpointError,
    CheckpointMismatch,
    ConfigError,
    DiskFull,
    StatisticsError,
    TreeError,
)
from medusa_core.head_statistics import FILE as _STATISTICS
from medusa_core.head_statistics import HeadStatistics
from medusa_core.heads.adapters import Adapters, save_adapters
from medusa_core.heads.kinds import KINDS, build_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.pairs import FILE as PAIRS
from medusa_core.heads.pairs import PairTable, load_pairs
from medusa_core.tree import RankedTree

T = TypeVar("T")

FORMAT = "medusa-heads"
VERSION = 1
TREE = "tree.json"
_WEIGHTS, _CONFIG = "heads.safetensors", "config.json"


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
    adapters: Adapters | None = None  # what to save; loaded, they are merged into the model and no longer kept apart
    statistics: HeadStatistics | None = None  # what calibration counted; None where it was never measured
    source: str = ""  # the published format they were read from; "" for ours
    pairs: PairTable | None = None  # what followed what in the text they were trained on; None where nobody counted


def save_heads(folder: Path, checkpoint: HeadsCheckpoint, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write the folder, whole or not at all.

    A folder of heads that stands there already is replaced. Raises DiskFull, or CheckpointError where it cannot be
    written for another reason; what stood there before then stays.
    """
    with whole_folder(folder) as part:
        _write(part, checkpoint, dtype)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A temporary sibling to write heads into, which takes the folder's place at the end: a kill leaves nothing
    half-written. Raises as `save_heads`."""
    folder = folder.absolute()  # so that "." has a name too
    part = folder.with_name(folder.name + ".part")
    try:
        bring_back(folder)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        flush(part)
        _put_in_place(part, folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        if is_full(error):
            raise DiskFull(
                f"The disk that holds {folder} is full; free some space and save the heads again."
            ) from error
        raise CheckpointError(f"The heads cannot be written to {folder}: {error}. Choose another folder.") from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _write(folder: Path, checkpoint: HeadsCheckpoint, dtype: torch.dtype) -> None:
    tensors = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor.to(torch.int32)).contiguous().cpu()
        for name, tensor in checkpoint.heads.state_dict().items()
    }
    save_file(tensors, folder / _WEIGHTS, metadata={"format": FORMAT})
    config = {
        "format": FORMAT,
        "version": VERSION,
        "kind": checkpoint.heads.kind,
        **asdict(checkpoint.heads.shape),
        "base_model": asdict(checkpoint.base),
        "training": checkpoint.training,
    }
    (folder / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    checkpoint.tree.save(folder / TREE)
    if checkpoint.statistics is not None:
        checkpoint.statistics.save(folder / _STATISTICS)
    if checkpoint.pairs is not None:
        checkpoint.pairs.save(folder / PAIRS)
    if checkpoint.adapters is not None:
        save_adapters(folder, checkpoint.adapters)


def _put_in_place(part: Path, folder: Path) -> None:
    old = _old(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(part, folder)
    except OSError:
        bring_back(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _old(folder: Path) -> Path:
    return folder.with_name(folder.name + ".old")


def bring_back(folder: Path) -> None:
    """A save that was killed between its two renames left the heads of before beside their place."""
    folder = folder.absolute()
    if not folder.exists() and _old(folder).is_dir():
        os.replace(_old(folder), folder)


@dataclass(frozen=True, slots=True)
class HeadsFile:
    """A folder of heads as it lies on disk, whatever model is loaded."""

    config: dict[str, Any]
    base: BaseModel
    shape: HeadsShape
    tensors: dict[str, torch.Tensor]
    token_map: torch.Tensor | None  # (V',) int64


def read_heads(folder: Path) -> HeadsFile:
    """Read the folder's config.json and tensors. Raises CheckpointError where they are missing, damaged or at odds."""
    bring_back(folder)
    config = _read_config(folder / _CONFIG)
    base, shape = _identity(folder, config)
    tensors = _read_weights(folder / _WEIGHTS)
    token_map = _token_map(folder / _WEIGHTS, tensors, shape)
    try:
        # Without memory: a damaged config.json could ask for any amount of it.
        weight = torch.empty(shape.vocab_size, shape.hidden_size, device="meta")
        expected = build_heads(config["kind"], shape, weight, weight, token_map)
    except ConfigError as error:
        raise CheckpointError(f"The heads in {folder} are broken: {error}") from error
    _compare(folder / _WEIGHTS, expected, tensors)
    return HeadsFile(config, base, shape, tensors, token_map)


def load_heads(folder: Path, backbone: Backbone) -> HeadsCheckpoint:
    """Read the folder's heads for this backbone.

    Raises CheckpointError where a file is missing, damaged or of another version, CheckpointMismatch where the heads
    belong to another model.
    """
    check_base(folder, backbone.spec)
    file = read_heads(folder)
    shape = file.shape
    heads = build_heads(file.config["kind"], shape, backbone.output_weight, backbone.embedding_weight, file.token_map)
    try:
        tree = RankedTree.load(folder / TREE)
        statistics = read_statistics(folder / _STATISTICS, shape.num_heads)
    except (TreeError, StatisticsError) as error:
        raise CheckpointError(f"The heads in {folder} are broken: {error}") from error
    check_ranks(folder / TREE, tree, shape)
    _fill(folder / _WEIGHTS, heads, file.tensors)
    training = file.config.get("training") or {}
    pairs = load_pairs(folder / PAIRS, heads)
    heads.requires_grad_(False).eval()
    return HeadsCheckpoint(heads, tree, file.base, training, statistics=statistics, pairs=pairs)


def check_ranks(path: Path, tree: RankedTree, shape: HeadsShape) -> None:
    """Raises CheckpointError where the tree asks for guesses that there are not."""
    if max(tree.ranks) >= shape.draft_vocab_size:
        raise CheckpointError(
            f"{path} asks for the guess of rank {max(tree.ranks)}; these heads choose among {shape.draft_vocab_size} "
            "tokens."
        )


def check_base(folder: Path, spec: BackboneSpec) -> tuple[dict[str, Any], BaseModel, HeadsShape]:
    """What the folder's config.json says, where its heads belong to this model. Raises as `load_heads`."""
    bring_back(folder)
    config = _read_config(folder / _CONFIG)
    base, shape = _identity(folder, config)
    if base.fingerprint != spec.fingerprint:
        raise CheckpointMismatch(
            f"The heads in {folder} were trained for {base.name} ({base.family}, hidden size {shape.hidden_size}, "
            f"vocabulary {shape.vocab_size}, fingerprint {base.fingerprint}); the model is {spec.name} ({spec.family}, "
            f"hidden size {spec.hidden_size}, vocabulary {spec.vocab_size}, fingerprint {spec.fingerprint}). "
            "Train heads for this model, or load the model they belong to."
        )
    return config, base, shape


def read_statistics(path: Path, num_heads: int) -> HeadStatistics | None:
    """The statistics beside the heads, or None: heads can be used without."""
    if not path.exists():
        return None
    statistics = HeadStatistics.load(path)
    if len(statistics.temperatures) != num_heads:
        raise StatisticsError(f"{path} is about {len(statistics.temperatures)} heads; there are {num_heads}")
    return statistics


def _identity(folder: Path, config: dict[str, Any]) -> tuple[BaseModel, HeadsShape]:
    try:
        base = BaseModel(**config["base_model"])
        shape = HeadsShape(
            num_heads=_typed(config, "num_heads", int),
            num_layers=_typed(config, "num_layers", int),
            hidden_size=_typed(config, "hidden_size", int),
            vocab_size=_typed(config, "vocab_size", int),
            draft_vocab_size=_typed(config, "draft_vocab_size", int),
            shared_output=_typed(config, "shared_output", bool),
            one_output=_typed({"one_output": False, **config}, "one_output", bool),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / _CONFIG} is incomplete or wrong: {error!r}.") from error
    return base, shape


def _typed(config: dict[str, Any], key: str, kind: type[T]) -> T:
    """The value as it stands: converting it would take "false" for true and 4.7 for 4."""
    value = config[key]
    if type(value) is not kind:
        raise TypeError(f"{key} is {value!r}; it must be of type {kind.__name__}")
    return value


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"There are no heads in {path.parent}: {path.name} is missing.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a heads file of this program: its 'format' must be {FORMAT!r}.")
    if config.get("version") != VERSION or config.get("kind") not in KINDS:
        raise CheckpointError(
            f"{path} holds heads of kind {config.get('kind')!r}, version {config.get('version')!r}; this program "
            f"reads version {VERSION} of the kinds {' and '.join(KINDS)}. A newer program may read them."
        )
    return config


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"There are no heads in {path.parent}: {path.name} is missing.") from error
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged: {error}. Get or train the heads again.") from error


def _token_map(path: Path, tensors: dict[str, torch.Tensor], shape: HeadsShape) -> torch.Tensor | None:
    if "token_map" not in tensors:
        return None
    token_map = tensors["token_map"].long()
    if token_map.numel() == 0 or not 0 <= int(token_map.min()) <= int(token_map.max()) < shape.vocab_size:
        raise CheckpointError(f"{path}: token_map names tokens outside 0 to {shape.vocab_size - 1}.")
    if token_map.unique().numel() != token_map.numel():
        raise CheckpointError(f"{path}: token_map names a token twice.")
    return token_map


def _compare(path: Path, heads: MedusaHeads, tensors: dict[str, torch.Tensor]) -> None:
    """Every tensor in its shape, none left over; the error lists every difference."""
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


def _fill(path: Path, heads: MedusaHeads, tensors: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, target in heads.state_dict().items():
            target.copy_(tensors[name])
    if not all(bool(tensor.isfinite().all()) for tensor in heads.state_dict().values() if tensor.is_floating_point()):
        raise CheckpointError(f"{path} holds numbers that are not finite. Get or train the heads again.")
