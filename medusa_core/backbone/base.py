"""The Backbone protocol: what decoding needs of a language model, and nothing more.

Shapes: T rows of one pass, H hidden, V vocabulary, L rows already cached. Knows nothing of heads, trees or text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch

if TYPE_CHECKING:
    from medusa_core.backbone.quantize import Int8Linears


@dataclass(frozen=True, slots=True)
class BackboneSpec:
    """The sizes and the identity of a loaded model."""

    name: str
    family: str  # transformers' model_type
    hidden_size: int
    vocab_size: int  # rows of the output head, which can exceed the tokenizer's length
    num_layers: int
    context_size: int  # tokens that fit
    parameters: int
    fingerprint: str  # hash of the configuration; heads remember which model they were trained for
    gpus: int = 1  # that its layers lie on; on more than one, passes are not recorded
    no_trees: str = ""  # why candidate trees cannot be verified, so that nothing is drafted; "" where they can


class Cache(Protocol):
    """The keys and values of the tokens read so far, one sequence."""

    @property
    def length(self) -> int:
        """Rows cached."""
        ...

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of the rows written from `start` on, keep those at offsets `rows` (ascending), in order; drop the rest."""
        ...

    def crop(self, length: int) -> None:
        """Drop every row from `length` on."""
        ...


class Backbone(Protocol):
    """A causal language model over one sequence."""

    @property
    def spec(self) -> BackboneSpec:
        """Sizes and identity."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the pass runs."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of hidden states."""
        ...

    @property
    def output_weight(self) -> torch.Tensor:
        """The output head's weight (V, H), dequantized where needed; the model's own storage: clone before training."""
        ...

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H); the model's own storage."""
        ...

    def new_cache(self) -> Cache:
        """An empty cache."""
        ...

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """Read T rows and append them to `cache`.

        `token_ids` (T,) and `positions` (T,) are int64; `mask` (T, T) bool says which of the new rows each new row
        sees (itself included), None means causal; every cached row is visible to all. Returns the hidden states
        after the final norm (T, H): what the output head reads.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        ...


class BatchRows(Protocol):
    """The keys and values of several sequences of different lengths; a place is freed by setting its length to 0."""

    lengths: torch.Tensor  # (B,) int64: rows cached, by place

    def move_in(self, place: int, cache: Any) -> None:
        """Copy the rows of one sequence's cache (of `new_cache`) to a place."""
        ...


@runtime_checkable
class BatchBackbone(Backbone, Protocol):
    """A backbone that also carries many sequences a row further at once, for a model that writes training data."""

    def new_batch_cache(self, places: int, capacity: int) -> BatchRows:
        """An empty cache for `places` sequences of up to `capacity` rows."""
        ...

    def batch_cache_bytes(self, places: int, capacity: int) -> int:
        """What `new_batch_cache` takes."""
        ...

    def forward_batch(self, token_ids: torch.Tensor, cache: Any) -> torch.Tensor:
        """One new row for each of B sequences, `token_ids` (B,), at each one's own length. Returns (B, H)."""
        ...


@runtime_checkable
class QuantizesLinears(Protocol):
    """A backbone that can run further linear layers in its own precision."""

    def linears(self, weights: torch.Tensor, biases: torch.Tensor | None = None) -> Int8Linears:
        """S layers side by side, weights (S, N, K) and biases (S, N): float32 rows (S, T, K) -> (S, T, N)."""
        ...
