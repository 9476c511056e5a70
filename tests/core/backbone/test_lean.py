"""The lean pass equals transformers' own, for every family, through trees, over block borders and in batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from medusa_core.backbone.base import Backbone, Cache
from medusa_core.backbone.lean import FAMILIES, LeanBackbone, unsupported_reason
from medusa_core.backbone.load import make_spec
from medusa_core.backbone.stock import StockBackbone
from medusa_core.errors import ModelUnsupported
from medusa_core.tiny import tiny_model, tiny_tokenizer
from medusa_core.tree import Tree

TREE = Tree((0, 0, 0, 1, 1, 2, 3))
PROMPT = [ord(c) for c in "Medusa had snakes for hair"]
NODES = [65, 66, 67, 68, 69, 70, 71]


@torch.inference_mode()
def read(backbone: Backbone, tokens: list[int], cache: Cache, tree: Tree | None = None) -> torch.Tensor:
    depths = list(range(len(tokens))) if tree is None else list(tree.depths)
    mask = None if tree is None else torch.tensor(tree.mask)
    hidden = backbone.forward(torch.tensor(tokens), cache.length + torch.tensor(depths), mask, cache)
    return backbone.logits(hidden)


@torch.inference_mode()
def greedy(backbone: Backbone, prompt: list[int], count: int) -> list[int]:
    cache, tokens = backbone.new_cache(), [int(read(backbone, prompt, cache := backbone.new_cache())[-1].argmax())]
    while len(tokens) < count:
        tokens.append(int(read(backbone, tokens[-1:], cache)[-1].argmax()))
    return tokens


def both(model: Any, tokenizer: Any) -> tuple[LeanBackbone, StockBackbone]:
    spec = make_spec(model, tokenizer, "tiny")
    return LeanBackbone(model, spec, keep_model=True), StockBackbone(model, spec)


def assert_agree(model: Any, tokenizer: Any, prompt: list[int], nodes: list[int], count: int) -> None:
    lean, stock = both(model, tokenizer)
    caches = lean.new_cache(), stock.new_cache()
    with torch.inference_mode():
        whole = model(input_ids=torch.tensor([prompt])).logits[0]
    by_lean, by_stock = read(lean, prompt, caches[0]), read(stock, prompt, caches[1])
    torch.testing.assert_close(by_lean, whole, rtol=0, atol=1e-4)
    torch.testing.assert_close(by_stock, whole, rtol=0, atol=1e-4)
    for _ in range(2):  # the second tree stands on rows that the first one left
        trees = read(lean, nodes, caches[0], TREE), read(stock, nodes, caches[1], TREE)
        torch.testing.assert_close(trees[0], trees[1], rtol=0, atol=1e-4)
        for cache in caches:
            cache.keep(len(prompt), [0, 2, 5])
        assert caches[0].length == caches[1].length == len(prompt) + 3
        for cache in caches:
            cache.crop(len(prompt) + 2)
        prompt = [*prompt, nodes[0], nodes[2]]
    assert greedy(lean, prompt, count) == greedy(stock, prompt, count)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_agrees_with_transformers(family: str, tied: bool) -> None:
    assert_agree(tiny_model(family, tied=tied), tiny_tokenizer(), PROMPT, NODES, 20)


@pytest.mark.parametrize("rope", ["linear", "llama3", "yarn"])
def test_scaled_rotary_positions_agree(rope: str) -> None:
    model = tiny_model("llama")
    parameters = {"rope_type": rope, "rope_theta": 10000.0, "factor": 4.0}
    if rope != "linear":
        parameters["original_max_position_embeddings"] = 64
    if rope == "llama3":
        parameters |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    model.config.rope_parameters = parameters
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    assert_agree(model, tiny_tokenizer(), PROMPT, NODES, 8)


def test_the_default_model_agrees_with_transformers(default_model_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(default_model_folder, dtype=torch.float32).eval().requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(default_model_folder)
    prompt = tokenizer.encode("The capital of France is")
    nodes = tokenizer.encode(" Paris, a city on the river")[:7]
    assert_agree(model, tokenizer, prompt, nodes, 6)


def test_the_cache_grows_over_block_borders(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    backbone = tiny_backbone(context=1024)
    tokens = [(i * 37) % 256 for i in range(530)]
    whole = read(backbone, tokens, backbone.new_cache())
    cache = backbone.new_cache()
    parts = [read(backbone, tokens[:250], cache)]
    parts += [read(backbone, tokens[start : start + 7], cache) for start in range(250, 264, 7)]  # over 256
    parts.append(read(backbone, tokens[264:511], cache))
    parts += [read(backbone, tokens[start : start + 1], cache) for start in range(511, 515)]  # over 512
    parts.append(read(backbone, tokens[515:], cache))
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-4)


def test_keep_leaves_the_cache_as_if_only_the_path_had_been_read(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    backbone = tiny_backbone()
    drafted, plain = backbone.new_cache(), backbone.new_cache()
    read(backbone, PROMPT, drafted)
    read(backbone, NODES, drafted, TREE)
    drafted.keep(len(PROMPT), TREE.path(6))
    read(backbone, [*PROMPT, *(NODES[node] for node in TREE.path(6))], plain)
    torch.testing.assert_close(read(backbone, [72], drafted), read(backbone, [72], plain), rtol=0, atol=1e-4)


@torch.inference_mode()
def test_rows_of_a_batch_equal_single_sequences(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    backbone = tiny_backbone()
    sequences = [PROMPT, PROMPT[:3], PROMPT[5:16]]
    batch = backbone.new_batch_cache(places=3, capacity=64)
    singles = [backbone.new_cache() for _ in sequences]
    for place, (tokens, cache) in enumerate(zip(sequences, singles, strict=True)):
        read(backbone, tokens, cache)
        batch.move_in(place, cache)
    for tokens in ([1, 2, 3], [40, 50, 60], [7, 7, 7]):
        together = backbone.logits(backbone.forward_batch(torch.tensor(tokens), batch))
        alone = torch.cat([read(backbone, [t], cache) for t, cache in zip(tokens, singles, strict=True)])
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-4)
    assert batch.lengths.tolist() == [len(tokens) + 3 for tokens in sequences]


def test_the_models_own_copies_are_let_go() -> None:
    model = tiny_model("llama")
    LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    linears = [m for layer in model.model.layers for m in layer.modules() if isinstance(m, nn.Linear)]
    assert len(linears) == 14
    assert sum(linear.weight.numel() for linear in linears) == 0
    assert model.lm_head.weight.numel() > 0


def test_another_cache_is_refused(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    model = tiny_model("llama")
    stock = StockBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    with pytest.raises(TypeError, match="StockCache"):
        read(tiny_backbone(), [1], stock.new_cache())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "gpt2"}, "gpt2"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "dynamic"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({}, ""),
    ],
)
def test_what_the_lean_pass_cannot_run_is_said(change: dict[str, Any], reason: str) -> None:
    config = {"model_type": "llama", "rope_parameters": {"rope_type": "default"}, "hidden_act": "silu"} | change
    said = unsupported_reason(SimpleNamespace(config=SimpleNamespace(**config)))
    assert (reason in said) if reason else said == ""


def test_a_quantized_output_head_is_refused() -> None:
    class Packed(nn.Linear):
        """As a 4-bit module: a subclass whose weight is not (V, H)."""

    model = tiny_model("llama")
    model.lm_head = Packed(64, 264, bias=False)
    with pytest.raises(ModelUnsupported, match="output head is a Packed"):
        LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
