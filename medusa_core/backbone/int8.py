"""The Backbone protocol in int8 on the CPU: a Llama-family model whose products are of integers.

Weights have one scale an output channel, rows one scale each; a pass is one kernel (`int8_pass.py`). Every row equals,
to the last bit, the row of decoding its path token by token.
Shapes: T rows, B sequences, H hidden, V vocabulary. Knows nothing of heads, trees or text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from medusa_core.backbone import lean, products
from medusa_core.backbone.base import BackboneSpec, Cache
from medusa_core.backbone.block_cache import BlockBatch, BlockCache, Blocks, batch_bytes
from medusa_core.backbone.compiling import BUILD
from medusa_core.backbone.int8_pass import Floats, Ints, Product, Rows, Seen, Weights, first_rows, new_rows, run_pass
from medusa_core.backbone.placing import see
from medusa_core.backbone.quantize import Int8Linear, Int8Linears, quantized
from medusa_core.errors import ModelUnsupported

_NO_EXTRAS = np.empty(0, np.int64)
_CAUSAL = np.empty((0, 0), np.bool_)  # a mask that need not be told
_PRODUCTS = ("qkv", "out", "gate_up", "down")
_KEPT_ROWS = 128  # of what passes write to: trees and batches; a chunk of a prompt makes its own


def unsupported_reason(model: Any) -> str:
    """Why this file cannot run the model; "" where it can."""
    if reason := lean.unsupported_reason(model) or config_reason(model.config):
        return reason
    linears = [linear for layer in model.model.layers for linear in _linears(layer)]
    outward = [linear for layer in model.model.layers for linear in _linears(layer)[3:]]
    if any(getattr(linear, "bias", None) is not None for linear in outward):
        return "its output projections have biases"
    if any(type(module) is not nn.Linear for module in (*linears, model.get_output_embeddings())):
        return "its weights are quantized already"
    return ""


def config_reason(config: Any) -> str:
    """What of `unsupported_reason` a configuration tells before the model is loaded."""
    if reason := lean.config_reason(config):
        return reason
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if head_dim % 8:
        return f"its heads have {head_dim} dimensions, not a multiple of 8"
    if odd := [size for size in (config.hidden_size, config.intermediate_size) if size % products.GROUP]:
        return f"a product of it has {odd[0]} inputs, not a multiple of {products.GROUP}"
    return ""


def _linears(layer: Any) -> tuple[nn.Module, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    into = (attention.q_proj, attention.k_proj, attention.v_proj)
    return (*into, attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)


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
        self._spec, self._layers = spec, len(decoder.layers)
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._embedding: torch.Tensor = decoder.embed_tokens.weight.detach()
        of_16_bit = self._embedding.dtype == torch.bfloat16  # which numpy does not know
        self._table: NDArray[Any] = (self._embedding.view(torch.uint16) if of_16_bit else self._embedding).numpy()
        head, maxima = model.get_output_embeddings(), largest_inputs or {}
        self._output_weight: torch.Tensor = head.weight.detach()
        self._output = Int8Linear(head.weight, maxima.get("output"), head.bias)
        cos, sin = lean.rotary_tables(decoder.rotary_emb, spec.context_size, torch.float32)
        self._weights = _weights(model, (self._heads, self._kv_heads, self._head_dim), maxima, (cos, sin))
        self._width = config.intermediate_size
        self._kept: Rows | None = None
        self._first_rows: dict[int, Rows] = {}  # of what is kept, by their number

    @property
    def spec(self) -> BackboneSpec:
        """Sizes and identity."""
        return self._spec

    @property
    def build(self) -> str:
        """Which kernels these are: times that were measured of others do not hold."""
        return BUILD

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
        """The output head's weight (V, H), before quantization, as it was loaded."""
        return self._output_weight

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H), as it was loaded."""
        return self._embedding

    def new_cache(self) -> BlockCache:
        """An empty cache."""
        return BlockCache(self._layers, self._kv_heads, self._head_dim)

    def new_batch_cache(self, places: int, capacity: int) -> BlockBatch:
        """An empty cache for `places` sequences of up to `capacity` rows."""
        return BlockBatch(self._layers, self._kv_heads, self._head_dim, places=places, capacity=capacity)

    def batch_cache_bytes(self, places: int, capacity: int) -> int:
        """What `new_batch_cache` takes."""
        return batch_bytes(self._layers, places, self._kv_heads, capacity, self._head_dim)

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence -> hidden states (T, H)."""
        if not isinstance(cache, BlockCache):
            raise TypeError(f"the int8 pass writes its own cache, not a {type(cache).__name__}")
        rows = token_ids.shape[0]
        at = positions.numpy()
        self._check(at)
        cache.reserve(rows)
        hidden = self._pass(token_ids, cache.blocks, _seen(at, cache.length, mask))
        cache.advance(rows)
        return hidden

    def forward_batch(self, token_ids: torch.Tensor, cache: BlockBatch) -> torch.Tensor:
        """One new row for each of B sequences, `token_ids` (B,), at each sequence's own length. Returns (B, H)."""
        lengths, places = cache.lengths.numpy(), np.arange(token_ids.shape[0])
        self._check(lengths)
        if len(places) != len(lengths) or lengths.max() >= cache.blocks.capacity:
            raise IndexError(f"{len(places)} tokens for {len(lengths)} places of {cache.blocks.capacity} rows each")
        seen = Seen(lengths.copy(), places, lengths, lengths + 1, np.zeros(len(places) + 1, np.int64), _NO_EXTRAS)
        hidden = self._pass(token_ids, cache.blocks, seen)
        cache.lengths += 1
        return hidden

    def _check(self, positions: Ints) -> None:
        """The kernels look at no bounds."""
        # Of a few numbers Python finds the largest sooner than numpy wakes up.
        if (last := max(positions.tolist(), default=0)) >= self._spec.context_size:
            raise IndexError(f"position {last} of a model that holds {self._spec.context_size} tokens")

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        product = self._output(hidden.reshape(-1, hidden.shape[-1]).float())
        return product.view(*hidden.shape[:-1], product.shape[-1])

    def linears(self, weights: torch.Tensor, biases: torch.Tensor | None = None) -> Int8Linears:
        """S more layers in int8, side by side: float32 rows (S, T, K) -> (S, T, N)."""
        return Int8Linears(weights, biases)

    def _pass(self, token_ids: torch.Tensor, blocks: Blocks, seen: Seen) -> torch.Tensor:
        x = self._embedded(token_ids.numpy())
        hidden, workers = np.empty_like(x), torch.get_num_threads()
        run_pass(x, self._weights, self._rows(len(x)), seen, blocks.keys, blocks.values, hidden, workers)
        return torch.from_numpy(hidden)

    def _embedded(self, token_ids: Ints) -> Floats:
        found = self._table[token_ids]
        if found.dtype == np.uint16:  # bfloat16, the first half of 32 bit
            found = np.left_shift(found, 16, dtype=np.uint32).view(np.float32)
        return found.astype(np.float32, copy=False)

    def _rows(self, count: int) -> Rows:
        if count > _KEPT_ROWS:
            return self._new_rows(count)
        if self._kept is None or len(self._kept.sizes) < torch.get_num_threads():
            self._kept, self._first_rows = self._new_rows(_KEPT_ROWS), {}
        if count not in self._first_rows:
            self._first_rows[count] = first_rows(self._kept, count)
        return self._first_rows[count]

    def _new_rows(self, count: int) -> Rows:
        attended = self._heads * self._head_dim
        qkv = attended + 2 * self._kv_heads * self._head_dim
        return new_rows(
            count, self._embedding.shape[1], attended, self._width, max(qkv, 2 * self._width),
            kv_heads=self._kv_heads, workers=torch.get_num_threads(),
        )  # fmt: skip


