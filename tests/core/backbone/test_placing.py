"""Which rows a pass writes and sees, and which stay, against the same said with masks and array operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from medusa_core.backbone.block_cache import BlockCache
from medusa_core.backbone.placing import see
from medusa_core.tree import Tree

LAYERS, KV_HEADS, HEAD_DIM = 3, 2, 8


def seen(visible: np.ndarray, cached: int, rows: int) -> list[list[int]]:
    """The slots that each row sees."""
    places, slots, prefix = np.full((3, rows), -1)
    starts, extras = np.full(rows + 1, -1), np.full(visible.size, -1)
    see(visible, cached, places, slots, prefix, starts, extras)
    assert places.tolist() == [0] * rows
    assert slots.tolist() == list(range(cached, cached + rows))
    return [[*range(prefix[i]), *extras[starts[i] : starts[i + 1]].tolist()] for i in range(rows)]


def test_a_node_of_a_tree_sees_what_is_cached_its_ancestors_and_itself() -> None:
    tree = Tree((0, 0, 0, 1, 3, 2))
    expected = [[*range(7), *(7 + node for node in tree.path(node))] for node in range(len(tree))]
    assert seen(np.array(tree.mask), 7, len(tree)) == expected


def test_rows_without_a_mask_see_all_before_them() -> None:
    assert seen(np.empty((0, 0), np.bool_), 4, 3) == [list(range(5)), list(range(6)), list(range(7))]


@pytest.mark.parametrize("start", [0, 61, 126])  # the second crosses blocks; odd and even halves of pairs
@pytest.mark.parametrize("rows", [(0, 2, 3, 7), (1, 2, 5), (0, 1, 2), (4,), ()])
def test_kept_rows_move_together_and_what_was_before_them_stays(start: int, rows: tuple[int, ...]) -> None:
    cache = BlockCache(LAYERS, KV_HEADS, HEAD_DIM)
    random = np.random.default_rng(3)
    for array in (cache.blocks.keys, cache.blocks.values):
        array[:] = random.integers(1, 2**16, array.shape, dtype=np.uint16)
    cache.advance(start + 8)
    before = by_row(cache)
    cache.keep(start, rows)
    assert cache.length == start + len(rows)
    assert torch.equal(by_row(cache)[: cache.length], before[[*range(start), *(start + row for row in rows)]])


def by_row(cache: BlockCache) -> torch.Tensor:
    """Keys and values, (C, all numbers of a row)."""
    keys = cache.blocks.keys[:, 0].transpose(2, 4, 0, 1, 3, 5).reshape(cache.capacity, -1)
    values = cache.blocks.values[:, 0].transpose(2, 4, 0, 1, 3).reshape(cache.capacity, -1)
    return torch.from_numpy(np.concatenate((keys, values), 1).astype(np.int64))
