"""From one format of heads to another: ours, TGI/LoRAX v2, vLLM; whole or not at all.

The tree and the statistics that belong to the heads travel beside them in every format; other programs pass them over.
Shapes: V vocabulary, V' draft vocabulary, H hidden size. Knows nothing of command lines.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from medusa_core.errors import CheckpointError, ConfigError
from medusa_core.head_statistics import FILE as STATISTICS
from medusa_core.head_statistics import HeadStatistics
from medusa_core.heads.checkpoint import TREE, BaseModel, HeadsCheckpoint, save_heads, whole_folder
from medusa_core.heads.formats.load import calibrated_beside, check_model, fill_heads, with_shared_output
from medusa_core.heads.formats.model import ModelFolder
from medusa_core.heads.formats.read import read_any
from medusa_core.heads.formats.tensors import OURS, HeadTensors
from medusa_core.heads.formats.write import check_writable_as, write_tgi, write_vllm
from medusa_core.tree import RankedTree

TARGETS = ("ours", "tgi", "vllm")


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was converted into what."""

    source: str  # described
    target: str
    base: str  # the model's name in the new files
    measured: bool  # tree and statistics came along
    dropped: tuple[str, ...]


def convert(source: Path, target: Path, to: str, model: ModelFolder | None, drop: Collection[str] = ()) -> Conversion:
    """Read `source` and write `target`, a folder that must not be there yet or be empty.

    `model` is whom the heads belong to: needed where the files do not say it, or hold what only the model has.
    Raises CheckpointError for what cannot be read or held, CheckpointMismatch, ConfigError, DiskFull.
    """
    if to not in TARGETS:
        raise ConfigError(f"--to is {to!r}; it must be one of {', '.join(TARGETS)}")
    check_target(target)
    heads = read_any(source)
    if to == "ours" and heads.format == OURS:
        raise ConfigError(f"{source} holds heads of this program's own format already; copy the folder.")
    if model is not None:
        check_model(heads, model.spec)
    if to == "ours":
        return _to_ours(heads, target, model)
    check_writable_as(heads, to, drop)
    dropped = _dropped(heads, to, drop)
    measured = _measured(heads) if "vocabulary" not in dropped else None
    if "vocabulary" in dropped:
        heads = replace(heads, token_map=None)
    base = _base(heads, model)
    with whole_folder(target) as part:
        if to == "tgi":
            write_tgi(part, heads, base, None if model is None else model.folder)
        else:
            write_vllm(part, heads, base, _output_rows(heads, model))
        if measured is not None:
            tree, statistics = measured
            tree.save(part / TREE)
            if statistics is not None:
                statistics.save(part / STATISTICS)
    written = read_any(target)
    return Conversion(heads.described(), written.described(), base["name"], measured is not None, dropped)


def ours_from(
    heads: HeadTensors, spec_vocab: int, base: BaseModel, tree: RankedTree, statistics: HeadStatistics | None
) -> HeadsCheckpoint:
    """Published heads as a checkpoint of our own format, in their own precision."""
    # No memory: nothing of the model's output head is kept in the file.
    nothing = torch.zeros(1, 1, dtype=heads.dtype).expand(spec_vocab, heads.hidden_size)
    filled = fill_heads(heads, heads.shape(spec_vocab), nothing)
    training = heads.training or {"converted_from": heads.format, "name": heads.stated.name}
    return HeadsCheckpoint(filled, tree, base, training, statistics=statistics)


def check_target(folder: Path) -> None:
    """Raises ConfigError where something is there already: heads of one format among another's would mix."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already and is not overwritten. Choose another folder.")


def _to_ours(heads: HeadTensors, target: Path, model: ModelFolder | None) -> Conversion:
    described, stated = heads.described(), heads.stated
    if model is None and (stated.base is None or heads.vocab_size is None):
        raise ConfigError(
            f"{heads.path} does not say for certain which model the heads belong to. Name its folder (--model DIR)."
        )
    if heads.w2 is not None and len(heads.w2) == 1:
        if model is None:
            raise ConfigError(
                f"{heads.path} holds one output head for all heads, which may be the model's own. Name the model's "
                "folder (--model DIR)."
            )
        heads = with_shared_output(heads, model.output_weight())
    base, vocab_size = stated.base, heads.vocab_size
    if model is not None:
        spec = model.spec
        base, vocab_size = BaseModel(spec.name, spec.family, spec.fingerprint), spec.vocab_size
    assert base is not None
    assert vocab_size is not None
    tree, statistics = calibrated_beside(heads.path, heads.shape(vocab_size))
    save_heads(target, ours_from(heads, vocab_size, base, tree, statistics), heads.dtype)
    written = read_any(target)
    return Conversion(described, written.described(), base.name, statistics is not None, ())


def _dropped(heads: HeadTensors, to: str, drop: Collection[str]) -> tuple[str, ...]:
    """Of what may be dropped that which is there and does not fit."""
    found = {"pairs"} if heads.beside else set()
    if to == "tgi" and heads.token_map is not None:
        found.add("vocabulary")
    return tuple(sorted(found.intersection(drop)))


def _measured(heads: HeadTensors) -> tuple[RankedTree, HeadStatistics | None] | None:
    """The tree and the statistics beside the heads; None where they were never calibrated."""
    folder = heads.path if heads.path.is_dir() else heads.path.parent
    if not (folder / TREE).exists():
        return None
    return calibrated_beside(heads.path, heads.shape(heads.vocab_size or _largest(heads)))


def _largest(heads: HeadTensors) -> int:
    """A vocabulary that the draft vocabulary certainly fits into, where the model's is not known."""
    return 2**31 if heads.token_map is None else max(int(heads.token_map.max()), len(heads.token_map)) + 1


def _base(heads: HeadTensors, model: ModelFolder | None) -> dict[str, Any]:
    """The model as the new config.json names it; TGI loads it by this name."""
    stated = heads.stated
    if model is not None:
        spec = model.spec
        return {
            "name": stated.name or spec.name,
            "family": spec.family,
            "fingerprint": spec.fingerprint,
            "vocab_size": spec.vocab_size,
        }
    return {
        "name": stated.name,
        "family": stated.family,
        "fingerprint": stated.fingerprint,
        "vocab_size": heads.vocab_size,
    }


def _output_rows(heads: HeadTensors, model: ModelFolder | None) -> torch.Tensor | None:
    """The model's output head (V', H) where the heads share it: vLLM wants a copy."""
    if heads.w2 is not None:
        return None
    if model is None:
        raise CheckpointError(
            f"{heads.path} holds heads that share the model's output head, and vLLM wants a copy of it. Name the "
            "model's folder (--model DIR)."
        )
    weight = model.output_weight()
    return weight if heads.token_map is None else weight[heads.token_map]
