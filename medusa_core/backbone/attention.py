"""Tree attention of the int8 pass, for many rows of one sequence or of many sequences at their own lengths.

A row sees the first rows of its place in the cache and then single ones, its ancestors in a tree, in order; nothing is
masked or padded. All sums run in one fixed order, so a row's result depends on what it sees and on nothing else.
Keys stand in blocks of 64, two dimensions by two, so that scores of neighbours are summed at once; values stand two by
two. Both are bfloat16, and so are queries and weights where they meet them (`weighted.py`).
Shapes: T rows, Q query heads, G key/value heads, D head dimension, P places, C capacity of a place, in whole blocks.
Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fused import exp_narrow
from medusa_core.backbone.kernels import mean_square, quantize_columns, turn
from medusa_core.backbone.kernels import quantize as quantize_rows
from medusa_core.backbone.rotation import block_size
from medusa_core.backbone.weighted import FOLDED, LOWEST, MOST, TILE, add_weighted, largest

BLOCK = 64  # keys: whole tiles of sums, whatever the processor's registers are
_F = np.float32
_LOWEST = _F(LOWEST)


def _as_bits(_context: Any, value: Any) -> Any:
    """The bits of a float32."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), generate


_bits: Any = intrinsic(_as_bits)


@compiled
def _narrowed(value):  # type: ignore[no-untyped-def]
    """float32 -> the nearest bfloat16, ties to even, in the bits of a uint16."""
    bits = np.uint32(_bits(value))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@compiled
def _rotate(scaled, row, start, norm, turned, target):  # type: ignore[no-untyped-def]
    """One head of one row: scaled, normed where the model does so, turned to its position."""
    product, row_scales, column_scales, bias = scaled
    head_dim = target.shape[0]
    half = head_dim // 2
    eps, cos, sin, positions = turned
    scale, position = row_scales[row], positions[row]
    numbers, scales, biases = product[row, start : start + head_dim], column_scales[start:], bias[start:]
    for j in range(head_dim):
        target[j] = numbers[j] * (scale * scales[j]) + biases[j]
    if norm.shape[0]:
        factor = _F(1.0) / math.sqrt(mean_square(target) + eps)
        for j in range(head_dim):
            target[j] = target[j] * factor * norm[j]
    near, far, cosines, sines = target[:half], target[half:], cos[position], sin[position]
    for j in range(half):
        a, b = near[j], far[j]
        near[j] = a * cosines[j] - b * sines[j]
        far[j] = b * cosines[j] + a * sines[j]


