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

import numpy as np

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fetching import next_lines, spread_over
from medusa_core.backbone.fused import exp_narrow
from medusa_core.backbone.kernels import quantize as quantize_rows
from medusa_core.backbone.kernels import quantize_columns, turn
from medusa_core.backbone.rotation import block_size
from medusa_core.backbone.turning import narrowed, turn_heads
from medusa_core.backbone.weighted import FOLDED, LOWEST, MOST, TILE, add_weighted, largest

BLOCK = 64  # keys: whole tiles of sums, whatever the processor's registers are
_F = np.float32
_LOWEST = _F(LOWEST)


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
    buffer, key = np.empty(head_dim, np.float32), np.empty((1, head_dim), np.uint16)
    rows = product.shape[0]
    for task in own_tasks(rows, kv_heads, worker, workers):
        head, i = task // rows, task % rows
        place, block, lane = places[i], slots[i] // BLOCK, slots[i] % BLOCK
        turn_heads(scaled, i, first_key + head * head_dim, norm, turned, _F(1.0), buffer, key)
        start = first_value + head * head_dim
        numbers, scales, biases = product[i, start : start + head_dim], column_scales[start:], bias[start:]
        lanes, row, row_scale = keys[place, head, block], values[place, head, slots[i] // 2], row_scales[i]
        for j in range(head_dim // 2):
            lanes[j, lane, 0] = key[0, 2 * j]
            lanes[j, lane, 1] = key[0, 2 * j + 1]
        half = slots[i] % 2
        for j in range(head_dim):
            row[j, half] = narrowed(numbers[j] * (row_scale * scales[j]) + biases[j])


@compiled
def _add_all(count, weights, to_weights, rows, to_row, steps, out, to_out, wanted):  # type: ignore[no-untyped-def]
    """`add_weighted` for any number of sets of weights, while `wanted` lines are fetched."""
    for first in range(0, count, MOST):
        ahead, further = next_lines(wanted, steps, rows)
        add_weighted(
            min(MOST, count - first), weights + first * to_weights, to_weights, rows, to_row, steps,
            out + first * to_out, to_out, ahead, further,
        )  # fmt: skip


@compiled
def _score(queries, count, keys_at, strides, reach, scores, wanted):  # type: ignore[no-untyped-def]
    """scores (count, >= reach) = queries (count, D) . the first `reach` keys of blocks (C / 64, D / 2, 64, 2).

    The blocks are given by their address and strides.
    """
    to_block, to_pair = strides
    for c in range(count):
        for k in range((reach + TILE - 1) // TILE * TILE):
            scores[c, k] = _F(0.0)
    for first in range(0, reach, TILE):
        _add_all(
            count, queries.ctypes.data, queries.strides[0], keys_at + first // BLOCK * to_block + first % BLOCK * 4,
            to_pair, queries.shape[1] // 2, scores.ctypes.data + 4 * first, scores.strides[0], wanted,
        )  # fmt: skip


@compiled
def _gather(weights, c, count, first, pairs_at, to_pair, steps, sums, wanted):  # type: ignore[no-untyped-def]
    """sums[c : c + count] (W,) += weights from the even number `first` on, . `steps` pairs of values (..., W)."""
    for start in range(0, sums.shape[1], TILE):
        _add_all(
            count, weights.ctypes.data + c * weights.strides[0] + 2 * first, weights.strides[0],
            pairs_at + 4 * start, to_pair, steps,
            sums.ctypes.data + c * sums.strides[0] + 4 * start, sums.strides[0], wanted,
        )  # fmt: skip


@compiled
def _weigh(scores, weights, c, near, extras, first, last):  # type: ignore[no-untyped-def]
    """weights[c]: exp of the scores of the first `near` rows and of extras[first:last], side by side; 1 / their sum."""
    count = near + last - first
    for k in range(first, last):
        scores[c, near + k - first] = scores[c, extras[k]]  # ascending, so none is overwritten before it is moved
    whole = (count + FOLDED - 1) // FOLDED * FOLDED
    for k in range(count, whole):
        scores[c, k] = _LOWEST
    scores_at = scores.ctypes.data + c * scores.strides[0]
    peak = largest(scores_at, whole)
    summed = exp_narrow(scores_at, whole, peak, weights.ctypes.data + c * weights.strides[0])
    weights[c, count] = np.uint16(0)  # where the last row has no other beside it
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
def _gather_rest(weights, c, group, near, extras, start, last, values, pairs, sums, wanted):  # type: ignore[no-untyped-def]
    """Add the rows seen beyond the last whole pair of the first `near`: one more perhaps, and extras[start:last]."""
    first = near // 2 * 2
    odd = near - first
    seen = odd + last - start
    if seen == 0:
        return
    steps = (seen + 1) // 2
    for k in range(steps):
        one = near - 1 if 2 * k < odd else extras[start + 2 * k - odd]
        other = extras[start + 2 * k + 1 - odd] if 2 * k + 1 < seen else one
        _pair(values, one, other, pairs[k])
    _gather(weights, c, group, first, pairs.ctypes.data, pairs.strides[0], steps, sums, wanted)


@compiled
def _first_rows(prefix, extras, start, last):  # type: ignore[no-untyped-def]
    """The rows seen without a gap: `prefix`, and as many of extras[start:last] as follow it."""
    near = prefix
    while near - prefix < last - start and extras[start + near - prefix] == near:
        near += 1
    return near


@compiled
def _read_rows(sizes, first, last, head, scaled, norm, turned, keys, values, prefix, starts, extras, out, buffers):  # type: ignore[no-untyped-def]
    """For rows [first, last) of one place what one key/value head's queries read there.

    `keys`: the address and strides of its blocks; `values` (C / 2, W) of two bfloat16 each.
    """
    heads, kv_heads, head_dim = sizes
    group, query_scale = heads // kv_heads, _F(1.0 / math.sqrt(head_dim))
    query, queries, scores, weights, inverses, sums, pairs, nears, wanted = buffers
    count, reach, common = (last - first) * group, 0, 0
    for i in range(first, last):
        near = _first_rows(prefix[i], extras, starts[i], starts[i + 1])
        nears[i - first] = near
        common = near if i == first else min(common, near)
        reach = max(reach, near)
        if starts[i + 1] > starts[i]:
            reach = max(reach, extras[starts[i + 1] - 1] + 1)
        own = queries[(i - first) * group : (i - first + 1) * group]
        turn_heads(scaled, i, head * group * head_dim, norm, turned, query_scale, query, own)
    for c in range(count):
        for j in range(sums.shape[1]):
            sums[c, j] = _F(0.0)
    _score(queries, count, keys[0], keys[1:], reach, scores, wanted)
    c = 0
    for i in range(first, last):
        near = nears[i - first]
        for _ in range(group):
            inverses[c] = _weigh(scores, weights, c, near, extras, starts[i] + near - prefix[i], starts[i + 1])
            c += 1
    values_at, to_pair = values.ctypes.data, values.strides[0]
    _gather(weights, 0, count, 0, values_at, to_pair, common // 2, sums, wanted)
    c = 0
    for i in range(first, last):
        near, read_at = nears[i - first], values_at + common // 2 * to_pair
        _gather(weights, c, group, common // 2 * 2, read_at, to_pair, near // 2 - common // 2, sums, wanted)
        _gather_rest(
            weights, c, group, near, extras, starts[i] + near - prefix[i], starts[i + 1], values, pairs, sums, wanted
        )  # fmt: skip
        for g in range(group):
            into, read_so_far, inverse = out[i, (head * group + g) * head_dim :], sums[c], inverses[c]
            for j in range(head_dim):
                into[j] = read_so_far[j] * inverse
            c += 1


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
def _last_beside(task, own, at_once, places):  # type: ignore[no-untyped-def]
    """Behind the last row of those that are read for together, from the row of `task` on: rows of one place."""
    rows, first = places.shape[0], task % places.shape[0]
    last = first + 1
    while last < rows and last - first < at_once and task + last - first < own.stop and places[last] == places[first]:
        last += 1
    return last


@compiled
def _steps(sizes, width, own, places, reach):  # type: ignore[no-untyped-def]
    """Of all sums for one worker's `own` tasks: how often `wanted` lines can be asked for where all see `reach` rows.

    `width` is that of a value as it is stored.
    """
    heads, kv_heads, head_dim = sizes
    calls, task = 0, own.start
    while task < own.stop:
        together = _last_beside(task, own, side_by_side(sizes), places) - task % places.shape[0]
        calls += (together * (heads // kv_heads) + MOST - 1) // MOST
        task += together
    return calls * ((reach + TILE - 1) // TILE * (head_dim // 2) + width // TILE * (reach // 2))


@compiled
def read(  # type: ignore[no-untyped-def]
    sizes, scaled, norm, turned, keys, values, seen, factors, out, head_sizes, ahead, worker, workers
):
    """Let T rows read what was written: one worker's share.

    As `write`; `norm` is the queries'. `seen`: the rows' places (T,), and `prefix`, `starts`, `extras`: of every row
    the first `prefix` (T,) rows of its place, all of which it sees, and extras[starts[i]:starts[i + 1]], ascending, the
    slots of further rows it sees, itself the last. `out` is (T, Q D), times `factors` (Q D,) and rotated, head_sizes
    (G, >= T) taking the largest of each head, where heads turn alone. Meanwhile memory is asked for lines of `ahead`
    (`fetching.py`). Rows of one place are read for side by side, as many as fit into the registers.
    """
    heads, kv_heads, head_dim = sizes
    places, prefix, starts, extras = seen
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
    own = own_tasks(out.shape[0], kv_heads, worker, workers)
    buffers = (
        np.empty(head_dim, np.float32),
        np.empty((most, head_dim), np.uint16),
        np.empty((most, length), np.float32),
        np.empty((most, length), np.uint16),
        np.empty(most, np.float32),
        np.empty((most, width), np.float32),
        np.empty((longest // 2 + 1, width), np.uint32),
        np.empty(at_once, np.int64),
        spread_over(ahead, _steps(sizes, width, own, places, reach)),
    )
    words = values.view(np.uint32).reshape(values.shape[0], kv_heads, values.shape[2], width)
    rows, task = out.shape[0], own.start
    while task < own.stop:
        head, first = task // rows, task % rows
        last = _last_beside(task, own, at_once, places)
        place = places[first]
        at = (keys.ctypes.data + place * keys.strides[0] + head * keys.strides[1], keys.strides[2], keys.strides[3])
        pairs = words[place, head]
        _read_rows(sizes, first, last, head, scaled, norm, turned, at, pairs, prefix, starts, extras, out, buffers)
        if alone:
            left, right = head * group * head_dim, (head + 1) * group * head_dim
            for i in range(first, last):
                head_sizes[head, i] = turn(out[i], factors, out[i], left, right, size)
        task += last - first
