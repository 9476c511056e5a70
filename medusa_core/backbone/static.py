"""Passes of fixed shapes over a lean model: what a GPU can record once and replay.

A pass of T rows is filled up to one of a few sizes, and sees the first S rows of a cache, S one of a few buckets. How
many rows are cached is a number on the device, and with it the places that rows are written to and the mask; so no
shape and no address changes from step to step. Longer passes (prompts) run as the lean pass does.
Shapes: T rows, R rows filled up, S rows seen, H hidden, V vocabulary. Knows nothing of CUDA, heads, trees or text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

from medusa_core.backbone.base import BackboneSpec, Cache
from medusa_core.backbone.cache import BatchCache, BucketCache, Storage
from medusa_core.backbone.lean import LeanBackbone

SIZES = (1, 2, 4, 8, 12, 16, 20, 28, 36, 52, 68)  # rows of a pass: a tree is a root and 1, 2, 3, 4, 6 ... draft nodes
_SMALLEST_BUCKET = 512  # rows of a cache
_ALIGNED = 64  # attention kernels want masks whose rows start at whole multiples


class Passes(Protocol):
    """Runs passes of fixed shapes."""

    @property
    def reason(self) -> str:
        """Why passes are not recorded; "" where they are."""
        ...

    def run(self, storage: Storage, shape: tuple[int, int], compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The result of `compute`, or of a recording of it; a replay may overwrite the one before."""
        ...


class DirectPasses:
    """Computes every pass."""

    reason = "passes are computed one operation after the other"

    def run(self, storage: Storage, shape: tuple[int, int], compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Compute."""
        return compute()


class StaticBackbone:
    """The Backbone protocol over a lean one, through passes of fixed shapes."""

    def __init__(self, lean: LeanBackbone, passes: Passes, *, smallest_bucket: int = _SMALLEST_BUCKET) -> None:
        self._lean, self._passes = lean, passes
        self._storages = lean.storages(_buckets(lean.spec.context_size, smallest_bucket))
        self._inputs: dict[int, _Inputs] = {}

    @property
    def spec(self) -> BackboneSpec:
        """Sizes and identity."""
        return self._lean.spec

    @property
    def device(self) -> torch.device:
        """Where the pass runs."""
        return self._lean.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of hidden states."""
        return self._lean.dtype

    @property
    def output_weight(self) -> torch.Tensor:
        """The output head's weight (V, H)."""
        return self._lean.output_weight

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H)."""
        return self._lean.embedding_weight

    @property
    def reason(self) -> str:
        """Why passes are not recorded; "" where they are."""
        return self._passes.reason

    def new_cache(self) -> BucketCache:
        """An empty cache."""
        return BucketCache(self._storages)

    def new_batch_cache(self, places: int, capacity: int) -> BatchCache:
        """An empty cache for `places` sequences of up to `capacity` rows."""
        return self._lean.new_batch_cache(places, capacity)

    def batch_cache_bytes(self, places: int, capacity: int) -> int:
        """What `new_batch_cache` takes."""
        return self._lean.batch_cache_bytes(places, capacity)

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence -> hidden states (T, H)."""
        if not isinstance(cache, BucketCache):
            raise TypeError(f"a pass of fixed shapes writes a cache of its own, not a {type(cache).__name__}")
        count = token_ids.shape[0]
        rows = next((size for size in SIZES if size >= count), None)
        if rows is None:
            return self._lean.forward(token_ids, positions, mask, cache)
        cache.reserve(rows)  # rows that only fill up are written too, behind those that count
        inputs = self._of_size(rows)
        inputs.fill(token_ids, positions, mask, cache.length)
        seen = self._storages.bucket(cache.length + rows)
        compute = partial(_compute, self._lean, inputs, cache.storage.data, seen)
        hidden = self._passes.run(cache.storage, (rows, seen), compute)
        cache.advance(count)
        return hidden[:count].clone()  # the next replay writes over it

    def forward_batch(self, token_ids: torch.Tensor, cache: BatchCache) -> torch.Tensor:
        """One new row for each of B sequences, `token_ids` (B,), at each sequence's own length. Returns (B, H)."""
        return self._lean.forward_batch(token_ids, cache)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        return self._lean.logits(hidden)

    def _of_size(self, rows: int) -> _Inputs:
        if rows not in self._inputs:
            with torch.inference_mode(False):  # else they could only be written to in inference mode
                self._inputs[rows] = _Inputs(rows, self.device)
        return self._inputs[rows]


class _Inputs:
    """What passes of R rows read, always at the same addresses."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.token_ids = torch.zeros(rows, dtype=torch.long, device=device)
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)
        self.length = torch.zeros((), dtype=torch.long, device=device)
        self.mask = torch.eye(rows, dtype=torch.bool, device=device)
        self._alone = torch.eye(rows, dtype=torch.bool, device=device)
        self._causal = torch.ones(rows, rows, dtype=torch.bool, device=device).tril_()

    def fill(self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, length: int) -> None:
        """Rows that fill up repeat the first one, and no other row sees them."""
        count, rows = token_ids.shape[0], self.token_ids.shape[0]
        self.token_ids[:count].copy_(token_ids, non_blocking=True)
        self.positions[:count].copy_(positions, non_blocking=True)
        self.length.fill_(length)
        if count < rows:
            self.token_ids[count:] = self.token_ids[0]
            self.positions[count:] = self.positions[0]
            self.mask.copy_(self._alone)
        known = self._causal[:count, :count] if mask is None else mask
        self.mask[:count, :count].copy_(known, non_blocking=True)


class _Places:
    """Writes the rows of a pass into a storage, at the numbers that a tensor holds."""

    def __init__(self, data: torch.Tensor, places: torch.Tensor, seen: int) -> None:
        self._data, self._places, self._seen = data, places, seen

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See `lean.Slots`."""
        block = self._data[layer]
        block[0].index_copy_(2, self._places, keys)
        block[1].index_copy_(2, self._places, values)
        return block[0, :, :, : self._seen], block[1, :, :, : self._seen]


def _compute(lean: LeanBackbone, inputs: _Inputs, data: torch.Tensor, seen: int) -> torch.Tensor:
    """The pass (R, H). Everything in it has a shape that R and S alone decide."""
    rows = inputs.token_ids.shape[0]
    new = torch.arange(rows, device=data.device)
    offsets = torch.arange(seen, device=data.device) - inputs.length  # from the first new row
    in_tree = (offsets >= 0) & (offsets < rows)
    visible = (offsets < 0) | (in_tree & inputs.mask[:, offsets.clamp(0, rows - 1)])
    return lean.forward_at(inputs.token_ids, inputs.positions, visible, _Places(data, inputs.length + new, seen))


def _buckets(context_size: int, smallest: int) -> tuple[int, ...]:
    """Doubling, up to the whole context and a pass behind it: rows that fill up need places there too."""
    largest = -(-(context_size + SIZES[-1]) // _ALIGNED) * _ALIGNED
    buckets = [smallest]
    while buckets[-1] * 2 < largest:
        buckets.append(buckets[-1] * 2)
    return (*(size for size in buckets if size < largest), largest)
