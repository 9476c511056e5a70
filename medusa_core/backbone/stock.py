"""Any other transformers causal LM: its own forward pass, with the mask, positions and cache as arguments.

Slower than the lean pass, and the reference it is tested against. Refuses models whose cache cannot drop rows again.
Layers with a sliding window keep all their rows here, and the mask says which a token still sees.
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
    if getattr(model, "_is_stateful", False):
        return f"its {config.model_type} layers cannot forget rejected tokens"
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder model"
    if model.config._attn_implementation not in ("eager", "sdpa"):
        return f"its attention implementation {model.config._attn_implementation} takes no tree mask"
    if isinstance(model, torch.nn.Module) and not _takes_positions(model):
        return f"the pass of {config.model_type} takes no positions of its rows"
    return ""


def _takes_positions(model: Any) -> bool:
    return "position_ids" in inspect.signature(_decoder_of(model).forward).parameters


def _decoder_of(model: Any) -> Any:
    return model.get_decoder() if hasattr(model, "get_decoder") else model.base_model


def _windows(config: Any) -> tuple[int, bool]:
    """The sliding window in tokens (0: none), and whether there are also layers without one."""
    kinds = set(getattr(config, "layer_types", None) or ["sliding_attention"])
    window = getattr(config, "sliding_window", None) or 0
    return (int(window), kinds != {"sliding_attention"}) if "sliding_attention" in kinds else (0, True)


class _Change:
    """What some families do to their logits after the output head: scale them (Cohere, Granite), cap them (Gemma 2)."""

    def __init__(self, config: Any) -> None:
        factor = float(getattr(config, "logit_scale", None) or 1.0)
        self._factor = factor / float(getattr(config, "logits_scaling", None) or 1.0)
        self._cap = float(getattr(config, "final_logit_softcapping", None) or 0.0)

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        if self._factor != 1.0:
            logits = logits * self._factor
        return torch.tanh(logits / self._cap) * self._cap if self._cap else logits


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
    """The Backbone protocol over a transformers model's own forward; its layers may lie on several GPUs.

    What comes in and goes out is on `device`, where the first layer is.
    """

    def __init__(self, model: Any, spec: BackboneSpec) -> None:
        self._model, self._spec = model, spec
        self._decoder = _decoder_of(model)
        self._head = model.get_output_embeddings()
        config = model.config.get_text_config(decoder=True)
        self._window, self._mixed = _windows(config)
        self._change = _Change(config)
        self._cache_argument = ""
        self._check_trees()
        self._check_output_head()

    def _check_trees(self) -> None:
        if reason := unsupported_reason(self._model):
            raise ModelUnsupported(f"{self._spec.name} cannot verify candidate trees: {reason}.")
        # The argument was renamed in transformers 5.2x; both names are in use.
        parameters = inspect.signature(self._decoder.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

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
        return weight.to(self.device)

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
            attention_mask=self._bias(positions, cache.length, mask),
            position_ids=positions[None],
            use_cache=True,
            **{self._cache_argument: cache.inner},
        )
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden.to(self.device)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        weight: torch.Tensor = self._head.weight
        # Some families keep their states in 32 bit whatever the weights are in.
        logits: torch.Tensor = self._head(hidden.to(weight.dtype) if weight.is_floating_point() else hidden)
        return self._change(logits.to(hidden.device))

    def _bias(self, positions: torch.Tensor, cached: int, mask: torch.Tensor | None) -> Any:
        """The additive mask (1, 1, T, L + T) that transformers passes through unchanged; a bool one is not safe.

        Where layers with and without a window are mixed, one mask for each kind.
        """
        rows = len(positions)
        if mask is None:
            mask = torch.ones(rows, rows, dtype=torch.bool, device=self.device).tril_()
        bias = torch.zeros(rows, cached + rows, dtype=self.dtype, device=self.device)
        bias[:, cached:].masked_fill_(~mask, torch.finfo(self.dtype).min)
        if not self._window:
            return bias[None, None]
        seen = torch.cat((torch.arange(cached, device=self.device), positions))
        far = positions[:, None] - seen >= self._window
        near = bias.masked_fill(far, torch.finfo(self.dtype).min)[None, None]
        return {"full_attention": bias[None, None], "sliding_attention": near} if self._mixed else near

    @torch.inference_mode()
    def _check_output_head(self) -> None:
        """Some families change their logits after the output head in other ways: then this pass is not the model."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        whole = self._model(input_ids=token, use_cache=False).logits[0]
        ours = self.logits(self._decoder(input_ids=token, use_cache=False).last_hidden_state[0].to(self.device))
        if not torch.allclose(whole.float(), ours.float(), rtol=1e-2, atol=1e-2):
            raise ModelUnsupported(
                f"{self._spec.name} changes its logits after the output head, which this program does not follow."
            )
