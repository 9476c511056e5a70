"""Any other transformers causal LM: its own forward pass, with the mask, positions and cache as arguments.

Slower than the lean pass, and the reference it is tested against. Refuses models whose cache cannot drop rows again.
Knows nothing of heads, trees or text.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from medusa_core.backbone.base import BackboneSpec, Cache
from medusa_core.errors import ModelUnsupported

_ROLLS_BACK = {"full_attention", "sliding_attention"}


def unsupported_reason(model: Any) -> str:
    """Why candidate trees cannot be verified by this model; "" where they can."""
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ()) - _ROLLS_BACK
    if kinds:
        return f"its layers of kind {', '.join(sorted(kinds))} cannot forget rejected tokens"
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder model"
    if model.config._attn_implementation not in ("eager", "sdpa"):
        return f"its attention implementation {model.config._attn_implementation} takes no tree mask"
    return ""


class StockCache:
    """A transformers DynamicCache whose rows can be picked."""

    def __init__(self) -> None:
        from transformers import DynamicCache

        # Without a config every layer is a plain one that keeps all rows; sliding layers would drop old ones.
        self.inner: Any = DynamicCache()

    @property
    def length(self) -> int:
        """Rows cached."""
        return int(self.inner.get_seq_length())

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of the rows from `start` on, keep those at offsets `rows`."""
        for layer in self.inner.layers:
            index = torch.tensor([*range(start), *(start + row for row in rows)], device=layer.keys.device)
            layer.keys, layer.values = layer.keys.index_select(2, index), layer.values.index_select(2, index)

    def crop(self, length: int) -> None:
        """Drop every row from `length` on."""
        if length < self.length:
            self.inner.crop(length - self.length)


class StockBackbone:
    """The Backbone protocol over a transformers model's own forward."""

    def __init__(self, model: Any, spec: BackboneSpec) -> None:
        if reason := unsupported_reason(model):
            raise ModelUnsupported(f"{spec.name} cannot verify candidate trees: {reason}.")
        self._model, self._spec = model, spec
        self._decoder = model.get_decoder() if hasattr(model, "get_decoder") else model.base_model
        self._head = model.get_output_embeddings()
        # The argument was renamed in transformers 5.2x; both names are in use.
        parameters = inspect.signature(self._decoder.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._check_output_head()

    @property
    def spec(self) -> BackboneSpec:
        """Sizes and identity."""
        return self._spec

    @property
    def device(self) -> torch.device:
        """Where the pass runs."""
        device: torch.device = self._model.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of hidden states."""
        return self.embedding_weight.dtype

    @property
    def output_weight(self) -> torch.Tensor:
        """The output head's weight (V, H)."""
        weight: torch.Tensor = self._head.weight.detach()
        return weight

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H)."""
        weight: torch.Tensor = self._model.get_input_embeddings().weight.detach()
        return weight

    def new_cache(self) -> StockCache:
        """An empty cache."""
        return StockCache()

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence -> hidden states (T, H)."""
        if not isinstance(cache, StockCache):
            raise TypeError(f"the stock pass needs transformers' cache, not a {type(cache).__name__}")
        output = self._decoder(
            input_ids=token_ids[None],
            attention_mask=self._bias(token_ids.shape[0], cache.length, mask),
            position_ids=positions[None],
            use_cache=True,
            **{self._cache_argument: cache.inner},
        )
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        logits: torch.Tensor = self._head(hidden)
        return logits

    def _bias(self, rows: int, cached: int, mask: torch.Tensor | None) -> torch.Tensor:
        """The additive mask (1, 1, T, L + T) that transformers passes through unchanged; a bool one is not safe."""
        if mask is None:
            mask = torch.ones(rows, rows, dtype=torch.bool, device=self.device).tril_()
        bias = torch.zeros(rows, cached + rows, dtype=self.dtype, device=self.device)
        bias[:, cached:].masked_fill_(~mask, torch.finfo(self.dtype).min)
        return bias[None, None]

    @torch.inference_mode()
    def _check_output_head(self) -> None:
        """Some families scale or cap their logits after the output head: then the head alone is not the model."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        whole = self._model(input_ids=token, use_cache=False).logits[0]
        ours = self.logits(self._decoder(input_ids=token, use_cache=False).last_hidden_state[0])
        if not torch.allclose(whole.float(), ours.float(), rtol=1e-2, atol=1e-2):
            raise ModelUnsupported(
                f"{self._spec.name} changes its logits after the output head, which this program does not follow."
            )
