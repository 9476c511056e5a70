"""The int8 pass between its matrix products, fused for the CPU: norm, quantize, gate, rotary, tree attention.

Every row is computed by the same instructions in the same order whatever other rows there are, so a row of a tree
equals, to the last bit, the row that decoding its path token by token would give.
Shapes: T rows, H hidden, Q query heads, G key/value heads, D head dimension, I width of the MLP, P places of a cache,
C its capacity. Integer products arrive as float32 (T, N) with one scale a row and one a column. uint8 rows have
their zero at 128. Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": True,
}
_F = np.float32
_TINY = _F(1e-8)  # a row of zeros has no scale of its own


@numba.jit(**_OPTIONS)
def _quantize_row(values, factors, largest, row):  # type: ignore[no-untyped-def]
    """row = round(values * factors) with `largest` at 127."""
    factor = _F(127.0) / largest
    for j in range(values.shape[0]):
        row[j] = np.uint8(np.int32(math.floor(values[j] * factors[j] * factor + _F(128.5))))


@numba.jit(**_OPTIONS)
def _norm_quantize_row(x, weight, eps, row):  # type: ignore[no-untyped-def]
    """Quantize the RMS norm of x (H,); returns the row's scale. The norm's own factor only enters the scale."""
    squares, largest = _F(0.0), _TINY
    for j in range(x.shape[0]):
        squares += x[j] * x[j]
        largest = max(largest, abs(x[j] * weight[j]))
    _quantize_row(x, weight, largest, row)
    return largest / math.sqrt(squares / _F(x.shape[0]) + eps) / _F(127.0)


@numba.jit(**_OPTIONS)
def _add_row(x, product, row_scale, scales):  # type: ignore[no-untyped-def]
    """x += product, scaled."""
    for j in range(x.shape[0]):
        x[j] += product[j] * (row_scale * scales[j])


@numba.jit(**_OPTIONS)
def _exp_less(values, count, peak, bits, powers):  # type: ignore[no-untyped-def]
    """values[:count] = exp(values - peak); returns their sum. `bits` (int32) and `powers` share their memory.

    A polynomial of degree 5 for 2 ** fraction, within 3e-6, times a power of two put together from its bits: unlike
    calls of exp, it runs on many values at once.
    """
    for k in range(count):
        t = min(max((values[k] - peak) * _F(1.44269504), _F(-126.0)), _F(126.0))
        whole = np.floor(t)
        f = t - whole
        bits[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
        p = _F(0.00961813) + f * _F(0.00133336)
        p = _F(0.69314718) + f * (_F(0.24022651) + f * (_F(0.05550411) + f * p))
        values[k] = _F(1.0) + f * p
    total = _F(0.0)
    for k in range(count):
        values[k] *= powers[k]
        total += values[k]
    return total


@numba.jit(**_OPTIONS)
def norm_quantize(x, weight, eps, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) -> its RMS norm times `weight`, as uint8 rows (T, H) with scales (T,)."""
    for i in range(worker, x.shape[0], workers):
        scales[i] = _norm_quantize_row(x[i], weight, eps, rows[i])


@numba.jit(**_OPTIONS)
def add_norm_quantize(x, product, row_scales, column_scales, weight, eps, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) += product; then `norm_quantize`."""
    for i in range(worker, x.shape[0], workers):
        _add_row(x[i], product[i], row_scales[i], column_scales)
        scales[i] = _norm_quantize_row(x[i], weight, eps, rows[i])


@numba.jit(**_OPTIONS)
def add_norm(x, product, row_scales, column_scales, weight, eps, out, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) += product; out (T, H) is its RMS norm times `weight`."""
    for i in range(worker, x.shape[0], workers):
        _add_row(x[i], product[i], row_scales[i], column_scales)
        squares = _F(0.0)
        for j in range(x.shape[1]):
            squares += x[i, j] * x[i, j]
        factor = _F(1.0) / math.sqrt(squares / _F(x.shape[1]) + eps)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * factor * weight[j]


