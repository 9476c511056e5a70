"""The KV cache of the int8 pass: bfloat16 in the bits of uint16, in blocks and pairs as `attention.py` reads them.

Shapes: layers, P places, G key/value heads, C capacity of a place (a whole number of blocks), D head dimension.
Knows nothing of trees: which rows are kept is told to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from medusa_core.backbone.attention import BLOCK, value_width
from medusa_core.backbone.placing import keep
from medusa_core.backbone.products import aligned

_GROWTH = 256  # rows: the cache grows by this much


class Blocks:
    """`keys` (layers, P, G, C / 64, D / 2, 64, 2) and `values` (layers, P, G, C / 2, W, 2); W is `value_width`."""

    def __init__(self, layers: int, places: int, kv_heads: int, capacity: int, head_dim: int) -> None:
        blocks = -(-capacity // BLOCK)
        first = (layers, places, kv_heads)
        self.keys: NDArray[np.uint16] = aligned((*first, blocks, head_dim // 2, BLOCK, 2), np.uint16)
        self.values: NDArray[np.uint16] = aligned((*first, blocks * BLOCK // 2, value_width(head_dim), 2), np.uint16)

    @property
    def capacity(self) -> int:
        """Rows that a place has."""
        return 2 * int(self.values.shape[3])


def batch_bytes(layers: int, places: int, kv_heads: int, capacity: int, head_dim: int) -> int:
    """What a `BlockBatch` of this size takes."""
    return layers * places * kv_heads * -(-capacity // BLOCK) * BLOCK * (head_dim + value_width(head_dim)) * 2


class BlockCache:
    """One sequence's keys and values. Rows become part of `length` only with `advance`, after the whole pass."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int) -> None:
        self.blocks = Blocks(layers, 1, kv_heads, _GROWTH, head_dim)
        self._length = 0

    @property
    def length(self) -> int:
        """Rows cached."""
        return self._length

    @property
    def capacity(self) -> int:
        """Rows that fit before the next growth."""
        return self.blocks.capacity

    def reserve(self, rows: int) -> None:
        """Make room for `rows` more."""
        needed = self._length + rows
        if needed <= self.capacity:
            return
        layers, places, kv_heads, blocks, half, _, _ = self.blocks.keys.shape
        grown = Blocks(layers, places, kv_heads, -(-needed // _GROWTH) * _GROWTH, 2 * half)
        grown.keys[:, :, :, :blocks] = self.blocks.keys
        grown.values[:, :, :, : self.capacity // 2] = self.blocks.values
        self.blocks = grown

    def advance(self, rows: int) -> None:
        """Count the rows that every layer has now written."""
        self._length += rows

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of the rows from `start` on, keep those at offsets `rows` (ascending), in order; drop the rest."""
        if rows and rows[-1] != len(rows) - 1:
            keep(self.blocks.keys, self.blocks.values, start, np.array(rows, np.int64))
        self._length = start + len(rows)

    def crop(self, length: int) -> None:
        """Drop every row from `length` on."""
        self._length = min(self._length, length)


class BlockBatch:
    """Keys and values of B sequences of different lengths, for generating many replies at once.

    A place in the batch is freed by setting its length to 0; a new sequence then moves in.
    """

    def __init__(self, layers: int, kv_heads: int, head_dim: int, *, places: int, capacity: int) -> None:
        self.blocks = Blocks(layers, places, kv_heads, capacity, head_dim)
        self.lengths = torch.zeros(places, dtype=torch.long)

    def move_in(self, place: int, cache: BlockCache) -> None:
        """Copy a sequence's rows to a place of the batch."""
        blocks = -(-cache.length // BLOCK)
        self.blocks.keys[:, place, :, :blocks] = cache.blocks.keys[:, 0, :, :blocks]
        pairs = -(-cache.length // 2)
        self.blocks.values[:, place, :, :pairs] = cache.blocks.values[:, 0, :, :pairs]
        self.lengths[place] = cache.length