def _seen(positions: Ints, cached: int, mask: torch.Tensor | None) -> Seen:
    rows = len(positions)
    visible = _CAUSAL if mask is None or rows == 1 else mask.numpy()
    places, slots, prefix = np.empty((3, rows), np.int64)
    starts, extras = np.empty(rows + 1, np.int64), np.empty(visible.size, np.int64)
    see(visible, cached, places, slots, prefix, starts, extras)
    return Seen(positions, places, slots, prefix, starts, extras)


def _floats(tensor: torch.Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().float().numpy())


def _joined(layer: Any) -> Iterator[tuple[str, torch.Tensor, torch.Tensor | None]]:
    """Of each product of a layer: its name, its weight (N, K), and the weight (K,) of the norm before it."""
    attention, mlp = layer.self_attn, layer.mlp
    qkv = [linear.weight.detach() for linear in (attention.q_proj, attention.k_proj, attention.v_proj)]
    yield "qkv", torch.cat(qkv), layer.input_layernorm.weight
    yield "out", attention.o_proj.weight.detach(), None
    gate_up = [linear.weight.detach() for linear in (mlp.gate_proj, mlp.up_proj)]
    yield "gate_up", torch.cat(gate_up), layer.post_attention_layernorm.weight
    yield "down", mlp.down_proj.weight.detach(), None


