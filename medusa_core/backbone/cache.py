"""The KV cache: one block of memory for all layers; append rows, keep the accepted ones, crop, grow.

Shapes: layers, 2 (keys, values), B sequences, G key/value heads, capacity, D head dimension. Knows nothing of trees:
which rows are kept is told to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_BLOCK = 256  # rows: the cache grows by this much


class KVCache:
    """One sequence's keys and values. Rows become part of `length` only with `advance`, after the whole pass."""

    def __init__(
        self, layers: int, kv_heads: int, head_dim: int, *, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self._data = torch.zeros(layers, 2, 1, kv_heads, _BLOCK, head_dim, dtype=dtype, device=device)
        self._length = 0

    @property
    def length(self) -> int:
        """Rows cached."""
        return self._length

    @property
    def capacity(self) -> int:
        """Rows that fit before the next growth."""
        return self._data.shape[4]

    def reserve(self, rows: int) -> None:
        """Make room for `rows` more, in whole blocks."""
        needed = self._length + rows
        if needed <= self.capacity:
            return
        blocks = -(-needed // _BLOCK)
        grown = self._data.new_zeros(*self._data.shape[:4], blocks * _BLOCK, self._data.shape[5])
        grown[:, :, :, :, : self._length] = self._data[:, :, :, :, : self._length]
        self._data = grown

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new rows (1, G, T, D) of one layer behind the cached ones; returns all rows (1, G, L + T, D)."""
        end = self._length + keys.shape[2]
        block = self._data[layer]
        block[0, :, :, self._length : end] = keys
        block[1, :, :, self._length : end] = values
        return block[0, :, :, :end], block[1, :, :, :end]

    def advance(self, rows: int) -> None:
        """Count the rows that every layer has now written."""
        self._length += rows

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of the rows from `start` on, keep those at offsets `rows` (ascending), in order; drop the rest."""
        if list(rows) != list(range(len(rows))):
            index = torch.tensor([start + row for row in rows], device=self._data.device)
            # index_select copies before the write, so overlapping source and target rows are safe.
            self._data[:, :, :, :, start : start + len(rows)] = self._data.index_select(4, index)
        self._length = start + len(rows)

    def crop(self, length: int) -> None:
        """Drop every row from `length` on."""
        self._length = min(self._length, length)


class BatchCache:
    """Keys and values of B sequences of different lengths, for generating many replies at once.

    A place in the batch is freed by setting its length to 0; a new sequence then moves in.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        *,
        places: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        self.data = torch.zeros(layers, 2, places, kv_heads, capacity, head_dim, dtype=dtype, device=device)
        self.lengths = torch.zeros(places, dtype=torch.long, device=device)
        self._places = torch.arange(places, device=device)

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one new row (B, G, 1, D) a sequence at its own length; returns rows up to the longest (B, G, S, D)."""
        end = int(self.lengths.max()) + 1
        block = self.data[layer]
        block[0][self._places, :, self.lengths] = keys[:, :, 0]
        block[1][self._places, :, self.lengths] = values[:, :, 0]
        return block[0, :, :, :end], block[1, :, :, :end]

    def move_in(self, place: int, cache: KVCache) -> None:
        """Copy a sequence's rows to a place of the batch."""
        length = cache.length
        self.data[:, :, place, :, :length] = cache._data[:, :, 0, :, :length]
        self.lengths[place] = length
