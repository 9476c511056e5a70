"""The Backbone protocol in int8 on the CPU: a Llama-family model whose products are of integers.

Weights have one scale an output channel, rows one scale each; what stands between two products is one kernel. Every
row equals, to the last bit, the row of decoding its path token by token.
Shapes: T rows, B sequences, H hidden, V vocabulary, Q query heads, G key/value heads, D head dimension.
Knows nothing of heads, trees or text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from medusa_core.backbone import kernels, lean
from medusa_core.backbone.attention import attention
from medusa_core.backbone.base import BackboneSpec, Cache
from medusa_core.backbone.block_cache import BlockBatch, BlockCache, Blocks, batch_bytes
from medusa_core.backbone.quantize import Floats, Int8Linear, smoothing
from medusa_core.errors import ModelUnsupported

Ints = NDArray[np.int64]
_ROWS_WORTH_THREADS = 8
_NONE = np.empty(0, np.float32)
_NO_EXTRAS = np.empty(0, np.int64)


@dataclass(slots=True)
class _Layer:
    input_norm: Floats
    qkv: Int8Linear
    qkv_bias: Floats
    q_norm: Floats
    k_norm: Floats
    cos: Floats
    sin: Floats
    out: Int8Linear
    out_factors: Floats
    post_norm: Floats
    gate_up: Int8Linear
    down: Int8Linear
    down_factors: Floats


class _Rows:
    """What a pass of T rows writes to between its products; kept, since passes of one size follow each other."""

    def __init__(self, rows: int, hidden: int, attended: int, width: int) -> None:
        self.hidden, self.hidden_scales = torch.empty(rows, hidden, dtype=torch.uint8), np.empty(rows, np.float32)
        self.attended_values = np.empty((rows, attended), np.float32)
        self.attended, self.attended_scales = torch.empty(rows, attended, dtype=torch.uint8), np.empty(rows, np.float32)
        self.gated, self.gated_scales = torch.empty(rows, width, dtype=torch.uint8), np.empty(rows, np.float32)
        self.hidden_view, self.attended_view = self.hidden.numpy(), self.attended.numpy()
        self.gated_view = self.gated.numpy()


@dataclass(frozen=True, slots=True)
class _Seen:
    """Where the rows of a pass are written and what they see; see `kernels.attention`."""

    places: Ints
    slots: Ints
    prefix: Ints
    extra_starts: Ints
    extras: Ints


def unsupported_reason(model: Any) -> str:
    """Why this file cannot run the model; "" where it can."""
    if reason := lean.unsupported_reason(model):
        return reason
    layer, config = model.model.layers[0], model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if head_dim % 8:
        return f"its heads have {head_dim} dimensions, not a multiple of 8"
    linears = [layer.self_attn.o_proj, layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj]
    if any(getattr(linear, "bias", None) is not None for linear in linears):
        return "its output projections have biases"
    if any(type(module) is not nn.Linear for module in (*linears, model.get_output_embeddings())):
        return "its weights are quantized already"
    return ""


class Int8Backbone:
    """The Backbone protocol over a Llama-family model of 16 or 32 bit, whose weights it lets go of.

    `largest_inputs` maps "3.qkv", "3.gate_up", ... and "output" to the largest input (K,) that a product has
    met; without it rows are quantized as they come.
    """

    def __init__(
        self, model: Any, spec: BackboneSpec, largest_inputs: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        if reason := unsupported_reason(model):
            raise ModelUnsupported(f"{spec.name} cannot run in int8: {reason}. Choose bf16 or fp32.")
        config, decoder = model.config, model.model
        self._spec = spec
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._eps = np.float32(config.rms_norm_eps)
        self._embedding: torch.Tensor = decoder.embed_tokens.weight.detach().float()
        self._norm = _floats(decoder.norm.weight)
        head = model.get_output_embeddings()
        tied = head.weight.data_ptr() == decoder.embed_tokens.weight.data_ptr()
        self._output_weight: torch.Tensor = self._embedding if tied else head.weight.detach().float()
        maxima = largest_inputs or {}
        self._output, divisors = _smoothed(self._output_weight, maxima.get("output"))
        self._output_factors = np.reciprocal(divisors)
        self._output_bias = _NONE if head.bias is None else _floats(head.bias)
        cos, sin = lean._rotary_tables(decoder.rotary_emb, spec.context_size, torch.float32)
        half = self._head_dim // 2
        tables = _floats(cos[:, :half]), _floats(sin[:, :half])
        still = np.ones_like(tables[0]), np.zeros_like(tables[1])
        no_rope = getattr(config, "no_rope_layers", None)
        self._layers = []
        for i, layer in enumerate(decoder.layers):
            self._layers.append(_layer(layer, i, maxima, tables if not no_rope or no_rope[i] else still))
            lean._release(layer)
        self._attend = attention(self._heads, self._kv_heads, self._head_dim)
        self._width = config.intermediate_size
        self._buffers: dict[int, _Rows] = {}

    @property
    def spec(self) -> BackboneSpec:
        """Sizes and identity."""
        return self._spec

    @property
    def device(self) -> torch.device:
        """Where the pass runs."""
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of hidden states."""
        return torch.float32

    @property
    def output_weight(self) -> torch.Tensor:
        """The output head's weight (V, H), before quantization."""
        return self._output_weight

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H)."""
        return self._embedding

    def new_cache(self) -> BlockCache:
        """An empty cache."""
        return BlockCache(len(self._layers), self._kv_heads, self._head_dim)

    def new_batch_cache(self, places: int, capacity: int) -> BlockBatch:
        """An empty cache for `places` sequences of up to `capacity` rows."""
        return BlockBatch(len(self._layers), self._kv_heads, self._head_dim, places=places, capacity=capacity)

    def batch_cache_bytes(self, places: int, capacity: int) -> int:
        """What `new_batch_cache` takes."""
        return batch_bytes(len(self._layers), places, self._kv_heads, capacity, self._head_dim)

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence -> hidden states (T, H)."""
        if not isinstance(cache, BlockCache):
            raise TypeError(f"the int8 pass writes its own cache, not a {type(cache).__name__}")
        rows = token_ids.shape[0]
        cache.reserve(rows)
        hidden = self._pass(token_ids, positions.numpy(), cache.blocks, _seen(rows, cache.length, mask))
        cache.advance(rows)
        return hidden

    def forward_batch(self, token_ids: torch.Tensor, cache: BlockBatch) -> torch.Tensor:
        """One new row for each of B sequences, `token_ids` (B,), at each sequence's own length. Returns (B, H)."""
        lengths, places = cache.lengths.numpy(), np.arange(token_ids.shape[0])
        seen = _Seen(places, lengths, lengths + 1, np.zeros(len(places) + 1, np.int64), _NO_EXTRAS)
        hidden = self._pass(token_ids, lengths, cache.blocks, seen)
        cache.lengths += 1
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        flat = hidden.reshape(-1, hidden.shape[-1]).float().contiguous()
        rows, scales = torch.empty(flat.shape, dtype=torch.uint8), np.empty(flat.shape[0], np.float32)
        kernels.quantize(flat.numpy(), self._output_factors, rows.numpy(), scales, _few(flat.shape[0]))
        product: torch.Tensor = self._output(rows)
        kernels.scale(product.numpy(), scales, self._output.scales, self._output_bias, torch.get_num_threads())
        return product.view(*hidden.shape[:-1], -1)

    def _pass(self, token_ids: torch.Tensor, positions: Ints, blocks: Blocks, seen: _Seen) -> torch.Tensor:
        count, eps = token_ids.shape[0], self._eps
        b, few, threads = self._rows(count), _few(count), torch.get_num_threads()
        x = F.embedding(token_ids, self._embedding).numpy()
        kernels.norm_quantize(x, self._layers[0].input_norm, eps, b.hidden_view, b.hidden_scales, few)
        for i, layer in enumerate(self._layers):
            qkv = layer.qkv(b.hidden).numpy()
            self._attend(
                qkv, b.hidden_scales, layer.qkv.scales, layer.qkv_bias, layer.q_norm, layer.k_norm,
                eps, layer.cos, layer.sin, positions, blocks.keys[i], blocks.values[i],
                seen.places, seen.slots, seen.prefix, seen.extra_starts, seen.extras, b.attended_values, threads,
            )  # fmt: skip
            kernels.quantize(b.attended_values, layer.out_factors, b.attended_view, b.attended_scales, few)
            out = layer.out(b.attended).numpy()
            kernels.add_norm_quantize(
                x, out, b.attended_scales, layer.out.scales, layer.post_norm, eps, b.hidden_view, b.hidden_scales, few
            )
            gate_up = layer.gate_up(b.hidden).numpy()
            kernels.gate_quantize(
                gate_up, b.hidden_scales, layer.gate_up.scales, layer.down_factors, b.gated_view, b.gated_scales, few
            )
            down, scales = layer.down(b.gated).numpy(), layer.down.scales
            if i + 1 < len(self._layers):
                following = self._layers[i + 1].input_norm
                kernels.add_norm_quantize(
                    x, down, b.gated_scales, scales, following, eps, b.hidden_view, b.hidden_scales, few
                )
        hidden = torch.empty(count, x.shape[1])
        kernels.add_norm(x, down, b.gated_scales, scales, self._norm, eps, hidden.numpy(), few)
        return hidden

    def _rows(self, count: int) -> _Rows:
        if count not in self._buffers:
            hidden = self._embedding.shape[1]
            self._buffers[count] = _Rows(count, hidden, self._heads * self._head_dim, self._width)
        return self._buffers[count]


