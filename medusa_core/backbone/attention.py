"""Tree attention of the int8 pass, for many rows of one sequence or of many sequences at their own lengths.

A row sees the first rows of its place in the cache and then single ones, its ancestors in a tree, in order; nothing is
masked or padded. All sums run in one fixed order, so a row's result depends on what it sees and on nothing else.
Keys stand in blocks of 64, dimension by dimension, so that 64 scores are summed at once; keys and values are bfloat16.
Shapes: T rows, Q query heads, G key/value heads, D head dimension, P places, C capacity of a place, in whole blocks.
Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from medusa_core.backbone.kernels import OPTIONS, exp_row
from medusa_core.backbone.threads import in_parallel

BLOCK = 64  # keys: four of the widest registers, so that four sums can run side by side
_F = np.float32
_LOWEST = _F(-1e30)
# Exactly in the order written: were sums regrouped, or products fused into them as the compiler likes, then how
# would depend on where in a loop a row stands. Fusing is therefore written out, as _fma.
_STRICT: dict[str, Any] = {**OPTIONS, "fastmath": {"nnan", "nsz"}}


def _widen(_context: Any, value: Any) -> Any:
    """bfloat16 in the bits of a uint16 -> float32."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        word = ir.IntType(32)
        return builder.bitcast(builder.shl(builder.zext(values[0], word), ir.Constant(word, 16)), ir.FloatType())

    return types.float32(types.uint16), generate


