"""Write heads as others read them: TGI and LoRAX (v2, the model's output head shared), and vLLM.

What a format cannot hold is refused by name, unless the caller drops it; what it holds comes back exactly.
Shapes: K heads, L blocks, V' draft vocabulary. Knows nothing of loaded models.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from medusa_core.errors import CheckpointError
from medusa_core.heads.adapters import FOLDER as ADAPTERS
from medusa_core.heads.formats.files import CONFIG, WEIGHTS
from medusa_core.heads.formats.names import PUBLISHED, TOKEN_MAP, VLLM, Naming
from medusa_core.heads.formats.tensors import HeadTensors
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.heads.pairs import FILE as PAIRS

DROPPABLE = ("pairs", "vocabulary")
FORMATS = {"tgi": "TGI/LoRAX v2", "vllm": "vLLM"}
_VLLM_WEIGHTS = "model.safetensors"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that another format cannot hold."""

    what: str
    remedy: str = ""  # on the command line
    drop: str = ""  # the name under which it can be left out


def obstacles(heads: HeadTensors, to: str, drop: Collection[str] = ()) -> list[Obstacle]:
    """What "tgi" or "vllm" cannot hold of these heads; empty where they can be written."""
    found = []
    if heads.kind != MedusaHeads.kind:
        found.append(
            Obstacle(f"heads of kind {heads.kind}, which see the root of the tree", "train with --kind medusa")
        )
    if ADAPTERS in heads.beside:
        found.append(Obstacle("adapters/, which change the model these heads belong to"))
    if PAIRS in heads.beside:
        remedy = "--drop pairs leaves it out"
        found.append(Obstacle(f"{PAIRS}, a correction by the token before", remedy, "pairs"))
    if to == "tgi":
        if heads.num_layers != 1:
            what = f"{heads.num_layers} blocks a head where it has exactly one"
            found.append(Obstacle(what, "train with --layers 1"))
        if heads.w2 is not None:
            what = "output heads of their own (W2) where the model's is used"
            found.append(Obstacle(what, "train with --output model"))
        elif heads.token_map is not None:
            what = f"a draft vocabulary of {len(heads.token_map):,} tokens"
            found.append(Obstacle(what, "--drop vocabulary lets them guess among all", "vocabulary"))
    elif heads.num_layers == 0 and heads.w2 is None:
        found.append(Obstacle("heads without blocks and without output heads, which hold nothing"))
    return [each for each in found if not (each.drop and each.drop in drop)]


def check_writable_as(heads: HeadTensors, to: str, drop: Collection[str] = ()) -> None:
    """Raises CheckpointError naming everything that the format cannot hold."""
    if found := obstacles(heads, to, drop):
        said = [f"{each.what} ({each.remedy})" if each.remedy else each.what for each in found]
        raise CheckpointError(f"{FORMATS[to]} cannot hold what {heads.path} has: {'; '.join(said)}.")


def write_tgi(folder: Path, heads: HeadTensors, base: dict[str, Any], model: Path | None) -> None:
    """Into a folder that is being written. `base`: the model, for config.json; `model`: whose tokenizer to add."""
    tensors = _blocks(PUBLISHED, heads)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = {
        "base_model_name_or_path": base["name"],
        "medusa_num_heads": heads.num_heads,
        "medusa_num_layers": heads.num_layers,
        "version": "2",
        "base_model": base,
    }
    _write_config(folder, config)
    for name in _TOKENIZER if model is not None else ():
        if model is not None and (model / name).is_file():
            shutil.copyfile(model / name, folder / name)


def write_vllm(folder: Path, heads: HeadTensors, base: dict[str, Any], output: torch.Tensor | None) -> None:
    """Into a folder that is being written. `output` (V', H): the model's output head, where the heads share it."""
    tensors = _blocks(VLLM, heads)
    outputs = heads.w2 if output is None else output[None].to(heads.dtype)
    assert outputs is not None, "heads that share the model's output head need it"
    one = len(outputs) == 1
    for head, weight in enumerate(outputs):
        tensors[VLLM.head_output(head, heads.num_layers)] = weight.contiguous().clone()
    if heads.token_map is not None:
        tensors[TOKEN_MAP] = heads.token_map.long()
    save_file(tensors, folder / _VLLM_WEIGHTS, metadata={"format": "pt"})
    config = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": heads.hidden_size,
        "vocab_size": base["vocab_size"],
        "truncated_vocab_size": None if heads.token_map is None else len(heads.token_map),
        "num_heads": heads.num_heads,
        "num_hidden_layers": heads.num_layers,
        # Without this vLLM leaves the biases out and says nothing.
        "medusa_fc_bias": True,
        "original_lm_head": one,
        "max_paths": 64,
        "topk": 10,
        "base_model_name_or_path": base["name"],
        "base_model": base,
    }
    _write_config(folder, config)


def _blocks(naming: Naming, heads: HeadTensors) -> dict[str, torch.Tensor]:
    tensors = {}
    for layer in range(heads.num_layers):
        for head in range(heads.num_heads):
            tensors[naming.weight(head, layer)] = heads.w1[layer, head].contiguous().clone()
            tensors[naming.bias(head, layer)] = heads.b1[layer, head].contiguous().clone()
    return tensors


def _write_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
