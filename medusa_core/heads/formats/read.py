"""Read heads of any format, ours among them, as plain tensors; strictly.

Shapes: K heads, L blocks, H hidden size, V vocabulary, V' draft vocabulary. Knows nothing of loaded models.
"""

from __future__ import annotations

import json
import math
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from medusa_core.errors import CheckpointError
from medusa_core.heads import checkpoint
from medusa_core.heads.adapters import FOLDER as ADAPTERS
from medusa_core.heads.formats import names as naming_room
from medusa_core.heads.formats.files import CONFIG, WeightFiles, folder_of, open_files, weight_files
from medusa_core.heads.formats.names import PREFIXES, TOKEN_MAP, Layout, Naming, layout_of, naming_of
from medusa_core.heads.formats.tensors import FULL_MODEL, MEDUSA, OURS, TENSORRT, TGI, VLLM, HeadTensors, Stated
from medusa_core.heads.pairs import FILE as PAIRS

_OWN_WEIGHTS = "heads.safetensors"
_LONE_OUTPUT = "lm_head.weight"  # what vLLM calls the output head that all heads share, once loaded


def is_published(path: Path) -> bool:
    """Whether heads of another format lie there. What is neither is for `load_heads` to complain about."""
    if path.is_file():
        return path.name != _OWN_WEIGHTS
    if (path / _OWN_WEIGHTS).exists() or _own_config(path):
        return False
    return bool(weight_files(path))


def _own_config(folder: Path) -> bool:
    try:
        config: Any = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == checkpoint.FORMAT


def own_folder(path: Path) -> Path:
    """The folder of heads of our own format, which may be named by its weights."""
    return path.parent if path.is_file() else path


def read_any(path: Path) -> HeadTensors:
    """The heads in this folder or file. Raises CheckpointError where there are none or something is wrong."""
    return read_published(path) if is_published(path) else read_own(own_folder(path))


def read_own(folder: Path) -> HeadTensors:
    """Heads of our own format; what heads that see the root have besides stays in their file."""
    file = checkpoint.read_heads(folder)
    beside = tuple(name for name in (PAIRS, ADAPTERS) if (folder / name).exists())
    base = file.base
    return HeadTensors(
        format=OURS,
        path=folder,
        w1=file.tensors["w1"],
        b1=file.tensors["b1"],
        w2=file.tensors.get("w2"),
        token_map=file.token_map,
        stated=Stated(base.name, base.family, file.shape.hidden_size, file.shape.vocab_size, None, base.fingerprint),
        kind=file.config["kind"],
        beside=beside,
        training=file.config.get("training") or {},
    )


def read_published(path: Path) -> HeadTensors:
    """Heads of a published format. Raises CheckpointError with a table of the tensors that are wrong."""
    files = open_files(path)
    stored, whole_model = _heads_names(files)
    naming = naming_of(stored)
    if naming is None:
        raise CheckpointError(
            f"{files.place} holds no Medusa heads: none of its {len(files.names):,} tensors is named as heads are "
            f"({', '.join(list(files.names)[:3]) or 'there are none'}, ...)."
        )
    found = dict(zip(stored, _in_order(files, stored), strict=True))
    one_output = naming is naming_room.VLLM and files.config.get("original_lm_head") is True
    layout = layout_of(naming, found, one_output=one_output)
    naming_room.compare(str(files.place), layout, {name: tuple(tensor.shape) for name, tensor in found.items()})
    _check_numbers(files.place, found)
    token_map = found.get(TOKEN_MAP)
    heads = _assembled(path, layout, found, token_map, _format(layout, whole_model), _stated(files.config, naming))
    _check_config(files, heads)
    return heads


def _heads_names(files: WeightFiles) -> tuple[dict[str, str], bool]:
    """Of all names those of heads, by the name without prefix; and whether a whole model lies around them."""
    stripped = {
        name.removeprefix(prefix): name for prefix in PREFIXES for name in files.names if name.startswith(prefix)
    }
    if not stripped:
        names = {name: name for name in files.names}
        first = naming_room.VLLM.head_output(0, 0)
        if _LONE_OUTPUT in names and first not in names and any(map(naming_room.VLLM.block_of, names)):
            names[first] = names.pop(_LONE_OUTPUT)
        return names, False
    rest = {name: name for name in files.names if not name.startswith(PREFIXES)}
    beside = {name: name for name in rest if name == TOKEN_MAP or naming_room.VLLM.knows(name)}
    return stripped | beside, len(rest) > len(beside)


def _in_order(files: WeightFiles, stored: dict[str, str]) -> list[torch.Tensor]:
    tensors = files.read(stored.values())
    return [tensors[name] for name in stored.values()]


def _format(layout: Layout, whole_model: bool) -> str:
    if layout.naming is naming_room.VLLM:
        return VLLM
    if layout.naming is naming_room.TENSORRT:
        return TENSORRT
    if whole_model:
        return FULL_MODEL
    return MEDUSA if layout.outputs else TGI


