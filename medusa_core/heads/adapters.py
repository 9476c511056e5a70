"""LoRA adapters beside heads, in peft's own format: written into the heads' folder, checked, merged into the model.

Heads trained together with their model (Medusa-2) fit that model only as the adapters changed it. Merged before the
pass takes the weights, adapters cost nothing in decoding. Knows nothing of training or decoding.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from medusa_core.errors import CheckpointError, CheckpointMismatch

FOLDER = "adapters"
"""Where they lie inside a folder of heads."""

_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"


@dataclass(frozen=True, slots=True)
class Adapters:
    """What a change of a model's linear layers is made of."""

    config: dict[str, Any]  # peft's LoraConfig, ready for JSON
    tensors: dict[str, torch.Tensor]  # by peft's names: lora_A (r, in) and lora_B (out, r) of every layer


def adapters_of(adapted: Any, base_name: str) -> Adapters:
    """A copy of the adapters of a peft model; `base_name` is noted as the model they belong to."""
    from peft import get_peft_model_state_dict

    (config,) = adapted.peft_config.values()
    plain = json.loads(json.dumps(config.to_dict(), default=sorted))  # sets become sorted lists
    plain |= {"base_model_name_or_path": base_name, "inference_mode": True}
    # Not the embedding's copy that peft adds where its size might have changed: only adapters are trained.
    state = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    return Adapters(plain, {name: tensor.detach().cpu().clone() for name, tensor in state.items()})


def has_adapters(heads: Path) -> bool:
    """Whether this folder of heads needs its model changed."""
    return (heads / FOLDER).is_dir()


def save_adapters(heads: Path, adapters: Adapters) -> None:
    """Write them into a folder of heads that is being written."""
    folder = heads / FOLDER
    folder.mkdir()
    tensors = {name: tensor.contiguous() for name, tensor in adapters.tensors.items()}
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})
    (folder / _CONFIG).write_text(json.dumps(adapters.config, indent=2) + "\n", encoding="utf-8")


def load_adapters(heads: Path) -> Adapters:
    """Read the adapters of a folder of heads. Raises CheckpointError where they are damaged."""
    folder = heads / FOLDER
    try:
        config = dict(json.loads((folder / _CONFIG).read_text(encoding="utf-8")))
        tensors = load_file(folder / _WEIGHTS)
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise CheckpointError(
            f"The adapters in {folder} are missing or damaged: {error}. Get or train the heads again."
        ) from error
    if config.get("peft_type") != "LORA":
        raise CheckpointError(f"{folder / _CONFIG}: 'peft_type' is {config.get('peft_type')!r}; it must be 'LORA'.")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise CheckpointError(f"{folder / _WEIGHTS} holds numbers that are not finite. Get or train the heads again.")
    return Adapters(config, tensors)


def with_adapters(model: Any, config: dict[str, Any]) -> Any:
    """A peft model around this transformers model, which gets LoRA layers as the fields of peft's LoraConfig say."""
    with _quiet():
        from peft import LoraConfig, get_peft_model

        return get_peft_model(model, LoraConfig(**{**config, "base_model_name_or_path": model.name_or_path}))


@contextmanager
def _quiet() -> Iterator[None]:
    """peft asks transformers in a way that is going to change, and bitsandbytes for kernels that are not needed."""
    logger = logging.getLogger("bitsandbytes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def merge_adapters(adapters: Adapters, model: Any) -> Any:
    """Merge adapters into a transformers model, W + (alpha / r) B A; returns the model.

    Raises CheckpointMismatch where they do not fit this model, which is then as it was.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    try:
        adapted = with_adapters(model, adapters.config)
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointMismatch(f"The adapters do not fit this model: {error}") from error
    expected = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    if problems := _differences(expected, adapters.tensors):
        adapted.unload()
        rest = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise CheckpointMismatch(
            f"The adapters do not fit this model: {'; '.join(problems[:4])}{rest}. "
            "Load the model they were trained for."
        )
    set_peft_model_state_dict(adapted, adapters.tensors)
    return adapted.merge_and_unload().eval().requires_grad_(False)


def _differences(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> list[str]:
    """Every tensor that is missing, left over or of another shape."""
    problems = [f"missing {name}" for name in expected if name not in found]
    problems += [f"unexpected {name}" for name in found if name not in expected]
    problems += [
        f"{name} is {tuple(found[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in found and found[name].shape != tensor.shape
    ]
    return problems