def _few(rows: int) -> int:
    """Threads for work that is so small a row that starting them takes as long as some rows do."""
    return torch.get_num_threads() if rows >= _ROWS_WORTH_THREADS else 1


def _seen(rows: int, cached: int, mask: torch.Tensor | None) -> _Seen:
    places, slots = np.zeros(rows, np.int64), np.arange(cached, cached + rows)
    if mask is None or rows == 1:
        return _Seen(places, slots, slots + 1, np.zeros(rows + 1, np.int64), _NO_EXTRAS)
    visible = mask.numpy()
    extra_starts = np.zeros(rows + 1, np.int64)
    np.cumsum(visible.sum(1), out=extra_starts[1:])
    return _Seen(places, slots, np.full(rows, cached), extra_starts, cached + visible.nonzero()[1])


def _floats(tensor: torch.Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().float().numpy())


def _smoothed(weight: torch.Tensor, largest_inputs: torch.Tensor | None) -> tuple[Int8Linear, Floats]:
    """The product, and what its inputs (K,) must be divided by."""
    weight = weight.detach().float()
    if largest_inputs is None:
        return Int8Linear(weight), np.ones(weight.shape[1], np.float32)
    divisors = smoothing(largest_inputs, weight)
    return Int8Linear(weight * divisors), divisors.numpy()


