"""Models whose cache cannot forget rejected tokens: read in order, one path only, so that nothing can be drafted.

Linear attention and state-space layers fold every token into one state; there is no row to drop. Such a model still
answers, a token a step, and `BackboneSpec.no_trees` says why. The cache starts anew where a conversation is cut back.
Knows nothing of heads, trees or text.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from medusa_core.backbone.base import Backbone, BackboneSpec, Cache
from medusa_core.backbone.stock import StockBackbone, unsupported_reason
from medusa_core.errors import ModelUnsupported

_CHUNK = 4  # tokens
_NOISE = 8  # times the difference that rounding makes is no rounding any more
_CACHE_ARGUMENTS = ("cache", "past_key_values", "cache_params")


def stock_backbone(model: Any, spec: BackboneSpec) -> Backbone:
    """transformers' own pass: with candidate trees where the model can verify them, else in order."""
    reason = unsupported_reason(model)
    if not reason:
        return StockBackbone(model, spec)
    return RecurrentBackbone(model, replace(spec, no_trees=reason))


class RecurrentCache:
    """A cache that can only grow, or start anew."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.inner: Any
        self.length: int
        self._start()

    def _start(self) -> None:
        from transformers import DynamicCache

        self.inner = DynamicCache(config=self._model.config)
        self.length = 0

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Rows can be kept only as they are, all of them."""
        if list(rows) != list(range(self.length - start)):
            raise TypeError("a cache that cannot forget was asked to drop rows")

    def crop(self, length: int) -> None:
        """Drop rows: all of them, since none can be dropped alone. `length` tells what is left."""
        if length < self.length:
            self._start()


class RecurrentBackbone(StockBackbone):
    """The Backbone protocol for one path: masks other than the causal one are refused."""

    def _check_trees(self) -> None:
        if getattr(self._model.config, "is_encoder_decoder", False):
            raise ModelUnsupported(f"{self._spec.name} cannot be used: {self._spec.no_trees}.")
        parameters = inspect.signature(self._decoder.forward).parameters
        names = [name for name in _CACHE_ARGUMENTS if name in parameters]
        if not names:
            raise ModelUnsupported(
                f"{self._spec.name} ({self._spec.family}) keeps what it has read in a form of its own, which this "
                "program does not follow."
            )
        self._cache_argument = names[0]
        self._takes_positions = "position_ids" in parameters
        self._reads_chunks = True
        self._reads_chunks = self._chunks_agree()

    def new_cache(self) -> RecurrentCache:  # type: ignore[override]
        """An empty cache."""
        return RecurrentCache(self._model)

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence, in order -> hidden states (T, H)."""
        if not isinstance(cache, RecurrentCache):
            raise TypeError(f"a model that cannot forget needs its own cache, not a {type(cache).__name__}")
        if mask is not None and not torch.equal(mask, torch.ones_like(mask).tril()):
            raise TypeError("a model that cannot forget was given a tree")
        if self._reads_chunks or cache.length == 0:
            return self._read(token_ids, positions, cache)
        parts = zip(token_ids.split(1), positions.split(1), strict=True)
        return torch.cat([self._read(token, position, cache) for token, position in parts])

    def _read(self, token_ids: torch.Tensor, positions: torch.Tensor, cache: RecurrentCache) -> torch.Tensor:
        where = {"position_ids": positions[None]} if self._takes_positions else {}
        output = self._decoder(
            input_ids=token_ids[None], use_cache=True, **where, **{self._cache_argument: cache.inner}
        )
        cache.length += len(token_ids)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden.to(self.device)

    @torch.inference_mode()
    def _chunks_agree(self) -> bool:
        """Some families forget their state when they are given several tokens to go on with: those read in steps."""
        tokens = torch.arange(2 * _CHUNK, device=self.device) % self._spec.vocab_size
        whole = self._read(tokens, tokens, self.new_cache())[_CHUNK:]
        apart = []
        for size in (1, _CHUNK):
            cache = self.new_cache()
            self._read(tokens[:_CHUNK], tokens[:_CHUNK], cache)
            rest = [self._read(part, part, cache) for part in tokens[_CHUNK:].split(size)]
            apart.append(float((torch.cat(rest) - whole).abs().max()))
        # What steps, which are right, differ by is rounding.
        return apart[1] <= _NOISE * max(apart[0], torch.finfo(self.dtype).eps * float(whole.abs().max()))
