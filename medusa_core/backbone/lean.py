"""A straight-line forward pass for the Llama family, over the loaded model's own weights.

Llama, Mistral, Qwen2, Qwen3 and SmolLM3 share one layer: norm, attention with rotary positions and grouped
key/value heads, norm, gated MLP. What differs (biases, norms on q and k, layers without rotary positions) is data of
the layer. `stock.py` runs the same models through transformers and is the reference this file is tested against.
Shapes: B sequences, T new rows, S rows seen, Q query heads, G key/value heads, D head dimension, H hidden.
Knows nothing of heads, trees or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional as F

from medusa_core.backbone.base import BackboneSpec, Cache
from medusa_core.backbone.cache import BatchCache, KVCache, Storages
from medusa_core.backbone.linear import Product, fastest, fuse, plain
from medusa_core.errors import ModelUnsupported

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")


class Slots(Protocol):
    """Where a pass writes its keys and values."""

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one layer's new rows (B, G, T, D); returns all rows that are seen, (B, G, S, D) each."""
        ...


# Queries (B, G, group * T, D), keys and values (B, G, S, D), additive mask (B or 1, 1, group * T, S) -> as the queries.
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


def fused_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """PyTorch's own kernel."""
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=bias)


def attention_by_products(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Two matrix products with a softmax between, which few rows over many keys spread wider over a GPU.

    Scores are 32-bit: rounded to 16, large ones would shift the probabilities.
    """
    batch, groups, rows, dim = q.shape
    flat = (q * dim**-0.5).flatten(0, 1), keys.flatten(0, 1).transpose(1, 2)
    if q.dtype == torch.float32:
        scores = torch.bmm(*flat)
    elif q.device.type == "cuda":
        scores = torch.bmm(*flat, out_dtype=torch.float32)
    else:
        scores = torch.bmm(flat[0].float(), flat[1].float())
    scores = scores.view(batch, groups, rows, -1)
    weights = (scores if bias is None else scores + bias).softmax(-1).to(q.dtype)
    return torch.matmul(weights, values)


@dataclass(slots=True)
class _Layer:
    input_norm: torch.Tensor
    qkv: Product
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    rotary: bool
    out: Product
    post_norm: torch.Tensor
    gate_up: Product
    down: Product


def devices(model: Any) -> int:
    """On how many devices a model's layers lie."""
    placed = getattr(model, "hf_device_map", None) or {}
    return max(1, len(set(placed.values())))


def unsupported_reason(model: Any) -> str:
    """Why this file cannot run the model; "" where it can."""
    if devices(model) > 1:
        return "its layers lie on several devices"
    return config_reason(model.config)


def config_reason(config: Any) -> str:
    """The same as far as a configuration tells."""
    if config.model_type not in FAMILIES:
        return f"its architecture is {config.model_type}"
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope not in ("default", "linear", "llama3", "yarn"):
        return f"its rotary positions of type {rope} change with length"
    if config.hidden_act not in ("silu", "swish"):
        return f"its MLP uses {config.hidden_act}"
    return ""


class LeanBackbone:
    """The Backbone protocol over a Llama-family model. The model's weights are taken over unless `keep_model`."""

    def __init__(
        self, model: Any, spec: BackboneSpec, *, keep_model: bool = False, attend: Attend = fused_attention
    ) -> None:
        """`attend`: how attention is computed."""
        self._attend = attend
        if reason := unsupported_reason(model):
            raise ModelUnsupported(f"{spec.name} cannot run through the lean pass: {reason}.")
        config, decoder = model.config, model.model
        self._spec = spec
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._eps = config.rms_norm_eps
        self._embedding: torch.Tensor = decoder.embed_tokens.weight.detach()
        self._norm = decoder.norm.weight.detach()
        self._cos, self._sin = rotary_tables(decoder.rotary_emb, spec.context_size, self._embedding.dtype)
        self._output_weight: torch.Tensor
        self._output_weight, self._output = _output_head(model, self._embedding)
        no_rope = getattr(config, "no_rope_layers", None)
        self._layers = []
        for i, layer in enumerate(decoder.layers):
            self._layers.append(_layer(layer, rotary=bool(no_rope[i]) if no_rope else True))
            if not keep_model:
                release(layer)

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
        return self._embedding.dtype

    @property
    def output_weight(self) -> torch.Tensor:
        """The output head's weight (V, H)."""
        return self._output_weight

    @property
    def embedding_weight(self) -> torch.Tensor:
        """The input embedding (V, H)."""
        return self._embedding

    def new_cache(self) -> KVCache:
        """An empty cache."""
        return KVCache(
            len(self._layers), self._kv_heads, self._head_dim, dtype=self._embedding.dtype, device=self.device
        )

    def storages(self, buckets: Sequence[int]) -> Storages:
        """Memory for caches whose capacity is one of `buckets`."""
        return Storages(
            len(self._layers),
            self._kv_heads,
            self._head_dim,
            buckets=buckets,
            dtype=self._embedding.dtype,
            device=self.device,
        )

    def new_batch_cache(self, places: int, capacity: int) -> BatchCache:
        """An empty cache for `places` sequences of up to `capacity` rows."""
        return BatchCache(
            len(self._layers),
            self._kv_heads,
            self._head_dim,
            places=places,
            capacity=capacity,
            dtype=self._embedding.dtype,
            device=self.device,
        )

    def batch_cache_bytes(self, places: int, capacity: int) -> int:
        """What `new_batch_cache` takes."""
        row: int = self._kv_heads * self._head_dim * self._embedding.element_size()
        return len(self._layers) * 2 * places * capacity * row

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache
    ) -> torch.Tensor:
        """See the protocol: T rows of one sequence -> hidden states (T, H)."""
        if not isinstance(cache, KVCache):
            raise TypeError(f"the lean pass writes its own cache, not a {type(cache).__name__}")
        rows = token_ids.shape[0]
        cache.reserve(rows)
        bias = self._bias(rows, cache.length, mask)
        hidden = self._pass(token_ids[None], positions[None], bias, cache)[0]
        cache.advance(rows)
        return hidden

    def forward_at(
        self, token_ids: torch.Tensor, positions: torch.Tensor, visible: torch.Tensor, slots: Slots
    ) -> torch.Tensor:
        """As `forward`, for T rows that `slots` writes anywhere among the S rows seen; `visible` (T, S) bool.

        No shape depends on how much is cached. Returns (T, H).
        """
        bias = torch.zeros_like(visible, dtype=self.dtype).masked_fill_(~visible, float("-inf"))
        bias = bias.repeat(self._heads // self._kv_heads, 1)[None, None]
        return self._pass(token_ids[None], positions[None], bias, slots)[0]

    def forward_batch(self, token_ids: torch.Tensor, cache: BatchCache) -> torch.Tensor:
        """One new row for each of B sequences, `token_ids` (B,), at each sequence's own length. Returns (B, H)."""
        seen = torch.arange(int(cache.lengths.max()) + 1, device=self.device)
        visible = seen[None] <= cache.lengths[:, None]
        bias = torch.zeros_like(visible, dtype=self.dtype).masked_fill_(~visible, float("-inf"))[:, None, None]
        hidden = self._pass(token_ids[:, None], cache.lengths[:, None], bias, cache)[:, 0]
        cache.lengths += 1
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head: (..., H) -> (..., V)."""
        return self._output(hidden)

    def _bias(self, rows: int, cached: int, mask: torch.Tensor | None) -> torch.Tensor | None:
        """The additive mask (1, 1, group * T, S): zeros over the cached rows, the tree over the new ones."""
        if rows == 1:
            return None
        if mask is None:
            mask = torch.ones(rows, rows, dtype=torch.bool, device=self.device).tril_()
        bias = torch.zeros(rows, cached + rows, dtype=self.dtype, device=self.device)
        bias[:, cached:].masked_fill_(~mask, float("-inf"))
        return bias.repeat(self._heads // self._kv_heads, 1)[None, None]

    def _pass(
        self, token_ids: torch.Tensor, positions: torch.Tensor, bias: torch.Tensor | None, rows: Slots
    ) -> torch.Tensor:
        x = F.embedding(token_ids, self._embedding)
        cos, sin = self._cos[positions].unsqueeze(2), self._sin[positions].unsqueeze(2)
        for i, layer in enumerate(self._layers):
            h = self._rms_norm(x, layer.input_norm)
            x = x + layer.out(self._attention(i, layer, h, cos, sin, bias, rows))
            h = self._rms_norm(x, layer.post_norm)
            gate, up = layer.gate_up(h).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        return self._rms_norm(x, self._norm)

    def _attention(
        self,
        index: int,
        layer: _Layer,
        h: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        bias: torch.Tensor | None,
        rows: Slots,
    ) -> torch.Tensor:
        """Grouped-query attention: the queries that share a key head become rows of one product."""
        b, t, _ = h.shape
        group = self._heads // self._kv_heads
        qkv = layer.qkv(h).view(b, t, self._heads + 2 * self._kv_heads, self._head_dim)
        q, k, v = qkv.split((self._heads, self._kv_heads, self._kv_heads), dim=2)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = self._rms_norm(q, layer.q_norm), self._rms_norm(k, layer.k_norm)
            if layer.rotary:
                q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        elif layer.rotary:
            turned = _rotate(qkv[:, :, : self._heads + self._kv_heads], cos, sin)
            q, k = turned.split((self._heads, self._kv_heads), dim=2)
        keys, values = rows.append(index, k.transpose(1, 2), v.transpose(1, 2))
        # (B, T, Q, D) -> (B, G, group * T, D): head g * group + j becomes rows j * T ... of key head g.
        q = q.view(b, t, self._kv_heads, group, self._head_dim).permute(0, 2, 3, 1, 4)
        q = q.reshape(b, self._kv_heads, group * t, self._head_dim)
        out = self._attend(q, keys, values, bias)
        out = out.view(b, self._kv_heads, group, t, self._head_dim).permute(0, 3, 1, 2, 4)
        return out.reshape(b, t, self._heads * self._head_dim)

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self._eps)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions: x (B, T, heads, D), cos and sin (B, T, 1, D)."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def rotary_tables(rotary: Any, length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin (length, D) as the model's own module computes them."""
    inv_freq = rotary.inv_freq.float()
    angles = torch.outer(torch.arange(length, device=inv_freq.device).float(), inv_freq)
    angles = torch.cat((angles, angles), dim=-1)
    return (angles.cos() * rotary.attention_scaling).to(dtype), (angles.sin() * rotary.attention_scaling).to(dtype)


def _output_head(model: Any, embedding: torch.Tensor) -> tuple[torch.Tensor, Product]:
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        raise ModelUnsupported(
            f"the output head is a {type(head).__name__}; it must stay in 16 or 32 bit, "
            "so load the model with the output head excluded from quantization."
        )
    weight = head.weight.detach()
    if weight.data_ptr() == embedding.data_ptr():
        weight = embedding
    return weight, fastest(weight, None if head.bias is None else head.bias.detach())


def _layer(layer: Any, *, rotary: bool) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    # oneDNN's order of summing costs a digit where inputs are large, as before `down`; with `gate_up` and the output
    # head alone in its form, fp32 logits stay within 1e-4 of transformers' own.
    return _Layer(
        input_norm=layer.input_layernorm.weight.detach(),
        qkv=fuse([attention.q_proj, attention.k_proj, attention.v_proj], plain),
        q_norm=None if q_norm is None else q_norm.weight.detach(),
        k_norm=None if k_norm is None else k_norm.weight.detach(),
        rotary=rotary,
        out=fuse([attention.o_proj], plain),
        post_norm=layer.post_attention_layernorm.weight.detach(),
        gate_up=fuse([mlp.gate_proj, mlp.up_proj], fastest),
        down=fuse([mlp.down_proj], plain),
    )


def release(layer: nn.Module) -> None:
    """Let go of the plain weights that were fused or packed: what is still used is held by the products."""
    for module in layer.modules():
        if type(module) is nn.Linear:
            module.weight = nn.Parameter(torch.empty(0), requires_grad=False)
