"""How large the inputs of a model's products are, channel by channel, measured once on text the model writes itself.

SmoothQuant needs it (`quantize.smoothing`). What was measured is kept in a file beside the model, or in memory where
the folder cannot be written to. Shapes: K inputs of a product. Knows nothing of how the numbers are used.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

FILE = "int8-calibration.safetensors"
_TOKENS = 48  # written in answer to each prompt
_VERSION = "2"  # of what is measured, and how
_NORMED = (".qkv", ".gate_up")


def load(folder: Path, fingerprint: str) -> dict[str, torch.Tensor] | None:
    """What was measured before, for this model; None where there is nothing usable."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / FILE, framework="pt") as file:
            if file.metadata() != {"model": fingerprint, "version": _VERSION}:
                return None
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None


def save(folder: Path, fingerprint: str, sizes: dict[str, torch.Tensor]) -> None:
    """Keep it beside the model, if the folder can be written to: it can be measured again."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    part = folder / f"{FILE}.{os.getpid()}.part"
    try:
        save_file(sizes, part, {"model": fingerprint, "version": _VERSION})
        os.replace(part, folder / FILE)
    except (OSError, SafetensorError):
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@torch.inference_mode()
def measure(model: Any, prompts: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Sizes (K,) of the inputs of the products "0.qkv", "0.out", "0.gate_up", "0.down", "1.qkv", ... and "output".

    After a norm, before qkv and gate_up, the root of the mean square, each row relative to its largest, since each has
    a scale of its own: a text's first token has inputs far from all others', which must not decide. Elsewhere the
    largest. Of the statistics tried on the default model these were nearest to fp32.
    """
    from transformers import DynamicCache

    # transformers renamed it.
    argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    statistics = {name: (_Spread() if name.endswith(_NORMED) else _Largest()) for name, _ in _products(model)}
    hooks = [module.register_forward_pre_hook(_watch(statistics[name])) for name, module in _products(model)]
    try:
        for prompt in prompts:
            ids = torch.tensor([list(prompt)], device=model.device)
            cache = {argument: DynamicCache(config=model.config)}
            for _ in range(_TOKENS):
                ids = model(input_ids=ids, use_cache=True, **cache).logits[:, -1:].argmax(-1)
    finally:
        for hook in hooks:
            hook.remove()
    return {name: statistic.size() for name, statistic in statistics.items()}


def _products(model: Any) -> list[tuple[str, nn.Module]]:
    products: list[tuple[str, nn.Module]] = []
    for i, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        inputs = {"qkv": attention.q_proj, "out": attention.o_proj, "gate_up": mlp.gate_proj, "down": mlp.down_proj}
        products += [(f"{i}.{name}", module) for name, module in inputs.items()]
    return [*products, ("output", model.get_output_embeddings())]


class _Largest:
    def __init__(self) -> None:
        self._largest = torch.zeros(())

    def add(self, rows: torch.Tensor) -> None:
        self._largest = torch.maximum(self._largest, rows.abs().amax(0))

    def size(self) -> torch.Tensor:
        return self._largest


class _Spread:
    def __init__(self) -> None:
        self._squares, self._rows = torch.zeros(()), 0

    def add(self, rows: torch.Tensor) -> None:
        relative = rows / rows.abs().amax(1, keepdim=True).clamp_min(1e-8)
        self._squares, self._rows = self._squares + relative.square().sum(0), self._rows + rows.shape[0]

    def size(self) -> torch.Tensor:
        return (self._squares / self._rows).sqrt()


def _watch(statistic: _Largest | _Spread) -> Any:
    def hook(_module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        statistic.add(inputs[0].detach().float().reshape(-1, inputs[0].shape[-1]))

    return hook
