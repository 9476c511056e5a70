"""Does a model fit this machine: weights, heads, cache and a margin against the memory that is free now.

What other programs use is not free, so it counts. Asked before a download and before a model is loaded; a refusal
shows the figures and names what would fit. Knows nothing of how a model is loaded or where it comes from.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import DoesNotFit
from medusa_core.weight_files import folder_tensors

CHAT_CONTEXT = 4096  # tokens of conversation that room is made for where nobody says how many
SHORTER = (4096, 2048, 1024, 512)  # what is offered in place of a longer conversation

_GIB = 2**30
# Bytes of a weight of the layers; the first and the last layer stay in 16 bit where the others are of 8 or of 4.
_BYTES = {
    "cpu": {
        "fp32": 4.0,
        "bf16": 2.0,
        "fp16": 2.0,
        "int8": 2.0,
        "nf4": 0.6,
    },  # int8: made from bf16, while that is there
    "cuda": {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.1, "nf4": 0.6},
}
_QUANTIZED = ("int8", "nf4")
_LOADING = 1.3  # while loading: parts are there twice; fp32 on the CPU holds the embedding beside the packed head
_MARGIN_BYTES = 400 * 2**20  # runtime and activations
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """A model as memory sees it. Sizes that are not known are 0."""

    parameters: int
    ends: int = 0  # of the parameters, those of embedding and output head
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    context: int = 0  # tokens that the model reads at most


@dataclass(frozen=True, slots=True)
class Need:
    """The memory that a model takes, in bytes."""

    precision: str
    context: int  # tokens of conversation
    weights: int
    heads: int
    cache: int
    margin: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.heads + self.cache + self.margin

    def __str__(self) -> str:
        parts = [f"{_gib(self.weights)} for the weights"]
        parts += [f"{_gib(self.heads)} for the heads"] if self.heads else []
        parts += [f"{_gib(self.cache)} for {self.context:,} tokens of conversation"] if self.cache else []
        return ", ".join([*parts, f"{_gib(self.margin)} to work in"])


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found: the precision to take, what it needs, and what is free."""

    need: Need
    free: int
    gpus: int = 1  # over which the model has to be spread


def needed(sizes: ModelSizes, precision: str, device: str, *, context: int, heads_bytes: int = 0) -> Need:
    """What a model takes on a device ("cpu" or "cuda") in a precision, with `context` tokens of conversation."""
    each = _BYTES[device][precision]
    ends = sizes.ends if precision in _QUANTIZED else 0
    # The ends and the cache are of the numbers the pass computes with: int8 and NF4 compute in 16 bit, NF4 on the CPU
    # in 32.
    number = 4 if precision == "fp32" or (precision == "nf4" and device == "cpu") else 2
    weights = (sizes.parameters - ends) * each + ends * number
    row = 2 * sizes.layers * sizes.kv_heads * sizes.head_dim * number
    return Need(precision, context, int(weights * _LOADING), heads_bytes, row * context, _MARGIN_BYTES)


def held_bytes(parameters: int, precision: str, device: str) -> int:
    """What the weights of a loaded model take, which come free when another takes its place.

    `precision` as `ModelInfo.dtype` says it; on the CPU int8 weights have one byte once they are loaded.
    """
    name = precision.split(" ", maxsplit=1)[0]
    each = 1.0 if (name, device) == ("int8", "cpu") else _BYTES[device].get(name, 0.0)
    return int(parameters * each)


def free_bytes(device: str) -> int:
    """Memory that nobody uses now: of the GPU, or of the machine (or of the container that this program runs in)."""
    if device == "cuda":
        import torch

        # What a model unloaded before still reserves is free. Python's own garbage is not collected here: this runs in
        # the app's worker thread, where widgets must not be freed.
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    import psutil

    give_back()
    available = int(psutil.virtual_memory().available)
    limit = _container_free()
    return available if limit is None else min(available, limit)


