"""What the int8 pass does to rows between its products, fused for the CPU: norm, gate, rotate, quantize.

Every row is computed by the same instructions in the same order whatever other rows there are, so a row of a tree
equals, to the last bit, the row that decoding its path token by token would give. Workers own columns, those whose
outputs they computed: what crosses from one processor core to the other is little more than the quantized rows.
What concerns a whole row is taken block by block, and put together in one order however many workers there are.
Shapes: T rows, H hidden, I width of the MLP, N outputs. Of each row, `sizes` (workers, >= T) are the largest number of
each worker's columns, and `sums` (S, >= T) stand by block (`rotation.block_size`): no two workers write to one line of
memory. Integer products arrive as float32 (T, >= N) with one scale a row and one a column. uint8 rows have their zero
at 128. Attention is in `attention.py`. Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math

import numpy as np

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fused import LANES, gate_row, round_row, turn_row
from medusa_core.backbone.products import HERE
from medusa_core.backbone.rotation import block_size
from medusa_core.backbone.weighted import FOLDED, squares

_F = np.float32
_TINY = _F(1e-8)  # a row of zeros has no scale of its own
_BLOCK = HERE.block  # outputs that a product gives at once


@compiled
def own_columns(width, worker, workers):  # type: ignore[no-untyped-def]
    """The columns [first, last) of one worker: whole blocks, of rotations and of products; else all are the last's."""
    unit = max(block_size(width), _BLOCK)
    if width % unit:
        unit = width
    units = width // unit
    return units * worker // workers * unit, units * (worker + 1) // workers * unit


@compiled
def _sum_of_squares(values, first, last):  # type: ignore[no-untyped-def]
    whole = first + (last - first) // FOLDED * FOLDED
    summed = squares(values.ctypes.data + 4 * first, whole - first)
    for j in range(whole, last):
        summed += values[j] * values[j]
    return summed


@compiled
def mean_square(values):  # type: ignore[no-untyped-def]
    """Of values (H,)."""
    return _sum_of_squares(values, 0, values.shape[0]) / _F(values.shape[0])


@compiled
def turn(values, factors, turned, first, last, size):  # type: ignore[no-untyped-def]
    """turned (K,) = values (K,) * factors (K,), rotated, in columns [first, last). Returns the largest size there."""
    at = 4 * first
    return turn_row(values.ctypes.data + at, factors.ctypes.data + at, turned.ctypes.data + at, last - first, size)


@compiled
def quantize_columns(values, first, last, sizes, i, row):  # type: ignore[no-untyped-def]
    """row = round(values), the largest of all `sizes` of row `i` at 127. Returns the row's scale."""
    most = _TINY
    for k in range(sizes.shape[0]):
        most = max(most, sizes[k, i])
    factor = _F(127.0) / most
    whole = first + (last - first) // LANES * LANES
    round_row(values.ctypes.data + 4 * first, factor, row.ctypes.data + first, whole - first)
    for j in range(whole, last):
        row[j] = np.uint8(np.int32(values[j] * factor + _F(128.5)))
    return most / _F(127.0)


