"""Where and in which precision a model runs: what was asked for, what it is stored in, what is fast here, what fits.

Knows nothing of how a model is loaded.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

import torch

from medusa_core import fit
from medusa_core.backbone import int8_loading
from medusa_core.config import Device, Dtype
from medusa_core.errors import ConfigError, ModelUnsupported


def choose_device(device: Device) -> torch.device:
    """The device asked for, or CUDA where there is one."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "No CUDA GPU can be used here: either there is none, or this is a CPU build of PyTorch. "
            "Choose the CPU, or install a CUDA build as the README says."
        )
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def choose_dtype(dtype: Dtype, device: torch.device) -> str:
    """The precision asked for; `auto` is bf16 (else fp16) on CUDA, and on the CPU int8, else the faster of the others.

    Raises ConfigError for int8 on a CPU that cannot run it.
    """
    if dtype == "int8" and device.type == "cpu" and (problem := int8_loading.machine_problem()):
        raise ConfigError(f"int8 cannot be used here: {problem}. Choose bf16 or fp32.")
    if dtype != "auto":
        return dtype
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    return faster_float() if int8_loading.machine_problem() else "int8"


def faster_float() -> str:
    """On the CPU, whichever passes a tree faster."""
    return "bf16" if _tree_product_seconds(torch.bfloat16) < _tree_product_seconds(torch.float32) else "fp32"


def _tree_product_seconds(dtype: torch.dtype) -> float:
    """The time of one product of a tree's size. Processors without 16-bit instructions are far slower in bf16."""
    from medusa_core.backbone.linear import fastest

    weight, rows = torch.ones(2048, 512, dtype=dtype), torch.ones(16, 512, dtype=dtype)
    multiply = fastest(weight)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        multiply(rows)
        best = min(best, time.perf_counter() - started)
    return best


def fitting_dtype(folder: Path, dtype: Dtype, device: Device, context: int = 0, heads: Path | None = None) -> Dtype:
    """The dtype to load a folder in: the one asked for, or a smaller one where it is "auto" and memory is short.

    `context`: tokens of conversation to make room for, 0 for as many as usual. Raises as `load_backbone`.
    """
    place, sizes = choose_device(device), fit.folder_sizes(folder)
    precisions = folder_precisions(folder, dtype, place)
    found = fit.best_fit(
        folder.resolve().name,
        sizes,
        precisions,
        place.type,
        context=fit.chosen_context(sizes, context),
        heads_bytes=fit.folder_bytes(heads),
        others=(*_smaller(place), "nf4"),
    )
    return dtype if found.need.precision == precisions[0] else cast(Dtype, found.need.precision)


def folder_precisions(folder: Path, dtype: Dtype, place: torch.device) -> tuple[str, ...]:
    """Which precisions to try for the model in a folder, the best first: that which its weights are stored in, if they
    are quantized; else as `fitting_precisions`, where the CPU's int8 is for models that it knows.

    Raises ConfigError for another precision than a quantized model has, ModelUnsupported for one that cannot be read.
    """
    if stored := stored_precision(folder):
        if dtype not in ("auto", stored):
            raise ConfigError(
                f"{folder.resolve().name} is stored in {stored} and runs in no other precision. Choose auto or "
                f"{stored}, or get the original model."
            )
        return (stored,)
    precisions = fitting_precisions(dtype, place)
    if int8_problem(folder, dtype, place):
        return tuple(dict.fromkeys((faster_float(), *_smaller(place))))
    return precisions


def int8_problem(folder: Path, dtype: Dtype, place: torch.device) -> str:
    """Why the CPU's int8, which "auto" would take, is not for this model or this machine; "" where it is."""
    if dtype != "auto" or place.type != "cpu" or stored_precision(folder):
        return ""
    return int8_loading.machine_problem() or int8_loading.config_problem(folder)


def stored_precision(folder: Path) -> str:
    """What bitsandbytes quantized the weights on the disk to, "nf4" or "int8"; "" where they are not quantized.

    Raises ModelUnsupported where something else did.
    """
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = config.get("quantization_config") or {}
        method = found.get("quant_method", "")
    except (OSError, ValueError, AttributeError):
        return ""  # which is said where the configuration is read for good
    if method and method != "bitsandbytes":
        raise ModelUnsupported(
            f"{folder.resolve().name} is quantized by {method}, which this program does not read. Get the original "
            "model, or one in GGUF form; it is quantized here."
        )
    if not method:
        return ""
    return "nf4" if found.get("load_in_4bit") else "int8"


def fitting_precisions(dtype: Dtype, place: torch.device) -> tuple[str, ...]:
    """Which precisions to try for a dtype, the best first: more than one only for "auto"."""
    first = choose_dtype(dtype, place)
    return (first,) if dtype != "auto" else tuple(dict.fromkeys([first, *_smaller(place)]))


def _smaller(place: torch.device) -> tuple[str, ...]:
    """Precisions that save memory, the largest first. On the CPU NF4 is slow, so it must be asked for."""
    return ("int8", "nf4") if place.type == "cuda" else ("bf16",)