def give_back() -> None:
    """Return to the system what was freed: the C library keeps it, hundreds of megabytes after a model was unloaded."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's has no such thing
            ctypes.CDLL(None).malloc_trim(0)


def gpus_bytes() -> tuple[int, ...]:
    """Memory that nobody uses now, of each GPU. Looking at a GPU takes some of it: ask only where one is too small."""
    import torch

    return tuple(int(torch.cuda.mem_get_info(number)[0]) for number in range(torch.cuda.device_count()))


def spread_bytes() -> dict[int, int]:
    """By GPU: what a model may take of it, room to work in left out."""
    return {number: max(0, free - _MARGIN_BYTES) for number, free in enumerate(gpus_bytes())}


def best_fit(
    name: str,
    sizes: ModelSizes,
    precisions: Sequence[str],
    device: str,
    *,
    context: int = 0,
    heads_bytes: int = 0,
    others: Sequence[str] = (),
    freed: int = 0,
) -> Fit:
    """The first of `precisions` that fits, on one GPU or else on all together.

    `context`: tokens of conversation. `others`: precisions to offer, not to take. `freed`: bytes that are used now and
    will be free by then. Raises DoesNotFit with the figures, and with what would fit instead.
    """
    free = free_bytes(device) + freed
    needs = [needed(sizes, each, device, context=context, heads_bytes=heads_bytes) for each in precisions]
    for need in needs:
        if need.total <= free:
            return Fit(need, free)
    where = "are free on the GPU" if device == "cuda" else "of memory are free"
    gpus = gpus_bytes() if device == "cuda" else ()
    if len(gpus) > 1:
        free, where = sum(gpus) + freed - (len(gpus) - 1) * _MARGIN_BYTES, f"are free on {len(gpus)} GPUs"
        for need in needs:
            if need.total <= free:
                return Fit(need, free, len(gpus))
    smallest = min(needs, key=lambda need: need.total)
    raise DoesNotFit(
        f"{name} needs about {_gib(smallest.total)} in {smallest.precision}, and {_gib(free)} {where}: {smallest}. "
        + _offer(sizes, [*precisions, *others], device, free, context, heads_bytes)
    )


def chosen_context(sizes: ModelSizes, context: int) -> int:
    """Tokens of conversation to make room for: as many as were asked for (0: 4,096), and as the model reads."""
    wanted = context or CHAT_CONTEXT
    return min(wanted, sizes.context) if sizes.context else wanted


def folder_sizes(folder: Path) -> ModelSizes:
    """The sizes of a model on disk, from its configuration and the headers of its weights.

    Raises ModelUnsupported for weights that are damaged.
    """
    tensors = folder_tensors(folder)
    # bitsandbytes packs two weights of 4 bits into a byte.
    packed = sum(
        tensor.numbers for name, tensor in tensors.items() if tensor.dtype == "U8" and name.endswith(".weight")
    )
    parameters = packed + sum(tensor.numbers for tensor in tensors.values())
    ends = sum(
        tensor.numbers
        for name, tensor in tensors.items()
        if name.endswith(("embed_tokens.weight", "lm_head.weight", "wte.weight"))
    )
    # Pickled weights have no header; they are of 16 bit as a rule.
    parameters = parameters or sum(path.stat().st_size // 2 for path in folder.glob("pytorch_model*.bin"))
    return config_sizes(folder / "config.json", parameters, ends)


def config_sizes(path: Path, parameters: int, ends: int = 0) -> ModelSizes:
    """The sizes that a config.json tells, for a model of so many parameters; what it does not tell is 0."""
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict):
        return ModelSizes(parameters, ends)
    if isinstance(config.get("text_config"), dict):
        config = config["text_config"]

    def number(*names: str) -> int:
        found = (config.get(name) for name in names)
        return next((value for value in found if isinstance(value, int) and value > 0), 0)

    heads, hidden = number("num_attention_heads", "n_head"), number("hidden_size", "n_embd")
    if not ends and (vocabulary := number("vocab_size")):
        ends = min(vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2), parameters)
    return ModelSizes(
        parameters=parameters,
        ends=ends,
        layers=number("num_hidden_layers", "n_layer"),
        kv_heads=number("num_key_value_heads") or heads,
        head_dim=number("head_dim") or (hidden // heads if heads else 0),
        context=number("max_position_embeddings", "n_positions"),
    )


def folder_bytes(folder: Path | None) -> int:
    """What the heads in a folder take; None: no heads. Of a whole model published with its heads, only these count."""
    if folder is None:
        return 0
    if folder.is_file():  # a file of published heads
        return folder.stat().st_size
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if isinstance(config, dict) and config.get("model_type", "medusa") != "medusa":
        heads = (tensor for name, tensor in folder_tensors(folder).items() if name.startswith("medusa_head"))
        return 2 * sum(tensor.numbers for tensor in heads)
    kinds = (".safetensors", ".pt", ".bin")
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix in kinds and path.is_file())


def _offer(sizes: ModelSizes, precisions: Sequence[str], device: str, free: int, context: int, heads_bytes: int) -> str:
    """What would fit: a smaller precision at the same length, else a shorter conversation, else another model."""
    for length in (context, *(shorter for shorter in SHORTER if shorter < context)):
        fitting = [
            need
            for each in dict.fromkeys(precisions)
            if (need := needed(sizes, each, device, context=length, heads_bytes=heads_bytes)).total <= free
        ]
        if fitting:
            best = max(fitting, key=lambda need: need.total)
            shorter = f" with {length:,} tokens of conversation" if length != context else ""
            return f"It would fit in {best.precision}{shorter} ({_gib(best.total)}). Or close other programs."
    smallest = min(needed(sizes, each, device, context=min(context, SHORTER[-1])).total for each in precisions)
    return f"Close other programs (at least {_gib(smallest)} must be free), or choose a smaller model."


def _container_free() -> int | None:
    """What this process's control group may still take, caches that can be given back not counted; None: no limit."""
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((_CGROUP / "memory.current").read_text())
        lines = (line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        reclaimable = next((int(value) for name, value in lines if name == "inactive_file"), 0)
        return max(int(limit) - used + reclaimable, 0)
    except (OSError, ValueError):
        return None  # another system, or an older control group


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB / 20 else f"{size / 2**20:.0f} MiB"
