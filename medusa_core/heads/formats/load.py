"""Heads of any format onto a loaded model: do they belong to it, and with which tree are they used.

Published heads come without statistics and without a tree. Until `calibrate` writes both beside them, a usual tree
serves: that of published heads of ordinary quality. Shapes: K heads, L blocks, H hidden size, V' draft vocabulary.
Knows nothing of decoding.
"""

from __future__ import annotations

from pathlib import Path

import torch

from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.errors import CheckpointError, CheckpointMismatch, StatisticsError, TreeError
from medusa_core.head_statistics import FILE as STATISTICS
from medusa_core.head_statistics import HeadStatistics
from medusa_core.heads.checkpoint import (
    TREE,
    BaseModel,
    HeadsCheckpoint,
    check_ranks,
    load_heads,
    read_statistics,
)
from medusa_core.heads.formats.files import folder_of
from medusa_core.heads.formats.read import is_published, own_folder, read_published
from medusa_core.heads.formats.tensors import HeadTensors
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.tree import RankedTree
from medusa_core.tree_search import tree_from_accuracies

# About what published heads reach: of the tokens to come the first head's first guess is right in half of the cases,
# each later head in six tenths of those, and each further guess is worth a third of the one before.
_FIRST, _NEXT_HEAD, _NEXT_GUESS = 0.5, 0.6, 0.35
_GUESSES, _TREE_NODES = 10, 65
_ROUNDING = 2**-7  # of bfloat16, relative


def open_heads(path: Path, backbone: Backbone) -> HeadsCheckpoint:
    """The heads in a folder or file of any format, for this backbone. Raises CheckpointError, CheckpointMismatch."""
    if is_published(path):
        return load_published(path, backbone)
    return load_heads(own_folder(path), backbone)


def load_published(path: Path, backbone: Backbone) -> HeadsCheckpoint:
    """Published heads for this backbone, with the tree and the statistics beside them where they were calibrated."""
    found = read_published(path)
    spec = backbone.spec
    check_model(found, spec)
    found = with_shared_output(found, backbone.output_weight, rounded=True)
    heads = fill_heads(found, found.shape(spec.vocab_size), backbone.output_weight)
    heads.requires_grad_(False).eval()
    base = BaseModel(spec.name, spec.family, spec.fingerprint)
    tree, statistics = calibrated_beside(path, heads.shape)
    return HeadsCheckpoint(heads, tree, base, statistics=statistics, source=found.format)


def calibrated_beside(path: Path, shape: HeadsShape) -> tuple[RankedTree, HeadStatistics | None]:
    """The tree and the statistics that lie beside published heads; the usual tree where nobody calibrated them."""
    folder = folder_of(path)
    try:
        statistics = read_statistics(folder / STATISTICS, shape.num_heads)
        tree = RankedTree.load(folder / TREE) if (folder / TREE).exists() else usual_tree(shape)
    except (StatisticsError, TreeError) as error:
        raise CheckpointError(f"What lies beside the heads in {folder} is broken: {error}") from error
    check_ranks(folder / TREE, tree, shape)
    return tree, statistics


def usual_tree(shape: HeadsShape) -> RankedTree:
    """A tree for heads that nobody measured."""
    guesses = range(min(_GUESSES, shape.draft_vocab_size))
    accuracies = [
        [_FIRST * _NEXT_HEAD**head * _NEXT_GUESS**guess for guess in guesses] for head in range(shape.num_heads)
    ]
    return tree_from_accuracies(accuracies, _TREE_NODES)


def check_model(found: HeadTensors, spec: BackboneSpec) -> None:
    """Raises CheckpointMismatch, with both sides, where the heads belong to another model as far as files tell."""
    stated = found.stated
    pairs = (
        ("hidden size", found.hidden_size, spec.hidden_size),
        ("vocabulary", found.vocab_size, spec.vocab_size),
        ("family", stated.family or None, spec.family),
        ("layers", stated.model_layers, spec.num_layers),
        ("fingerprint", stated.fingerprint or None, spec.fingerprint),
    )
    known = [(what, theirs, ours) for what, theirs, ours in pairs if theirs is not None]
    outside = found.token_map is not None and int(found.token_map.max()) >= spec.vocab_size
    if all(theirs == ours for _, theirs, ours in known) and not outside:
        return
    theirs = ", ".join(f"{what} {value}" for what, value, _ in known)
    ours = ", ".join(f"{what} {value}" for what, _, value in known)
    named = f" {stated.name}" if stated.name else ""
    tokens = f", and guess token {int(found.token_map.max())}" if outside and found.token_map is not None else ""
    raise CheckpointMismatch(
        f"The heads in {found.path} ({found.format}) belong to another model{named}: {theirs}{tokens}; the model is "
        f"{spec.name}: {ours}. Load the model they belong to, or train heads for this one."
    )


def with_shared_output(found: HeadTensors, output_weight: torch.Tensor, *, rounded: bool = False) -> HeadTensors:
    """Where all heads share one output head and it is the model's (V, H), say so: then it need not be kept twice.

    `rounded`: the model may be loaded in another precision than the file's.
    """
    if found.w2 is None or len(found.w2) == found.num_heads > 1:
        return found
    rows = output_weight if found.token_map is None else output_weight[found.token_map.to(output_weight.device)]
    rows = rows.to("cpu", found.w2.dtype)
    tolerance = _ROUNDING if rounded else 0.0
    same = rows.shape == found.w2.shape[1:] and torch.allclose(rows, found.w2[0], rtol=tolerance, atol=0.0)
    return found.sharing() if same else found


def fill_heads(found: HeadTensors, shape: HeadsShape, output_weight: torch.Tensor) -> MedusaHeads:
    """The module with the tensors in it, in the precision and on the device of `output_weight` (V, H)."""
    heads = MedusaHeads(shape, output_weight, found.token_map)
    with torch.no_grad():
        heads.w1.copy_(found.w1)
        heads.b1.copy_(found.b1)
        if found.w2 is not None:
            heads.w2.copy_(found.w2)
    return heads