@compiled
def norm_turn(x, factors, turned, sizes, sums, first, last, worker):  # type: ignore[no-untyped-def]
    """First half of norm and quantize: of x (T, H) the `sums` by block of squares, and `turned` (T, H), x * factors.

    `sizes` take the largest of this worker's columns [first, last) of `turned`.
    """
    size = block_size(x.shape[1])
    for i in range(x.shape[0]):
        for start in range(first, last, size):
            sums[start // size, i] = _sum_of_squares(x[i], start, start + size)
        sizes[worker, i] = turn(x[i], factors, turned[i], first, last, size)


@compiled
def add(x, product, row_scales, column_scales, first, last):  # type: ignore[no-untyped-def]
    """x (T, H) += product (T, >= H), scaled, in columns [first, last)."""
    own_scales = column_scales[first:last]
    for i in range(x.shape[0]):
        own, added, scale = x[i, first:last], product[i, first:last], row_scales[i]
        for j in range(own.shape[0]):
            own[j] += added[j] * (scale * own_scales[j])


@compiled
def _root_mean_square(sums, i, width, eps):  # type: ignore[no-untyped-def]
    summed = _F(0.0)
    for block in range(sums.shape[0]):
        summed += sums[block, i]
    return math.sqrt(summed / _F(width) + eps)


@compiled
def norm_quantize(turned, sizes, sums, eps, rows, scales, first, last):  # type: ignore[no-untyped-def]
    """Second half: uint8 rows (T, H) with scales (T,), of which the RMS norm's own factor is part."""
    for i in range(turned.shape[0]):
        scale = quantize_columns(turned[i], first, last, sizes, i, rows[i])
        if last == turned.shape[1]:  # one worker has them
            scales[i] = scale / _root_mean_square(sums, i, turned.shape[1], eps)


@compiled
def norm(x, weight, sums, eps, out, first, last):  # type: ignore[no-untyped-def]
    """out (T, H) = the RMS norm of x times `weight`, from `sums` as `norm_turn` takes them."""
    for i in range(x.shape[0]):
        factor = _F(1.0) / _root_mean_square(sums, i, x.shape[1], eps)
        own, into, own_weight = x[i, first:last], out[i, first:last], weight[first:last]
        for j in range(own.shape[0]):
            into[j] = own[j] * factor * own_weight[j]


@compiled
def gate_turn(product, row_scales, column_scales, factors, turned, sizes, first, last, worker):  # type: ignore[no-untyped-def]
    """SiLU(gate) * up * factors (I,) of a product (T, >= 2 I), gate first -> `turned` (T, I), its `sizes`."""
    width = factors.shape[0]
    size, at = block_size(width), 4 * first
    scales_at = column_scales.ctypes.data + at
    for i in range(product.shape[0]):
        gates_at = product.ctypes.data + i * product.strides[0] + at
        sizes[worker, i] = gate_row(
            gates_at, gates_at + 4 * width, row_scales[i], scales_at, scales_at + 4 * width,
            factors.ctypes.data + at, turned.ctypes.data + i * turned.strides[0] + at, last - first, size,
        )  # fmt: skip


@compiled
def quantize_turned(turned, sizes, rows, scales, first, last):  # type: ignore[no-untyped-def]
    """turned (T, I) -> uint8 rows (T, I) with scales (T,)."""
    for i in range(turned.shape[0]):
        scale = quantize_columns(turned[i], first, last, sizes, i, rows[i])
        if last == turned.shape[1]:
            scales[i] = scale


@compiled
def quantize(x, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, K) * factors (K,) -> uint8 rows (T, K) with scales (T,), every worker its rows."""
    width = x.shape[1]
    size = block_size(width)
    values, sizes = np.empty(width, np.float32), np.empty((1, 1), np.float32)
    for i in range(worker, x.shape[0], workers):
        sizes[0, 0] = turn(x[i], factors, values, 0, width, size)
        scales[i] = quantize_columns(values, 0, width, sizes, 0, rows[i])


@compiled
def scale_row(numbers, row_scale, column_scales, bias):  # type: ignore[no-untyped-def]
    """Columns of one row of a product in place: times its scales, plus bias, of length 0 where there is none."""
    for j in range(numbers.shape[0]):
        numbers[j] *= row_scale * column_scales[j]
    for j in range(bias.shape[0]):
        numbers[j] += bias[j]


@compiled
def scale(product, row_scales, column_scales, bias, worker, workers):  # type: ignore[no-untyped-def]
    """The first N of product (T, >= N) in place: times its scales, plus bias (N,), of length 0 where there is none."""
    count = column_scales.shape[0]
    first, last = count * worker // workers, count * (worker + 1) // workers
    own_scales, own_bias = column_scales[first:last], bias[first:last]
    for i in range(product.shape[0]):
        scale_row(product[i, first:last], row_scales[i], own_scales, own_bias)