def value_width(head_dim: int) -> int:
    """W: the numbers of a value as it is stored, whole tiles."""
    return -(-head_dim // TILE) * TILE


@compiled
def own_tasks(rows, kv_heads, worker, workers):  # type: ignore[no-untyped-def]
    """One worker's pairs of a head and a row, head by head: what it writes it reads, but for heads that two share."""
    tasks = rows * kv_heads
    return range(tasks * worker // workers, tasks * (worker + 1) // workers)


@compiled
def write(sizes, scaled, norm, turned, keys, values, places, slots, worker, workers):  # type: ignore[no-untyped-def]
    """Write T rows' keys and values into the cache: one worker's share. `sizes`: Q, G, D.

    `scaled`: a product (T, >= (Q + 2 G) D), its scales (T,) and ((Q + 2 G) D,) and a bias ((Q + 2 G) D,);
    the keys' `norm` (D,), of length 0 where the model has none; `turned`: eps, the rotary cos and sin
    (positions, D / 2), and positions (T,); one layer's `keys` (P, G, C / 64, D / 2, 64, 2) and `values`
    (P, G, C / 2, W, 2); and for every row the place and the slot (T,) where it is written.
    """
    heads, kv_heads, head_dim = sizes
    first_key, first_value = heads * head_dim, (heads + kv_heads) * head_dim
    product, row_scales, column_scales, bias = scaled
    key = np.empty(head_dim, np.float32)
    rows = product.shape[0]
    for task in own_tasks(rows, kv_heads, worker, workers):
        head, i = task // rows, task % rows
        place, block, lane = places[i], slots[i] // BLOCK, slots[i] % BLOCK
        _rotate(scaled, i, first_key + head * head_dim, norm, turned, key)
        start = first_value + head * head_dim
        numbers, scales, biases = product[i, start : start + head_dim], column_scales[start:], bias[start:]
        lanes, row, row_scale = keys[place, head, block], values[place, head, slots[i] // 2], row_scales[i]
        for j in range(head_dim // 2):
            lanes[j, lane, 0] = _narrowed(key[2 * j])
            lanes[j, lane, 1] = _narrowed(key[2 * j + 1])
        half = slots[i] % 2
        for j in range(head_dim):
            row[j, half] = _narrowed(numbers[j] * (row_scale * scales[j]) + biases[j])


@compiled
def _add_all(count, weights, to_weights, rows, to_row, steps, out, to_out):  # type: ignore[no-untyped-def]
    """`add_weighted` for any number of sets of weights."""
    for first in range(0, count, MOST):
        add_weighted(
            min(MOST, count - first), weights + first * to_weights, to_weights, rows, to_row, steps,
            out + first * to_out, to_out,
        )  # fmt: skip


@compiled
def _score(queries, count, blocks, reach, scores):  # type: ignore[no-untyped-def]
    """scores (count, >= reach) = queries (count, D) . the first `reach` keys of blocks (C / 64, D / 2, 64, 2)."""
    for c in range(count):
        for k in range((reach + TILE - 1) // TILE * TILE):
            scores[c, k] = _F(0.0)
    for first in range(0, reach, TILE):
        keys = blocks.ctypes.data + first // BLOCK * blocks.strides[0] + first % BLOCK * 4
        _add_all(
            count, queries.ctypes.data, queries.strides[0], keys, blocks.strides[1], blocks.shape[1],
            scores.ctypes.data + 4 * first, scores.strides[0],
        )  # fmt: skip


@compiled
def _gather(weights, count, first, pairs, steps, sums):  # type: ignore[no-untyped-def]
    """sums (count, W) += weights (count, ...) from the even number `first` on, . `steps` pairs of values (..., W)."""
    for start in range(0, sums.shape[1], TILE):
        _add_all(
            count, weights.ctypes.data + 2 * first, weights.strides[0],
            pairs.ctypes.data + 4 * start, pairs.strides[0], steps,
            sums.ctypes.data + 4 * start, sums.strides[0],
        )  # fmt: skip


@compiled
def _weigh(scores, near, slots, weights):  # type: ignore[no-untyped-def]
    """`weights`: exp of the scores of the first `near` rows and of further `slots`, side by side; 1 / their sum."""
    count = near + slots.shape[0]
    for k in range(slots.shape[0]):
        scores[near + k] = scores[slots[k]]  # ascending, so none is overwritten before it is moved
    whole = (count + FOLDED - 1) // FOLDED * FOLDED
    for k in range(count, whole):
        scores[k] = _LOWEST
    summed = exp_narrow(scores.ctypes.data, whole, largest(scores.ctypes.data, whole), weights.ctypes.data)
    weights[count] = np.uint16(0)  # where the last row has no other beside it
    return _F(1.0) / summed


@compiled
def _pair(values, one, other, pair):  # type: ignore[no-untyped-def]
    """pair (W,) = the rows `one` and `other` of values (C / 2, W), side by side; all uint32, of two bfloat16 each."""
    low, high = values[one // 2], values[other // 2]
    one_shift, other_shift = np.uint32(one % 2 * 16), np.uint32(other % 2 * 16)
    for j in range(pair.shape[0]):
        first, second = (low[j] >> one_shift) & np.uint32(0xFFFF), (high[j] >> other_shift) & np.uint32(0xFFFF)
        pair[j] = np.uint32(first | (second << np.uint32(16)))


@compiled
def _gather_rest(weights, group, near, slots, values, pairs, sums):  # type: ignore[no-untyped-def]
    """Add the rows seen beyond the last whole pair of the first `near` ones: one more of them perhaps, and `slots`."""
    first = near // 2 * 2
    odd, seen = near - first, near - first + slots.shape[0]
    if seen == 0:
        return
    steps = (seen + 1) // 2
    for k in range(steps):
        one = near - 1 if 2 * k < odd else slots[2 * k - odd]
        other = slots[2 * k + 1 - odd] if 2 * k + 1 < seen else one
        _pair(values, one, other, pairs[k])
    _gather(weights, group, first, pairs, steps, sums)


@compiled
def _first_rows(prefix, slots):  # type: ignore[no-untyped-def]
    """The rows seen without a gap: `prefix`, and as many of the `slots` as follow it."""
    near = prefix
    while near - prefix < slots.shape[0] and slots[near - prefix] == near:
        near += 1
    return near


@compiled
def _read_rows(sizes, first, last, head, scaled, norm, turned, blocks, values, prefix, starts, extras, out, buffers):  # type: ignore[no-untyped-def]
    heads, kv_heads, head_dim = sizes
    group, query_scale = heads // kv_heads, _F(1.0 / math.sqrt(head_dim))
    query, queries, scores, weights, inverses, sums, pairs, nears = buffers
    count, reach, common = (last - first) * group, 0, 0
    for i in range(first, last):
        slots = extras[starts[i] : starts[i + 1]]
        near = _first_rows(prefix[i], slots)
        nears[i - first] = near
        common = near if i == first else min(common, near)
        reach = max(reach, near)
        if slots.shape[0]:
            reach = max(reach, slots[slots.shape[0] - 1] + 1)
        for g in range(group):
            c = (i - first) * group + g
            _rotate(scaled, i, (head * group + g) * head_dim, norm, turned, query)
            for j in range(head_dim):
                queries[c, j] = _narrowed(query[j] * query_scale)
            for j in range(sums.shape[1]):
                sums[c, j] = _F(0.0)
    _score(queries, count, blocks, reach, scores)
    for i in range(first, last):
        near = nears[i - first]
        slots = extras[starts[i] + near - prefix[i] : starts[i + 1]]
        for g in range(group):
            c = (i - first) * group + g
            inverses[c] = _weigh(scores[c], near, slots, weights[c])
    _gather(weights, count, 0, values, common // 2, sums)
    for i in range(first, last):
        near, c = nears[i - first], (i - first) * group
        own, read_so_far = weights[c : c + group], sums[c : c + group]
        slots = extras[starts[i] + near - prefix[i] : starts[i + 1]]
        _gather(own, group, common // 2 * 2, values[common // 2 :], near // 2 - common // 2, read_so_far)
        _gather_rest(own, group, near, slots, values, pairs, read_so_far)
        for g in range(group):
            into, inverse = out[i, (head * group + g) * head_dim : (head * group + g + 1) * head_dim], inverses[c + g]
            for j in range(head_dim):
                into[j] = read_so_far[g, j] * inverse


@compiled
def side_by_side(sizes):  # type: ignore[no-untyped-def]
    """How many rows are read for at once."""
    return max(1, MOST // (sizes[0] // sizes[1]))


@compiled
def turns_alone(sizes):  # type: ignore[no-untyped-def]
    """Whether what one key/value head's queries read is whole blocks, which can be rotated without the others."""
    heads, kv_heads, head_dim = sizes
    return heads // kv_heads * head_dim % block_size(heads * head_dim) == 0


@compiled
def quantize(sizes, factors, values, head_sizes, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """What was read, values (T, Q D), becomes uint8 rows (T, Q D) with scales (T,): of what this worker has read.

    `factors` (Q D,) are in the values already where the heads turn alone.
    """
    heads, kv_heads, head_dim = sizes
    if not turns_alone(sizes):
        quantize_rows(values, factors, rows, scales, worker, workers)
        return
    own, count = heads // kv_heads * head_dim, values.shape[0]
    for task in own_tasks(count, kv_heads, worker, workers):
        head, i = task // count, task % count
        scale = quantize_columns(values[i], head * own, (head + 1) * own, head_sizes, i, rows[i])
        if head == 0:
            scales[i] = scale


@compiled
def read(  # type: ignore[no-untyped-def]
    sizes, scaled, norm, turned, keys, values, places, prefix, starts, extras, factors, out, head_sizes, worker, workers
):
    """Let T rows read what was written: one worker's share.

    As `write`; `norm` is the queries'. For every row: the first `prefix` (T,) rows of its place, all of which it
    sees, and extras[starts[i]:starts[i + 1]], ascending, the slots of further rows it sees, itself the last.
    `out` is (T, Q D), times `factors` (Q D,) and rotated, head_sizes (G, >= T) taking the largest of each head, where
    heads turn alone. Rows of one place are read for side by side, as many as fit into the registers.
    """
    heads, kv_heads, head_dim = sizes
    group, at_once, size = heads // kv_heads, side_by_side(sizes), block_size(heads * head_dim)
    alone = turns_alone(sizes)
    reach = longest = 0
    for i in range(out.shape[0]):
        longest = max(longest, starts[i + 1] - starts[i])
        reach = max(reach, prefix[i] + starts[i + 1] - starts[i])
        if starts[i + 1] > starts[i]:
            reach = max(reach, extras[starts[i + 1] - 1] + 1)
    most = at_once * group
    width, length = values.shape[3], (reach // BLOCK + 2) * BLOCK
    buffers = (
        np.empty(head_dim, np.float32),
        np.empty((most, head_dim), np.uint16),
        np.empty((most, length), np.float32),
        np.empty((most, length), np.uint16),
        np.empty(most, np.float32),
        np.empty((most, width), np.float32),
        np.empty((longest // 2 + 1, width), np.uint32),
        np.empty(at_once, np.int64),
    )
    rows, own = out.shape[0], own_tasks(out.shape[0], kv_heads, worker, workers)
    task = own.start
    while task < own.stop:
        head, first = task // rows, task % rows
        last = first + 1
        while (
            last < rows and last - first < at_once and task + last - first < own.stop and places[last] == places[first]
        ):
            last += 1
        blocks = keys[places[first], head]
        pairs = values[places[first], head].view(np.uint32).reshape(values.shape[2], width)
        _read_rows(sizes, first, last, head, scaled, norm, turned, blocks, pairs, prefix, starts, extras, out, buffers)
        if alone:
            left, right = head * group * head_dim, (head + 1) * group * head_dim
            for i in range(first, last):
                head_sizes[head, i] = turn(out[i], factors, out[i], left, right, size)
        task += last - first
