"""The KV cache: one block of memory for all layers; append rows, keep the accepted ones, crop, grow; in place or not.

Shapes: layers, 2 (keys, values), B sequences, G key/value heads, capacity, D head dimension. Knows nothing of trees:
which rows are kept is told to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from medusa_core.transfer import upload

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


@dataclass(slots=True)
class Storage:
    """Memory that a cache borrows. It keeps its place, so passes recorded over it stay valid for the next cache."""

    data: torch.Tensor  # (layers, 2, 1, G, capacity, D)
    recordings: dict[tuple[int, int], Any] = field(default_factory=dict)  # by rows of the pass and rows it sees

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return self.data.shape[4]


class Storages:
    """Lends storages whose capacity is one of `buckets`; one that came back is kept for the next cache."""

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        *,
        buckets: Sequence[int],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        """`buckets`: capacities, ascending."""
        self._sizes, self._dtype, self._device = (layers, kv_heads, head_dim), dtype, device
        self._buckets = tuple(buckets)
        self._idle: list[Storage] = []

    def bucket(self, rows: int) -> int:
        """The smallest bucket that holds so many rows."""
        return next((size for size in self._buckets if size >= rows), -(-rows // _BLOCK) * _BLOCK)

    def take(self, rows: int) -> Storage:
        """A storage of zeros for at least `rows` rows."""
        fitting = self._idle and self._idle[-1].capacity >= rows
        storage = self._idle.pop() if fitting else None
        self._idle.clear()  # at most one idle storage, and none that has become too small
        if storage is None:
            layers, kv_heads, head_dim = self._sizes
            with torch.inference_mode(False):  # else it could only be written to in inference mode
                size = (layers, 2, 1, kv_heads, self.bucket(rows), head_dim)
                return Storage(torch.zeros(size, dtype=self._dtype, device=self._device))
        storage.data.zero_()  # a number that is none would spread even through masked rows
        return storage

    def give_back(self, storage: Storage) -> None:
        """For the next cache."""
        self._idle[:] = [storage]


class BucketCache(KVCache):
    """A KVCache over a borrowed storage, for passes of fixed shapes: rows are written in place, growth is by bucket."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._length = 0
        self._borrow(storages.take(1))

    @property
    def storage(self) -> Storage:
        """What the rows stand in."""
        return self._storage

    def reserve(self, rows: int) -> None:
        """Make room for `rows` more: the rows move to a storage of the next fitting bucket."""
        needed = self._length + rows
        if needed <= self.capacity:
            return
        old = self._data
        if old.device.type == "cuda":
            torch.cuda.synchronize(old.device)  # a recording is let go below, and must not be running
        self._lender.detach()  # too small: not for the next cache either
        self._borrow(self._storages.take(needed))
        self._data[:, :, :, :, : self._length] = old[:, :, :, :, : self._length]

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """See `KVCache`; the path goes to the device without waiting for it."""
        moved = next((i for i, row in enumerate(rows) if row != i), len(rows))
        if moved < len(rows):
            index = upload([start + row for row in rows[moved:]], self._data.device)
            self._data[:, :, :, :, start + moved : start + len(rows)] = self._data.index_select(4, index)
        self._length = start + len(rows)

    def _borrow(self, storage: Storage) -> None:
        self._storage, self._data = storage, storage.data
        self._lender = weakref.finalize(self, self._storages.give_back, storage)
        self._lender.atexit = False


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
