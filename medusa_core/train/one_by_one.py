"""Many sequences over a backbone that takes one at a time: each in turn, for models that have no batched pass.

As slow as they are many, but any model that can verify a tree can so write its own training data.
Knows nothing of what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from medusa_core.backbone.base import Backbone, BackboneSpec, BatchBackbone, BatchRows, Cache
from medusa_core.config import DistillConfig
from medusa_core.errors import ModelUnsupported

_PLACES = 4
_ROW_NUMBERS = 2  # a key and a value of at most the hidden size in every layer


def batched(backbone: Backbone, data: DistillConfig) -> tuple[BatchBackbone, DistillConfig]:
    """The backbone itself where it carries many sequences at once, else one that takes them in turn, and then few:
    more would only mean more that are begun when enough is written.

    Raises ModelUnsupported for a model that heads are of no use to.
    """
    if backbone.spec.no_trees:
        raise ModelUnsupported(
            f"Heads for {backbone.spec.name} would be of no use: it cannot verify what they guess, since "
            f"{backbone.spec.no_trees}."
        )
    if isinstance(backbone, BatchBackbone):
        return backbone, data
    return OneByOne(backbone), replace(data, places=min(data.places, _PLACES))


class Rows:
    """A cache for each place. A place whose length is set to 0 is free, and its cache is dropped at the next pass."""

    def __init__(self, places: int) -> None:
        self.lengths = torch.zeros(places, dtype=torch.long)
        self.caches: list[Cache | None] = [None] * places

    def move_in(self, place: int, cache: Cache) -> None:
        """Take over one sequence's cache."""
        self.caches[place] = cache
        self.lengths[place] = cache.length


class OneByOne:
    """The BatchBackbone protocol over any backbone."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone

    @property
    def spec(self) -> BackboneSpec:
        """Sizes and identity."""
        return self._backbone.spec

    @property
    def device(self) -> torch.device:
        """Where the pass runs."""
        return self._backbone.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of hidden states."""
        return self._backbone.dtype

    @property
    def output_weight(self) -> torch.Tensor:
        """The output head's weight (V, H)."""
        return self._backbone.output_weight

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H)."""
        return self._backbone.embedding_weight

    def new_cache(self) -> Cache:
        """An empty cache of one sequence."""
        return self._backbone.new_cache()

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence -> hidden states (T, H)."""
        return self._backbone.forward(token_ids, positions, mask, cache)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        return self._backbone.logits(hidden)

    def new_batch_cache(self, places: int, capacity: int) -> Rows:
        """An empty cache for `places` sequences, which grows with them."""
        return Rows(places)

    def batch_cache_bytes(self, places: int, capacity: int) -> int:
        """What full caches take at most."""
        spec = self.spec
        return places * capacity * spec.num_layers * _ROW_NUMBERS * spec.hidden_size * self.dtype.itemsize

    def forward_batch(self, token_ids: torch.Tensor, cache: BatchRows) -> torch.Tensor:
        """One new row for each of B sequences (B,), at each one's own length; (B, H), zeros for free places."""
        if not isinstance(cache, Rows):
            raise TypeError(f"sequences taken in turn need caches of their own, not a {type(cache).__name__}")
        lengths: Sequence[int] = cache.lengths.tolist()
        hidden = torch.zeros(len(token_ids), self.spec.hidden_size, dtype=self.dtype, device=self.device)
        for place, (length, rows) in enumerate(zip(lengths, cache.caches, strict=True)):
            if length == 0 or rows is None:
                cache.caches[place] = None
                continue
            position = torch.tensor([length], device=self.device)
            hidden[place] = self._backbone.forward(token_ids[place : place + 1], position, None, rows)[0]
            cache.lengths[place] = rows.length
        return hidden
