"""Rows appended, kept, cropped and grown."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone.cache import BatchCache, KVCache

LAYERS, KV_HEADS, HEAD_DIM = 2, 3, 4


def numbered(first: int, count: int) -> torch.Tensor:
    """Rows (1, G, T, D) that carry their own number."""
    return torch.arange(first, first + count).float()[None, None, :, None].expand(1, KV_HEADS, count, HEAD_DIM)


def write(cache: KVCache, first: int, count: int) -> None:
    cache.reserve(count)
    for layer in range(LAYERS):
        cache.append(layer, numbered(first, count) + 1000 * layer, -numbered(first, count))
    cache.advance(count)


def rows(cache: KVCache) -> list[int]:
    """The numbers of the cached rows; every layer, head, key and value must agree on them."""
    length = cache.length
    cache.reserve(1)
    seen = set()
    for layer in range(LAYERS):
        keys, values = cache.append(layer, numbered(0, 1), numbered(0, 1))
        for head in range(KV_HEADS):
            seen.add(tuple((keys[0, head, :length, 0] - 1000 * layer).int().tolist()))
            seen.add(tuple((-values[0, head, :length, -1]).int().tolist()))
    assert len(seen) == 1
    return list(seen.pop())


@pytest.fixture
def cache() -> KVCache:
    return KVCache(LAYERS, KV_HEADS, HEAD_DIM, dtype=torch.float32, device="cpu")


def test_append_returns_the_old_rows_and_the_new(cache: KVCache) -> None:
    write(cache, 0, 3)
    cache.reserve(2)
    keys, values = cache.append(0, numbered(3, 2), -numbered(3, 2))
    assert keys[0, 1, :, 0].tolist() == [0, 1, 2, 3, 4]
    assert values[0, 2, :, 3].tolist() == [0, -1, -2, -3, -4]


def test_rows_count_only_once_every_layer_has_them(cache: KVCache) -> None:
    cache.append(0, numbered(0, 2), numbered(0, 2))
    assert cache.length == 0
    cache.advance(2)
    assert cache.length == 2


@pytest.mark.parametrize("kept", [[0], [0, 1, 2], [0, 2, 5], [1, 3, 4], [0, 5], []])
def test_keep_takes_the_named_rows_in_order(cache: KVCache, kept: list[int]) -> None:
    write(cache, 0, 4)
    write(cache, 4, 6)
    cache.keep(4, kept)
    assert rows(cache) == [0, 1, 2, 3, *(4 + row for row in kept)]


def test_crop_drops_the_end_and_never_adds(cache: KVCache) -> None:
    write(cache, 0, 5)
    cache.crop(9)
    assert cache.length == 5
    cache.crop(2)
    assert rows(cache) == [0, 1]
    write(cache, 7, 1)
    assert rows(cache) == [0, 1, 7]


def test_growth_is_in_blocks_and_loses_nothing(cache: KVCache) -> None:
    block = cache.capacity
    write(cache, 0, block - 1)
    write(cache, block - 1, 1)
    assert cache.capacity == block  # exactly full: no growth yet
    write(cache, block, 1)
    assert cache.capacity == 2 * block
    write(cache, block + 1, 2 * block)
    assert cache.capacity == 4 * block
    cache.keep(block + 1, [0, 7])
    assert rows(cache) == [*range(block + 1), block + 1, block + 8]


def test_a_sequence_moves_into_its_place_of_a_batch(cache: KVCache) -> None:
    write(cache, 10, 3)
    batch = BatchCache(LAYERS, KV_HEADS, HEAD_DIM, places=3, capacity=8, dtype=torch.float32, device="cpu")
    batch.move_in(1, cache)
    assert batch.lengths.tolist() == [0, 3, 0]
    keys, _ = batch.append(1, torch.full((3, KV_HEADS, 1, HEAD_DIM), 5.0), torch.zeros(3, KV_HEADS, 1, HEAD_DIM))
    assert keys[1, 0, :, 0].tolist() == [1010, 1011, 1012, 5]
    assert keys[0, 0, :, 0].tolist() == [5, 0, 0, 0]  # an empty place writes at its own length