def _check_numbers(place: Path, found: dict[str, torch.Tensor]) -> None:
    for name, tensor in found.items():
        if name == TOKEN_MAP:
            continue
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{place}: {name} is of type {str(tensor.dtype).removeprefix('torch.')}; heads are 16- or 32-bit "
                "numbers. Get heads that are not quantized."
            )
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{place}: {name} holds numbers that are not finite. Get the heads again.")


def _assembled(
    path: Path,
    layout: Layout,
    found: dict[str, torch.Tensor],
    token_map: torch.Tensor | None,
    label: str,
    stated: Stated,
) -> HeadTensors:
    naming, heads, layers = layout.naming, range(layout.num_heads), range(layout.num_layers)
    outputs = [found[naming.head_output(head, layout.num_layers)] for head in range(layout.outputs)]
    if layers:
        w1 = torch.stack([_stacked([found[naming.weight(head, layer)] for head in heads]) for layer in layers])
    else:
        hidden = outputs[0].shape[1]
        w1 = outputs[0].new_zeros(0, layout.num_heads, hidden, hidden)
    if layers and layout.biased:
        b1 = torch.stack([_stacked([found[naming.bias(head, layer)] for head in heads]) for layer in layers])
    else:
        b1 = w1.new_zeros(layout.num_layers, layout.num_heads, w1.shape[-1])
    w2 = _stacked(outputs) if outputs else None
    if token_map is not None:
        token_map = _checked_map(path, token_map)
        if w2 is not None and w2.shape[1] > len(token_map):
            w2 = _rows(path, w2, token_map, stated)  # whole output heads, of which only these rows are used
    return HeadTensors(label, path, w1, b1, w2, token_map, stated)


def _stacked(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Tensors of several precisions in the one that loses nothing."""
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return torch.stack([tensor.to(dtype) for tensor in tensors])


def _checked_map(path: Path, token_map: torch.Tensor) -> torch.Tensor:
    if token_map.dim() != 1 or token_map.is_floating_point() or token_map.numel() == 0:
        raise CheckpointError(
            f"{path}: token_map has shape {tuple(token_map.shape)} and type {token_map.dtype}; it must be a list of "
            "token ids. Get the heads again."
        )
    token_map = token_map.long()
    if int(token_map.min()) < 0 or token_map.unique().numel() != token_map.numel():
        raise CheckpointError(f"{path}: token_map names a token twice, or one below 0. Get the heads again.")
    return token_map


def _rows(path: Path, w2: torch.Tensor, token_map: torch.Tensor, stated: Stated) -> torch.Tensor:
    if w2.shape[1] != stated.vocab_size or int(token_map.max()) >= w2.shape[1]:
        raise CheckpointError(
            f"{path}: its output heads have {w2.shape[1]} rows, its token_map {len(token_map)} tokens up to "
            f"{int(token_map.max())}, and its vocabulary is {stated.vocab_size}: they do not belong together."
        )
    return w2[:, token_map]


def _stated(config: dict[str, Any], naming: Naming) -> Stated:
    """What config.json says of the model. Of our own exports `base_model` says most."""
    base = config.get("base_model")
    base = base if isinstance(base, dict) else {}
    whole_model = isinstance(config.get("model_type"), str) and naming is not naming_room.VLLM
    name = config.get("base_model_name_or_path") or base.get("name")
    return Stated(
        name=name if isinstance(name, str) else "",
        family=_text(config.get("model_type")) if whole_model else _text(base.get("family")),
        hidden_size=_whole(config.get("hidden_size")),
        vocab_size=_whole(config.get("vocab_size")) or _whole(base.get("vocab_size")),
        model_layers=_whole(config.get("num_hidden_layers")) if whole_model else None,
        fingerprint=_text(base.get("fingerprint")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _check_config(files: WeightFiles, heads: HeadTensors) -> None:
    """Sizes that config.json states must be the tensors'; numbers of heads and blocks are not asked of it."""
    stated, path = heads.stated, folder_of(heads.path) / CONFIG
    if stated.hidden_size not in (None, heads.hidden_size):
        raise CheckpointError(
            f"{path} says hidden size {stated.hidden_size}; the heads have {heads.hidden_size}. Get the heads again."
        )
    if stated.vocab_size not in (None, heads.vocab_size):
        raise CheckpointError(
            f"{path} says a vocabulary of {stated.vocab_size}; the heads' output has {heads.vocab_size} rows and there "
            f"is no {TOKEN_MAP}. Get the heads again."
        )
    if heads.token_map is not None and heads.w2 is not None and heads.w2.shape[1] != len(heads.token_map):
        raise CheckpointError(
            f"{files.place}: its output heads have {heads.w2.shape[1]} rows, its token_map {len(heads.token_map)} "
            "tokens. Get the heads again."
        )
    scale = files.config.get("logit_scale", 1.0)
    if not isinstance(scale, int | float) or not math.isclose(scale, 1.0):
        raise CheckpointError(f"{path} scales logits by {scale!r}, which this program does not follow.")
