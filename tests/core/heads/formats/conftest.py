"""Small made checkpoints with the published names and shapes, written as the other programs write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import load_backbone
from medusa_core.tiny import save_tiny_model

HIDDEN, VOCAB = 64, 264
TOKEN_MAP = torch.tensor([5, 0, 263, 17, 40, 41])


@dataclass
class Made:
    """Random heads, and what they say by the published formula, worked out here on its own."""

    heads: int = 3
    layers: int = 1
    dtype: torch.dtype = torch.float16
    rows: int = VOCAB
    blocks: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    outputs: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(3)

        def random(*shape: int) -> torch.Tensor:
            return (torch.randn(*shape, generator=generator) / 8).to(self.dtype)

        for head in range(self.heads):
            for layer in range(self.layers):
                self.blocks[head, layer] = random(HIDDEN, HIDDEN), random(HIDDEN)
        self.outputs = [random(self.rows, HIDDEN) for _ in range(self.heads)]

    def logits(self, hidden: torch.Tensor, output: torch.Tensor | None = None, *, biased: bool = True) -> torch.Tensor:
        """(M, H) -> (K, M, V'); `output`: the model's, where the heads share it."""
        said = []
        for head in range(self.heads):
            x = hidden
            for layer in range(self.layers):
                weight, bias = self.blocks[head, layer]
                x = x + F.silu(F.linear(x, weight.float(), bias.float() if biased else None))
            said.append(F.linear(x, (self.outputs[head] if output is None else output).float()))
        return torch.stack(said)

    def published(self, prefix: str = "", *, own: bool = True) -> dict[str, torch.Tensor]:
        """Medusa v0.1, and with other options TGI v2 and the heads inside a Medusa-2 or Liger model."""
        tensors = {}
        for (head, layer), (weight, bias) in self.blocks.items():
            tensors[f"{prefix}{head}.{layer}.linear.weight"] = weight
            tensors[f"{prefix}{head}.{layer}.linear.bias"] = bias
        if own:
            tensors |= {f"{prefix}{k}.{self.layers}.weight": output for k, output in enumerate(self.outputs)}
        return tensors

    def vllm(self, prefix: str = "", *, biased: bool = True) -> dict[str, torch.Tensor]:
        tensors = {}
        for (head, layer), (weight, bias) in self.blocks.items():
            tensors[f"{prefix}blocks.{head}.layers.{layer}.weight"] = weight
            if biased:
                tensors[f"{prefix}blocks.{head}.layers.{layer}.bias"] = bias
        return tensors | {f"{prefix}lm_heads.{k}.weight": output for k, output in enumerate(self.outputs)}

    def tensorrt(self) -> dict[str, torch.Tensor]:
        tensors = {}
        for (head, layer), (weight, bias) in self.blocks.items():
            tensors[f"medusa_heads.{head}.medusa_layers.{layer}.linear.weight"] = weight
            tensors[f"medusa_heads.{head}.medusa_layers.{layer}.linear.bias"] = bias
        return tensors | {f"medusa_heads.{k}.lm_head.weight": output for k, output in enumerate(self.outputs)}


@pytest.fixture
def made() -> type[Made]:
    return Made


@pytest.fixture
def token_map() -> torch.Tensor:
    return TOKEN_MAP.clone()


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes tensors and config.json: `written("v01", tensors, medusa_num_heads=2)`; pickled where the name says so."""

    def write(name: str, tensors: dict[str, torch.Tensor], /, file: str = "medusa_lm_head.safetensors", **config: Any):  # type: ignore[no-untyped-def]
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        tensors = {key: tensor.clone() for key, tensor in tensors.items()}
        if file.endswith(".safetensors"):
            save_file(tensors, folder / file)
        else:
            torch.save(tensors, folder / file)
        if config:
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def vllm_config() -> Callable[..., dict[str, Any]]:
    def config(**changes: Any) -> dict[str, Any]:
        return {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": HIDDEN,
            "vocab_size": VOCAB,
            "num_heads": 3,
            "num_hidden_layers": 1,
            "truncated_vocab_size": None,
        } | changes

    return config


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny llama on disk, whose output head is its own."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture(scope="session")
def backbone(model: Path) -> LeanBackbone:
    """The same model loaded."""
    loading = load_backbone(model, "fp32", "cpu")
    while True:
        try:
            next(loading)
        except StopIteration as finished:
            loaded: LeanBackbone = finished.value[0]
            return loaded
