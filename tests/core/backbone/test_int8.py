"""The int8 pass: rows of trees, chunks and batches equal decoding token by token, to the last bit."""

from __future__ import annotations

import functools
import os
import platform
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.backbone import kernels, products
from medusa_core.backbone.base import BatchBackbone
from medusa_core.backbone.cost import cost_key
from medusa_core.backbone.fetching import NOTHING
from medusa_core.backbone.int8 import Int8Backbone, unsupported_reason
from medusa_core.backbone.int8_pass import gates_ahead
from medusa_core.backbone.lean import FAMILIES, LeanBackbone
from medusa_core.backbone.load import make_spec
from medusa_core.drafters.base import Drafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.engine import Engine
from medusa_core.errors import ModelUnsupported
from medusa_core.events import Finished
from medusa_core.state import State
from medusa_core.testing import ScriptedDrafter
from medusa_core.tiny import tiny_model, tiny_tokenizer
from medusa_core.tree import Tree
from tests.core.backbone.int8_models import PROMPT, grown, int8, odd_model, read, varied, wide_model


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 16, 33, 64])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_a_tree_equal_their_path_token_by_token(family: str, nodes: int) -> None:
    backbone, tree = int8(family), grown(nodes, nodes)
    cache = backbone.new_cache()
    read(backbone, PROMPT, cache)
    tokens = [random.Random(node).randrange(256) for node in range(nodes)]
    together = read(backbone, tokens, cache, tree)
    for node in range(0, nodes, max(1, nodes // 12)):
        cache.crop(len(PROMPT))
        for step in tree.path(node):
            alone = read(backbone, [tokens[step]], cache)
        assert torch.equal(alone[0], together[node])


@pytest.mark.parametrize("length", [6, 7, 63, 64])
def test_rows_that_are_not_seen_do_not_count_whatever_they_hold(length: int) -> None:
    backbone, tree = int8(), Tree((0, 0, 0, 1, 1))
    clean, dirty = backbone.new_cache(), backbone.new_cache()
    for cache in (clean, dirty):
        read(backbone, PROMPT[:length], cache)
    for slot in range(length, length + 20):
        dirty.blocks.keys[:, :, :, slot // 64, :, slot % 64] = 0x7FC0  # not a number
        dirty.blocks.values[:, :, :, slot // 2, :, slot % 2] = 0x7F80  # infinite
    assert torch.equal(read(backbone, [1], dirty), read(backbone, [1], clean))
    assert torch.equal(read(backbone, [2, 3, 4, 5, 6], dirty, tree), read(backbone, [2, 3, 4, 5, 6], clean, tree))


_ELSEWHERE = """
import torch
from medusa_core.backbone import products, weighted
from medusa_core.backbone.int8 import Int8Backbone
from medusa_core.backbone.load import make_spec
from medusa_core.tiny import tiny_model, tiny_tokenizer
from medusa_core.tree import Tree

assert (weighted.TILE, weighted.MOST, weighted.DOTS, products.HERE) == (16, 4, False, products.ANY)
model = tiny_model("llama")
backbone, tree = Int8Backbone(model, make_spec(model, tiny_tokenizer(), "tiny")), Tree((0, 0, 0, 1, 1, 4, 2, 5, 6))
cache, tokens = backbone.new_cache(), list(range(40, 49))
with torch.inference_mode():
    backbone.forward(torch.arange(33), torch.arange(33), None, cache)
    at = 33 + torch.tensor(tree.depths)
    together = backbone.forward(torch.tensor(tokens), at, torch.tensor(tree.mask), cache)
    for node in range(len(tree)):
        cache.crop(33)
        for step in tree.path(node):
            alone = backbone.forward(torch.tensor([tokens[step]]), at[step : step + 1], None, cache)
        assert torch.equal(alone[0], together[node]), node
torch.save(together, "hidden.pt")
"""


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or products.HERE is products.ANY,
    reason="needs a processor that can play a lesser one",
)
def test_on_a_processor_without_the_wide_instructions_it_is_the_same(tmp_path: Path) -> None:
    plays = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse4.2,+popcnt,+bmi,+bmi2"}
    run = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE],
        cwd=tmp_path,
        env=os.environ | plays,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    model, tree = tiny_model("llama"), Tree((0, 0, 0, 1, 1, 4, 2, 5, 6))
    backbone = Int8Backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    cache = backbone.new_cache()
    read(backbone, list(range(33)), cache)
    with torch.inference_mode():
        mask, positions = torch.tensor(tree.mask), 33 + torch.tensor(tree.depths)
        here = backbone.forward(torch.arange(40, 49), positions, mask, cache)
    torch.testing.assert_close(torch.load(tmp_path / "hidden.pt"), here, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_chunks_equal_token_by_token(family: str) -> None:
    backbone = int8(family)
    tokens = [(i * 41) % 256 for i in range(300)]
    caches = backbone.new_cache(), backbone.new_cache()
    by_chunk = torch.cat([read(backbone, tokens[:256], caches[0]), read(backbone, tokens[256:], caches[0])])
    by_token = torch.cat([read(backbone, [token], caches[1]) for token in tokens])
    assert torch.equal(by_chunk, by_token)
    assert np.array_equal(caches[0].blocks.keys, caches[1].blocks.keys)
    assert np.array_equal(caches[0].blocks.values, caches[1].blocks.values)


@torch.inference_mode()
def test_rows_of_a_batch_equal_single_sequences() -> None:
    backbone = int8()
    assert isinstance(backbone, BatchBackbone)
    sequences = [PROMPT, PROMPT[:3], PROMPT[5:69]]
    batch = backbone.new_batch_cache(places=3, capacity=80)
    singles = [backbone.new_cache() for _ in sequences]
    for place, (tokens, cache) in enumerate(zip(sequences, singles, strict=True)):
        read(backbone, tokens, cache)
        batch.move_in(place, cache)
    for tokens in ([1, 2, 3], [40, 50, 60], [7, 7, 7]):
        hidden = backbone.forward_batch(torch.tensor(tokens), batch)
        together = torch.cat((hidden, backbone.logits(hidden)), dim=-1)
        alone = torch.cat([read(backbone, [t], cache) for t, cache in zip(tokens, singles, strict=True)])
        assert torch.equal(together, alone)
    assert batch.lengths.tolist() == [len(tokens) + 3 for tokens in sequences]
    batch.lengths[1] = 0
    backbone.forward_batch(torch.tensor([5, 5, 5]), batch)
    assert batch.lengths.tolist() == [74, 1, 68]


def test_threads_change_no_bit() -> None:
    backbone, tree, results = int8(), grown(16, 1), []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            cache = backbone.new_cache()
            results.append(torch.cat([read(backbone, PROMPT, cache), read(backbone, list(range(16)), cache, tree)]))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_keep_leaves_the_cache_as_if_only_the_path_had_been_read() -> None:
    backbone, tree = int8(), Tree((0, 0, 0, 1, 1, 2, 3))
    nodes = [65, 66, 67, 68, 69, 70, 71]
    for prompt in (PROMPT[:20], PROMPT[:62]):  # the path ends in the same block of keys, and in the next
        drafted, plain = backbone.new_cache(), backbone.new_cache()
        read(backbone, prompt, drafted)
        read(backbone, nodes, drafted, tree)
        drafted.keep(len(prompt), tree.path(6))
        read(backbone, [*prompt, *(nodes[node] for node in tree.path(6))], plain)
        assert torch.equal(read(backbone, [72], drafted), read(backbone, [72], plain))


@pytest.mark.parametrize("family", FAMILIES)
def test_it_stays_close_to_the_model(family: str) -> None:
    model = varied(family)
    exact = LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"), keep_model=True)
    with torch.inference_mode():
        expected = exact.forward(torch.tensor(PROMPT), torch.arange(70), None, exact.new_cache())
        for backbone in (int8(family), int8(family, measured=False)):
            found = backbone.forward(torch.tensor(PROMPT), torch.arange(70), None, backbone.new_cache())
            assert found.dtype == torch.float32
            assert (found - expected).norm() / expected.norm() < 0.12  # weights of this size make much of little
            wanted = exact.logits(expected)
            assert (backbone.logits(expected) - wanted).norm() / wanted.norm() < 0.02


def reply(backbone: Int8Backbone, drafter: Drafter) -> Finished:
    engine = Engine(backbone, drafter, GreedyRule(), stop_ids=frozenset(), max_new_tokens=40)
    *_, finished = engine.generate(State(backbone.new_cache()), PROMPT)
    assert isinstance(finished, Finished)
    return finished


def test_drafting_writes_the_same_tokens() -> None:
    plain = reply(int8(), NoDrafter())
    drafted = reply(int8(), ScriptedDrafter(plain.token_ids))
    assert drafted.token_ids == plain.token_ids
    assert drafted.steps <= plain.steps / 2


def test_what_it_cannot_run_is_refused() -> None:
    model = tiny_model("llama")
    model.model.layers[0].self_attn.o_proj.bias = torch.nn.Parameter(torch.zeros(64))
    assert unsupported_reason(model) == "its output projections have biases"
    with pytest.raises(ModelUnsupported, match=r"tiny cannot run in int8: its output projections have biases\. Choose"):
        Int8Backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))


def test_another_cache_is_refused() -> None:
    model = tiny_model("llama")
    lean = LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    with pytest.raises(TypeError, match="KVCache"):
        int8().forward(torch.tensor([1]), torch.tensor([0]), None, lean.new_cache())


def test_measured_times_do_not_outlive_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cost_key(int8(), "int8", "none")
    monkeypatch.setattr("medusa_core.backbone.int8.BUILD", "another")
    assert cost_key(int8(), "int8", "none") != before


_SHAPED = {"odd": odd_model} | {f"heads of {size}": functools.partial(wide_model, size) for size in (32, 64, 96)}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", _SHAPED)
@torch.inference_mode()
def test_other_shapes_are_exact_and_close_too(shape: str, threads: int) -> None:
    model, before = _SHAPED[shape](), torch.get_num_threads()
    exact = LeanBackbone(model, make_spec(model, tiny_tokenizer(), shape), keep_model=True)
    expected = exact.forward(torch.tensor(PROMPT), torch.arange(70), None, exact.new_cache())
    backbone = Int8Backbone(model, make_spec(model, tiny_tokenizer(), shape))
    torch.set_num_threads(threads)
    try:
        cache, tree, tokens = backbone.new_cache(), grown(9, 2), list(range(9))
        found = read(backbone, PROMPT, cache)[:, : expected.shape[1]]
        assert (found - expected).norm() / expected.norm() < 0.12
        together = read(backbone, tokens, cache, tree)
        for node in range(9):
            cache.crop(len(PROMPT))
            for step in tree.path(node):
                alone = read(backbone, [tokens[step]], cache)
            assert torch.equal(alone[0], together[node])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_what_is_asked_for_ahead_is_each_workers_own_share_of_gate_and_up(workers: int) -> None:
    weights = int8()._weights
    of_layer, width = weights.gate_up.weights[1], weights.down.factors.shape[1]
    start, block = of_layer.ctypes.data, of_layer.strides[0]
    asked = []
    for worker in range(workers):
        first, last, up_first, up_last = gates_ahead(1, weights, worker, workers)
        assert (up_first - first, up_last - last) == (width // products.HERE.block * block,) * 2
        own = kernels.own_columns(width, worker, workers)
        assert (first - start, last - start) == tuple(column // products.HERE.block * block for column in own)
        asked += [*range(first, last, block), *range(up_first, up_last, block)]
    assert sorted(asked) == [start + i * block for i in range(len(of_layer))]


def test_where_gate_and_up_share_a_block_nothing_is_asked_for_ahead() -> None:
    model = odd_model()
    weights = Int8Backbone(model, make_spec(model, tiny_tokenizer(), "odd"))._weights
    assert gates_ahead(0, weights, 0, 2) == NOTHING


@torch.inference_mode()
def test_what_is_beyond_the_context_or_a_place_is_refused() -> None:
    backbone = int8()
    with pytest.raises(IndexError, match="position 512 of a model that holds 512 tokens"):
        backbone.forward(torch.tensor([1]), torch.tensor([512]), None, backbone.new_cache())
    batch = backbone.new_batch_cache(places=2, capacity=64)
    batch.lengths[1] = 64
    with pytest.raises(IndexError, match="2 tokens for 2 places of 64 rows each"):
        backbone.forward_batch(torch.tensor([1, 2]), batch)
    with pytest.raises(IndexError, match="1 tokens for 2 places"):
        backbone.forward_batch(torch.tensor([1]), batch)


@torch.inference_mode()
def test_no_rows_have_no_logits() -> None:
    assert int8().logits(torch.empty(0, 64)).shape == (0, 264)