@numba.jit(**_OPTIONS)
def quantize(x, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) * factors (H,) -> uint8 rows (T, H) with scales (T,)."""
    for i in range(worker, x.shape[0], workers):
        largest = _TINY
        for j in range(x.shape[1]):
            largest = max(largest, abs(x[i, j] * factors[j]))
        _quantize_row(x[i], factors, largest, rows[i])
        scales[i] = largest / _F(127.0)


@numba.jit(**_OPTIONS)
def gate_quantize(product, row_scales, column_scales, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """SiLU(gate) * up * factors (I,) of a product (T, 2 I), gate first -> uint8 rows (T, I) with scales (T,)."""
    width = product.shape[1] // 2
    bits = np.empty(width, np.int32)
    powers = bits.view(np.float32)
    gated = np.empty(width, np.float32)
    for i in range(worker, product.shape[0], workers):
        scale = row_scales[i]
        for j in range(width):
            gated[j] = -product[i, j] * (scale * column_scales[j])
        _exp_less(gated, width, _F(0.0), bits, powers)
        largest = _TINY
        for j in range(width):
            gate = product[i, j] * (scale * column_scales[j])
            up = product[i, width + j] * (scale * column_scales[width + j])
            gated[j] = gate / (_F(1.0) + gated[j]) * up
            largest = max(largest, abs(gated[j] * factors[j]))
        _quantize_row(gated, factors, largest, rows[i])
        scales[i] = largest / _F(127.0)


@numba.jit(**_OPTIONS)
def scale_product(product, row_scales, column_scales, bias, worker, workers):  # type: ignore[no-untyped-def]
    """product (T, N) in place: times its scales, plus bias (N,) where there is one (else of length 0)."""
    for i in range(product.shape[0]):
        first = product.shape[1] * worker // workers
        last = product.shape[1] * (worker + 1) // workers
        if bias.shape[0]:
            for j in range(first, last):
                product[i, j] = product[i, j] * (row_scales[i] * column_scales[j]) + bias[j]
        else:
            for j in range(first, last):
                product[i, j] *= row_scales[i] * column_scales[j]


def attention(heads: int, kv_heads: int, head_dim: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Attention for one model's sizes, compiled when it is first called.

    Two kernels, the first to be run to its end before the second. They take, for T rows: `product` (T, (Q + 2 G) D)
    with its scales and `bias` ((Q + 2 G) D,); `norm` (D,) of keys or queries, of length 0 where the model has none,
    and its `eps`; `cos` and `sin` (positions, D / 2); `positions` (T,); one layer's `keys` and `values`
    (P, G, C, D); for every row its `places` (T,), the `slots` (T,) where it is written, the first `prefix` (T,) rows
    of its place, all of which it sees, and extras[extra_starts[i]:extra_starts[i + 1]], further rows it sees, in
    order, itself the last of all. `out` is (T, Q D).
    """
    half, group = head_dim // 2, heads // kv_heads
    first_key, first_value = heads * head_dim, (heads + kv_heads) * head_dim
    query_scale = _F(1.0 / math.sqrt(head_dim))

    @numba.jit(**_OPTIONS)
    def rotated(product, start, row_scale, column_scales, bias, norm, eps, cos, sin, factor, target):  # type: ignore[no-untyped-def]
        squares = _F(0.0)
        for j in range(head_dim):
            target[j] = product[start + j] * (row_scale * column_scales[start + j]) + bias[start + j]
            squares += target[j] * target[j]
        if norm.shape[0]:
            scale = _F(1.0) / math.sqrt(squares / _F(head_dim) + eps)
            for j in range(head_dim):
                target[j] = target[j] * scale * norm[j]
        for j in range(half):
            a, b = target[j], target[half + j]
            target[j] = (a * cos[j] - b * sin[j]) * factor
            target[half + j] = (b * cos[j] + a * sin[j]) * factor

    @numba.jit(**_OPTIONS)
    def write(  # type: ignore[no-untyped-def]
        product, row_scales, column_scales, bias, norm, eps, cos, sin, positions,
        keys, values, places, slots, worker, workers,
    ):  # fmt: skip
        for i in range(worker, product.shape[0], workers):
            position, scale = positions[i], row_scales[i]
            for head in range(kv_heads):
                rotated(
                    product[i], first_key + head * head_dim, scale, column_scales, bias, norm, eps,
                    cos[position], sin[position], _F(1.0), keys[places[i], head, slots[i]],
                )  # fmt: skip
                start = first_value + head * head_dim
                for j in range(head_dim):
                    value = product[i, start + j] * (scale * column_scales[start + j]) + bias[start + j]
                    values[places[i], head, slots[i], j] = value

    @numba.jit(**_OPTIONS)
    def read(  # type: ignore[no-untyped-def]
        product, row_scales, column_scales, bias, norm, eps, cos, sin, positions,
        keys, values, places, prefix, extra_starts, extras, out, worker, workers,
    ):  # fmt: skip
        rows = product.shape[0]
        longest = 0
        for i in range(rows):
            longest = max(longest, prefix[i] + extra_starts[i + 1] - extra_starts[i])
        query = np.empty((group, head_dim), np.float32)
        scores = np.empty((group, longest), np.float32)
        total = np.empty((group, head_dim), np.float32)
        bits = np.empty(longest, np.int32)
        powers = bits.view(np.float32)
        for task in range(worker, rows * kv_heads, workers):
            i, head = task // kv_heads, task % kv_heads
            near, shift = prefix[i], extra_starts[i] - prefix[i]
            count = near + extra_starts[i + 1] - extra_starts[i]
            for g in range(group):
                rotated(
                    product[i], (head * group + g) * head_dim, row_scales[i], column_scales, bias, norm, eps,
                    cos[positions[i]], sin[positions[i]], query_scale, query[g],
                )  # fmt: skip
            key_rows, value_rows = keys[places[i], head], values[places[i], head]
            for k in range(count):
                at = k if k < near else extras[k + shift]
                for g in range(group):
                    dot = _F(0.0)
                    for j in range(head_dim):
                        dot += query[g, j] * key_rows[at, j]
                    scores[g, k] = dot
            for g in range(group):
                peak = _F(-1e30)
                for k in range(count):
                    peak = max(peak, scores[g, k])
                inverse = _F(1.0) / _exp_less(scores[g], count, peak, bits, powers)
                for k in range(count):
                    scores[g, k] *= inverse
                for j in range(head_dim):
                    total[g, j] = _F(0.0)
            for k in range(count):
                at = k if k < near else extras[k + shift]
                for g in range(group):
                    weight = scores[g, k]
                    for j in range(head_dim):
                        total[g, j] += weight * value_rows[at, j]
            for g in range(group):
                for j in range(head_dim):
                    out[i, (head * group + g) * head_dim + j] = total[g, j]

    return write, read