def _layer(layer: Any, index: int, maxima: Mapping[str, torch.Tensor], tables: tuple[Floats, Floats]) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    weight = torch.cat([linear.weight.detach() for linear in projections])
    bias = [torch.zeros(p.out_features) if p.bias is None else p.bias.detach().float() for p in projections]
    qkv, qkv_divisors = _smoothed(weight, maxima.get(f"{index}.qkv"))
    out, out_divisors = _smoothed(attention.o_proj.weight, maxima.get(f"{index}.out"))
    weight = torch.cat([mlp.gate_proj.weight.detach(), mlp.up_proj.weight.detach()])
    gate_up, gate_up_divisors = _smoothed(weight, maxima.get(f"{index}.gate_up"))
    down, down_divisors = _smoothed(mlp.down_proj.weight, maxima.get(f"{index}.down"))
    q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    return _Layer(
        input_norm=_floats(layer.input_layernorm.weight) / qkv_divisors,
        qkv=qkv,
        qkv_bias=_floats(torch.cat(bias)),
        q_norm=_NONE if q_norm is None else _floats(q_norm.weight),
        k_norm=_NONE if k_norm is None else _floats(k_norm.weight),
        cos=tables[0],
        sin=tables[1],
        out=out,
        out_factors=np.reciprocal(out_divisors),
        post_norm=_floats(layer.post_attention_layernorm.weight) / gate_up_divisors,
        gate_up=gate_up,
        down=down,
        down_factors=np.reciprocal(down_divisors),
    )
