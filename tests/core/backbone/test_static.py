"""Passes of fixed shapes, computed on the CPU as a GPU records them, equal the lean pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.backbone.base import BatchBackbone
from medusa_core.backbone.cache import BucketCache
from medusa_core.backbone.lean import FAMILIES, LeanBackbone, attention_by_products
from medusa_core.backbone.load import make_spec
from medusa_core.backbone.static import SIZES, DirectPasses, StaticBackbone
from medusa_core.drafters.none import NoDrafter
from medusa_core.engine import Engine
from medusa_core.events import Step
from medusa_core.state import State
from medusa_core.testing import ScriptedDrafter
from medusa_core.tiny import tiny_model, tiny_tokenizer

PROMPT = [ord(c) for c in "Medusa had snakes for hair"]


class Counting(DirectPasses):
    """Notes the shapes it is given, which are what a GPU would record."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []

    def run(self, storage: Any, shape: tuple[int, int], compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        self.shapes.append(shape)
        return super().run(storage, shape, compute)


def static(lean: LeanBackbone, smallest_bucket: int = 64) -> tuple[StaticBackbone, Counting]:
    passes = Counting()
    return StaticBackbone(lean, passes, smallest_bucket=smallest_bucket), passes


def random_tree(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Depths (N,) and ancestor mask (N, N) of a tree whose nodes hang anywhere."""
    generator = torch.Generator().manual_seed(rows)
    depths, mask = torch.zeros(rows, dtype=torch.long), torch.eye(rows, dtype=torch.bool)
    for node in range(1, rows):
        parent = int(torch.randint(node, (), generator=generator))
        depths[node] = depths[parent] + 1
        mask[node] |= mask[parent]
    return depths, mask


@torch.inference_mode()
def read_tree(backbone: Any, rows: int, cache: Any) -> torch.Tensor:
    depths, mask = random_tree(rows)
    tokens = torch.arange(rows) * 31 % 256
    return backbone.logits(backbone.forward(tokens, cache.length + depths, mask, cache))


@torch.inference_mode()
def read(backbone: Any, tokens: list[int], cache: Any) -> torch.Tensor:
    positions = torch.arange(cache.length, cache.length + len(tokens))
    return backbone.logits(backbone.forward(torch.tensor(tokens), positions, None, cache))


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_every_family_and_size_of_a_tree_agrees_with_the_lean_pass(
    tiny_backbone: Callable[..., LeanBackbone], family: str
) -> None:
    lean = tiny_backbone(family, context=1024)
    fixed, passes = static(lean)
    caches = lean.new_cache(), fixed.new_cache()
    for backbone, cache in zip((lean, fixed), caches, strict=True):
        read(backbone, PROMPT, cache)
    for rows in range(1, 65):
        expected, found = read_tree(lean, rows, caches[0]), read_tree(fixed, rows, caches[1])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
        start = caches[0].length - rows
        depths, mask = random_tree(rows)
        path = mask[int(depths.argmax())].nonzero()[:, 0].tolist()
        for cache in caches:
            cache.keep(start, path)
    assert caches[0].length == caches[1].length > 128
    assert {shape[0] for shape in passes.shapes} == set(SIZES)
    assert len({shape[1] for shape in passes.shapes}) >= 3  # several buckets were seen


def test_crop_goes_back_over_the_border_of_a_bucket(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    lean = tiny_backbone(context=1024)
    fixed, passes = static(lean)
    caches = lean.new_cache(), fixed.new_cache()
    for backbone, cache in zip((lean, fixed), caches, strict=True):
        for start in range(0, 192, 48):
            read(backbone, list(range(start, start + 48)), cache)
        cache.crop(20)
    torch.testing.assert_close(read_tree(fixed, 17, caches[1]), read_tree(lean, 17, caches[0]), rtol=0, atol=1e-4)
    assert passes.shapes[-1] == (20, 64)  # only what is there is looked at, though the cache stays large


def test_a_prompt_longer_than_any_size_runs_through_the_lean_pass(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    lean = tiny_backbone(context=1024)
    fixed, passes = static(lean)
    tokens = [(i * 37) % 256 for i in range(300)]
    cache = fixed.new_cache()
    found = torch.cat([read(fixed, tokens[:200], cache), read(fixed, tokens[200:], cache)])
    torch.testing.assert_close(found, read(lean, tokens, lean.new_cache()), rtol=0, atol=1e-4)
    assert passes.shapes == []


@pytest.mark.parametrize("decoys", [0, 2])
def test_replies_are_the_same_up_to_the_last_place_of_the_context(
    tiny_backbone: Callable[..., LeanBackbone], decoys: int
) -> None:
    lean = tiny_backbone(context=256)
    fixed, passes = static(lean)
    engine = Engine(lean, NoDrafter(), GreedyRule(), stop_ids=frozenset(), max_new_tokens=1000)
    plain = State(lean.new_cache())
    list(engine.generate(plain, PROMPT))
    drafter = ScriptedDrafter(plain.reply, depth=7, decoys=decoys)
    state = State(fixed.new_cache())
    engine = Engine(fixed, drafter, GreedyRule(), stop_ids=frozenset(), max_new_tokens=1000)
    steps = [event for event in engine.generate(state, PROMPT) if isinstance(event, Step)]
    assert state.reply == plain.reply
    assert state.cache.length == 256
    assert len(steps) < len(plain.reply) / 4
    assert max(shape[1] for shape in passes.shapes) == 384  # the last bucket has room behind the context


def test_hidden_states_outlive_the_next_pass(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    class Replaying(DirectPasses):
        """Every result in the same memory, as a replay leaves it."""

        output = torch.empty(0)

        def run(self, storage: Any, shape: tuple[int, int], compute: Callable[[], torch.Tensor]) -> torch.Tensor:
            result = compute()
            if self.output.shape == result.shape:
                self.output.copy_(result)
            else:
                self.output = result
            return self.output

    backbone = StaticBackbone(tiny_backbone(), Replaying())
    cache = backbone.new_cache()
    with torch.inference_mode():
        first = backbone.forward(torch.tensor([1]), torch.tensor([0]), None, cache)
        kept = first.clone()
        backbone.forward(torch.tensor([2]), torch.tensor([1]), None, cache)
    assert torch.equal(first, kept)


def test_a_new_cache_takes_over_the_memory_and_recordings_of_one_let_go(
    tiny_backbone: Callable[..., LeanBackbone],
) -> None:
    lean = tiny_backbone(context=1024)
    fixed, _ = static(lean)
    first, second = fixed.new_cache(), fixed.new_cache()
    assert first.storage is not second.storage
    read(fixed, PROMPT, first)
    first.storage.data[...] = float("nan")  # whatever was left there
    storage = first.storage
    storage.recordings[1, 64] = "recorded"
    del first
    third = fixed.new_cache()
    assert third.storage is storage
    assert third.storage.recordings == {(1, 64): "recorded"}
    torch.testing.assert_close(read_tree(fixed, 9, third), read_tree(lean, 9, lean.new_cache()), rtol=0, atol=1e-4)


def test_memory_that_became_too_small_is_let_go(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    fixed, _ = static(tiny_backbone(context=1024))
    cache = fixed.new_cache()
    small = cache.storage
    read(fixed, list(range(100)), cache)
    assert cache.capacity == 128
    assert cache.storage is not small
    grown = cache.storage
    del cache
    assert fixed.new_cache().storage is grown


def test_caches_are_written_outside_inference_mode_too(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    fixed, _ = static(tiny_backbone(context=1024))
    with torch.inference_mode():
        cache = fixed.new_cache()
    read(fixed, list(range(100)), cache)  # grows in inference mode
    fixed.forward(torch.tensor([5]), torch.tensor([100]), None, cache)
    assert cache.length == 101


def test_another_cache_is_refused(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    lean = tiny_backbone()
    with pytest.raises(TypeError, match="KVCache"):
        read(static(lean)[0], [1], lean.new_cache())


def test_it_writes_training_data_as_the_lean_pass_does(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    lean = tiny_backbone()
    fixed, _ = static(lean)
    assert isinstance(fixed, BatchBackbone)
    assert fixed.batch_cache_bytes(2, 64) == lean.batch_cache_bytes(2, 64)
    cache, batch = fixed.new_cache(), fixed.new_batch_cache(places=2, capacity=64)
    assert isinstance(cache, BucketCache)
    read(fixed, PROMPT, cache)
    batch.move_in(1, cache)
    with torch.inference_mode():
        together = fixed.logits(fixed.forward_batch(torch.tensor([7, 7]), batch))[1]
    torch.testing.assert_close(together, read(fixed, [7], cache)[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_attention_by_products_agrees_with_the_fused_kernel(
    tiny_backbone: Callable[..., LeanBackbone], family: str
) -> None:
    model = tiny_model(family, context=1024)
    spec = make_spec(model, tiny_tokenizer(), "tiny")
    fused = tiny_backbone(family, context=1024)
    products = LeanBackbone(model, spec, keep_model=True, attend=attention_by_products)
    caches = fused.new_cache(), products.new_cache()
    for rows in (12, 1, 30):
        expected, found = read_tree(fused, rows, caches[0]), read_tree(products, rows, caches[1])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_attention_by_products_keeps_scores_in_32_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    q, keys, values = (torch.randn(1, 2, rows, 16, generator=generator) * 4 for rows in (6, 40, 40))
    exact = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
    half = [tensor.bfloat16() for tensor in (q, keys, values)]
    exact = torch.nn.functional.scaled_dot_product_attention(*(tensor.float() for tensor in half))
    # Only what the queries, scaled, and the probabilities lose by rounding: scores of 16 bit would lose far more.
    torch.testing.assert_close(attention_by_products(*half, None).float(), exact, rtol=0, atol=0.15)
