"""Small models in int8, and what tests of the pass ask them."""

from __future__ import annotations

import functools
import random
from typing import Any

import torch

from medusa_core.backbone.block_cache import BlockCache
from medusa_core.backbone.calibration import measure
from medusa_core.backbone.int8 import Int8Backbone
from medusa_core.backbone.load import make_spec
from medusa_core.tiny import tiny_model, tiny_tokenizer
from medusa_core.tree import Tree

PROMPT = [(i * 37) % 256 for i in range(70)]  # over a block of keys


def varied(family: str) -> Any:
    """A tiny model whose norms have weights that differ: with ones, a lost or swapped norm would show in nothing."""
    model, generator = tiny_model(family, context=512), torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 and parameter.eq(1).all():
                parameter.uniform_(0.5, 1.5, generator=generator)
    return model


@functools.cache
def int8(family: str = "llama", *, measured: bool = True) -> Int8Backbone:
    model = varied(family)
    sizes = measure(model, [PROMPT[:9]]) if measured else None
    return Int8Backbone(model, make_spec(model, tiny_tokenizer(), f"tiny {family}"), sizes)


@torch.inference_mode()
def read(backbone: Int8Backbone, tokens: list[int], cache: BlockCache, tree: Tree | None = None) -> torch.Tensor:
    """Hidden states and logits side by side."""
    depths = list(range(len(tokens))) if tree is None else list(tree.depths)
    mask = None if tree is None else torch.tensor(tree.mask)
    hidden = backbone.forward(torch.tensor(tokens), cache.length + torch.tensor(depths), mask, cache)
    return torch.cat((hidden, backbone.logits(hidden)), dim=-1)


def grown(nodes: int, seed: int) -> Tree:
    rng = random.Random(seed)
    return Tree(tuple(rng.randrange(max(0, i - 6), i) if i else 0 for i in range(nodes)))


def shaped(kind: str, *, bias: float = 0.0, **sizes: int) -> Any:
    """A random model of transformers' `kind` with two layers of these sizes; biases, where it has any, of this size."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, vocab_size=256, num_hidden_layers=2, max_position_embeddings=512, **sizes)
    torch.manual_seed(4)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(False)
        if parameter.dim() > 1:
            parameter.normal_(0, 0.2)
        elif name.endswith("bias"):
            parameter.normal_(0, bias)
        else:
            parameter.uniform_(0.5, 1.5)
    return model


def odd_model() -> Any:
    """Sizes that no block divides, so that one worker has all columns; and seven queries to a key."""
    return shaped(
        "llama", hidden_size=84, intermediate_size=100, num_attention_heads=7, num_key_value_heads=1, head_dim=8
    )


def wide_model(head_dim: int) -> Any:
    """Heads of whole registers, and biases where queries, keys and values are made."""
    return shaped(
        "qwen2", bias=0.5, hidden_size=128, intermediate_size=192, num_attention_heads=6, num_key_value_heads=2,
        head_dim=head_dim,
    )  # fmt: skip