def _fused(_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.fma(*values)

    return types.float32(types.float32, types.float32, types.float32), generate


def _as_bits(_context: Any, value: Any) -> Any:
    """The bits of a float32."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), generate


_widened: Any = intrinsic(_widen)
_fma: Any = intrinsic(_fused)
_bits: Any = intrinsic(_as_bits)


@numba.jit(**_STRICT)
def _narrowed(value):  # type: ignore[no-untyped-def]
    """float32 -> the nearest bfloat16, ties to even, in the bits of a uint16."""
    bits = np.uint32(_bits(value))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@numba.jit(**_STRICT)
def _softmax(scores):  # type: ignore[no-untyped-def]
    """exp(scores - their maximum) / their sum, in place; a whole number of blocks."""
    peak = _LOWEST
    for k in range(scores.shape[0]):
        peak = max(peak, scores[k])
    for k in range(scores.shape[0]):
        scores[k] -= peak
    bits = np.empty(scores.shape[0], np.int32)
    exp_row(scores, bits, bits.view(np.float32))
    sums = np.zeros(BLOCK, np.float32)
    for start in range(0, scores.shape[0], BLOCK):
        for lane in range(BLOCK):
            sums[lane] += scores[start + lane]
    total = _F(0.0)
    for lane in range(BLOCK):
        total += sums[lane]
    inverse = _F(1.0) / total
    for k in range(scores.shape[0]):
        scores[k] *= inverse


def attention(heads: int, kv_heads: int, head_dim: int) -> Callable[..., None]:
    """Attention for one model's sizes; compiled when it is first called.

    The kernel writes T rows' keys and values into the cache, then lets each row read. It takes `product`
    (T, (Q + 2 G) D), its scales and `bias` ((Q + 2 G) D,); `q_norm` and `k_norm` (D,), of length 0 where the model has
    none, and their `eps`; `cos` and `sin` (positions, D / 2); `positions` (T,); one layer's `keys`
    (P, G, C / 64, D, 64) and `values` (P, G, C, D); for every row its `places` (T,), the `slots` (T,) where it is
    written, the first `prefix` (T,) rows of its place, all of which it sees, and
    extras[extra_starts[i]:extra_starts[i + 1]], the slots of further rows it sees, itself the last. `out` is (T, Q D).
    """
    write, read = _writing(heads, kv_heads, head_dim), _reading(heads, kv_heads, head_dim)

    @numba.jit(**_STRICT)
    def attend(  # type: ignore[no-untyped-def]
        product, row_scales, column_scales, bias, q_norm, k_norm, eps, cos, sin, positions,
        keys, values, places, slots, prefix, extra_starts, extras, out, workers,
    ):  # fmt: skip
        scaled = (product, row_scales, column_scales, bias)
        turned = (eps, cos, sin, positions)
        in_parallel(write, (scaled, k_norm, turned, keys, values, places, slots), workers)
        in_parallel(
            read, (scaled, q_norm, turned, keys, values, places, prefix, extra_starts, extras, out), workers
        )  # fmt: skip

    return attend  # type: ignore[no-any-return]


def _rotating(head_dim: int) -> Callable[..., None]:
    half = head_dim // 2

    @numba.jit(**OPTIONS)
    def rotate(scaled, row, start, norm, turned, target):  # type: ignore[no-untyped-def]
        """One head of one row: scaled, normed where the model does so, turned to its position."""
        product, row_scales, column_scales, bias = scaled
        eps, cos, sin, positions = turned
        squares, scale, position = _F(0.0), row_scales[row], positions[row]
        for j in range(head_dim):
            target[j] = product[row, start + j] * (scale * column_scales[start + j]) + bias[start + j]
            squares += target[j] * target[j]
        if norm.shape[0]:
            factor = _F(1.0) / math.sqrt(squares / _F(head_dim) + eps)
            for j in range(head_dim):
                target[j] = target[j] * factor * norm[j]
        for j in range(half):
            a, b = target[j], target[half + j]
            target[j] = a * cos[position, j] - b * sin[position, j]
            target[half + j] = b * cos[position, j] + a * sin[position, j]

    return rotate  # type: ignore[no-any-return]


def _writing(heads: int, kv_heads: int, head_dim: int) -> Callable[..., None]:
    rotate = _rotating(head_dim)
    first_key, first_value = heads * head_dim, (heads + kv_heads) * head_dim

    @numba.jit(**_STRICT)
    def write(scaled, norm, turned, keys, values, places, slots, worker, workers):  # type: ignore[no-untyped-def]
        product, row_scales, column_scales, bias = scaled
        key = np.empty(head_dim, np.float32)
        for i in range(worker, product.shape[0], workers):
            place, block, lane = places[i], slots[i] // BLOCK, slots[i] % BLOCK
            for head in range(kv_heads):
                rotate(scaled, i, first_key + head * head_dim, norm, turned, key)
                start = first_value + head * head_dim
                for j in range(head_dim):
                    keys[place, head, block, j, lane] = _narrowed(key[j])
                    value = product[i, start + j] * (row_scales[i] * column_scales[start + j]) + bias[start + j]
                    values[place, head, slots[i], j] = _narrowed(value)

    return write  # type: ignore[no-any-return]


def _scoring(group: int, head_dim: int) -> Callable[..., None]:
    @numba.jit(**_STRICT)
    def score(query, blocks, count, scores):  # type: ignore[no-untyped-def]
        """scores (group, >= 64 count) of `count` blocks of keys (blocks, D, 64): sums over D from first to last."""
        for block in range(count):
            start = block * BLOCK
            for g in range(group):
                for lane in range(BLOCK):
                    scores[g, start + lane] = _F(0.0)
            for j in range(0, head_dim, 8):
                for lane in range(BLOCK):
                    k0 = _widened(blocks[block, j, lane])
                    k1 = _widened(blocks[block, j + 1, lane])
                    k2 = _widened(blocks[block, j + 2, lane])
                    k3 = _widened(blocks[block, j + 3, lane])
                    k4 = _widened(blocks[block, j + 4, lane])
                    k5 = _widened(blocks[block, j + 5, lane])
                    k6 = _widened(blocks[block, j + 6, lane])
                    k7 = _widened(blocks[block, j + 7, lane])
                    for g in range(group):
                        s = scores[g, start + lane]
                        s = _fma(query[g, j], k0, s)
                        s = _fma(query[g, j + 1], k1, s)
                        s = _fma(query[g, j + 2], k2, s)
                        s = _fma(query[g, j + 3], k3, s)
                        s = _fma(query[g, j + 4], k4, s)
                        s = _fma(query[g, j + 5], k5, s)
                        s = _fma(query[g, j + 6], k6, s)
                        s = _fma(query[g, j + 7], k7, s)
                        scores[g, start + lane] = s

    return score  # type: ignore[no-any-return]


def _gathering(group: int, head_dim: int) -> Callable[..., None]:
    @numba.jit(**_STRICT)
    def gather(weights, first, rows, count, total):  # type: ignore[no-untyped-def]
        """total (group, D) += weights (group, first ...) of `count` rows (rows, D), from first to last."""
        whole = count - count % 4
        for k in range(0, whole, 4):
            for j in range(head_dim):
                v0, v1 = _widened(rows[k, j]), _widened(rows[k + 1, j])
                v2, v3 = _widened(rows[k + 2, j]), _widened(rows[k + 3, j])
                for g in range(group):
                    t = total[g, j]
                    t = _fma(weights[g, first + k], v0, t)
                    t = _fma(weights[g, first + k + 1], v1, t)
                    t = _fma(weights[g, first + k + 2], v2, t)
                    t = _fma(weights[g, first + k + 3], v3, t)
                    total[g, j] = t
        for k in range(whole, count):
            for j in range(head_dim):
                v = _widened(rows[k, j])
                for g in range(group):
                    total[g, j] = _fma(weights[g, first + k], v, total[g, j])

    return gather  # type: ignore[no-any-return]


def _looking(group: int, head_dim: int) -> Callable[..., None]:
    @numba.jit(**_STRICT)
    def look(query, blocks, rows, slots, scores, found):  # type: ignore[no-untyped-def]
        """Scores (group, >= n) of the n single `slots`, and their values `found` (n, D), side by side."""
        for k in range(slots.shape[0]):
            slot = slots[k]
            for g in range(group):
                s = _F(0.0)
                for j in range(head_dim):
                    s = _fma(query[g, j], _widened(blocks[slot // BLOCK, j, slot % BLOCK]), s)
                scores[g, k] = s
            for j in range(head_dim):
                found[k, j] = rows[slot, j]

    return look  # type: ignore[no-any-return]


def _reading(heads: int, kv_heads: int, head_dim: int) -> Callable[..., None]:
    group = heads // kv_heads
    query_scale = _F(1.0 / math.sqrt(head_dim))
    rotate, score, gather = _rotating(head_dim), _scoring(group, head_dim), _gathering(group, head_dim)
    look = _looking(group, head_dim)

    @numba.jit(**_STRICT)
    def read(scaled, norm, turned, keys, values, places, prefix, starts, extras, out, worker, workers):  # type: ignore[no-untyped-def]
        longest, most = 0, 0
        for i in range(out.shape[0]):
            most = max(most, starts[i + 1] - starts[i])
            longest = max(longest, prefix[i])
        query, total = np.empty((group, head_dim), np.float32), np.empty((group, head_dim), np.float32)
        scores = np.empty((group, longest + most + 2 * BLOCK), np.float32)
        own_values = np.empty((most, head_dim), np.uint16)
        for task in range(worker, out.shape[0] * kv_heads, workers):
            i, head = task // kv_heads, task % kv_heads
            near, own = prefix[i], starts[i + 1] - starts[i]
            key_blocks, value_rows = keys[places[i], head], values[places[i], head]
            for g in range(group):
                rotate(scaled, i, (head * group + g) * head_dim, norm, turned, query[g])
                for j in range(head_dim):
                    query[g, j] *= query_scale
                    total[g, j] = _F(0.0)
            score(query, key_blocks, (near + BLOCK - 1) // BLOCK, scores)
            # Over the last block's scores of rows that are not seen.
            look(query, key_blocks, value_rows, extras[starts[i] : starts[i + 1]], scores[:, near:], own_values)
            count = near + own
            padded = (count + BLOCK - 1) // BLOCK * BLOCK
            for g in range(group):
                for k in range(count, padded):
                    scores[g, k] = _LOWEST
                _softmax(scores[g, :padded])
            gather(scores, 0, value_rows, near, total)
            gather(scores, near, own_values, own, total)
            for g in range(group):
                for j in range(head_dim):
                    out[i, (head * group + g) * head_dim + j] = total[g, j]

    return read  # type: ignore[no-any-return]