def _room(layers: int, outputs: int, inputs: int) -> Product:
    width = products.padded(outputs)
    blocks, block = width // products.HERE.block, products.HERE.block
    return Product(
        products.aligned((layers, blocks, inputs // products.GROUP, block, products.GROUP), np.int8),
        products.aligned((layers, width), np.int32),
        products.aligned((layers, outputs), np.float32),
        products.aligned((layers, inputs), np.float32),
    )


def _weights(
    model: Any,
    sizes: tuple[int, int, int],
    maxima: Mapping[str, torch.Tensor],
    tables: tuple[torch.Tensor, torch.Tensor],
) -> Weights:
    """Quantize layer by layer, letting go of the model's own weights on the way."""
    config, layers = model.config, model.model.layers
    made: dict[str, Product] = {}
    biases, q_norms, k_norms = [], [], []
    for i, layer in enumerate(layers):
        for name, weight, norm in _joined(layer):
            rounded = quantized(weight, maxima.get(f"{i}.{name}"))
            into = made.setdefault(name, _room(len(layers), *weight.shape))
            into.corrections[i] = products.pack(rounded.values, into.weights[i])
            into.scales[i], into.factors[i] = rounded.scales, rounded.factors
            if norm is not None:
                into.factors[i] *= _floats(norm)
        attention = layer.self_attn
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        bias = [torch.zeros(p.out_features) if p.bias is None else p.bias.detach().float() for p in projections]
        biases.append(torch.cat(bias).numpy())
        q_norms.append(_norm_weight(attention, "q_norm"))
        k_norms.append(_norm_weight(attention, "k_norm"))
        lean.release(layer)
    length, half = tables[0].shape[0], tables[0].shape[1] // 2
    turning = [int(not turns) for turns in getattr(config, "no_rope_layers", None) or [1] * len(layers)]
    turned, still = [_floats(table[:, :half]) for table in tables], [np.ones((length, half)), np.zeros((length, half))]
    kinds = (turned, still) if any(turning) else (turned,)
    return Weights(
        sizes=sizes,
        **{name: made[name] for name in _PRODUCTS},
        qkv_bias=np.stack(biases),
        q_norm=np.stack(q_norms),
        k_norm=np.stack(k_norms),
        norm=_floats(model.model.norm.weight),
        cos=np.stack([kind[0] for kind in kinds]).astype(np.float32),
        sin=np.stack([kind[1] for kind in kinds]).astype(np.float32),
        turns=np.array(turning),
        eps=np.float32(config.rms_norm_eps),
    )


def _norm_weight(attention: Any, name: str) -> Floats:
    norm = getattr(attention, name, None)
    return np.empty(0, np.float32) if norm is None else _floats(norm.weight)
