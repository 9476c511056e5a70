"""What the int8 pass does to rows between its products, fused for the CPU: norm, gate, rotate, quantize.

Every row is computed by the same instructions in the same order whatever other rows there are, so a row of a tree
equals, to the last bit, the row that decoding its path token by token would give. Workers own columns, those whose
outputs they computed: what crosses from one processor core to the other is little more than the quantized rows.
What concerns a whole row is taken block by block, and put together in one order however many workers there are.
Shapes: T rows, H hidden, I width of the MLP, N outputs, S blocks of a row (`rotation.block_size`). Integer products
arrive as float32 (T, >= N) with one scale a row and one a column. uint8 rows have their zero at 128. Attention is in
`attention.py`. Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math

import numpy as np

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.products import HERE
from medusa_core.backbone.rotation import block_size, rotate_block
from medusa_core.backbone.weighted import FOLDED, largest_size, squares

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
def _largest(values, first, last):  # type: ignore[no-untyped-def]
    whole = first + (last - first) // FOLDED * FOLDED
    most = largest_size(values.ctypes.data + 4 * first, whole - first)
    for j in range(whole, last):
        most = max(most, abs(values[j]))
    return most


@compiled
def _turn(values, first, last, size, sizes):  # type: ignore[no-untyped-def]
    """Rotate the blocks of columns [first, last) of values (K,) in place; sizes (S,) takes the largest of each."""
    for start in range(first, last, size):
        rotate_block(values.ctypes.data + 4 * start, size)
        sizes[start // size] = _largest(values, start, start + size)


@compiled
def _quantize_columns(values, first, last, sizes, row):  # type: ignore[no-untyped-def]
    """row = round(values), the largest of all blocks at 127. Returns the row's scale."""
    most = _TINY
    for block in range(sizes.shape[0]):
        most = max(most, sizes[block])
    factor = _F(127.0) / most
    for j in range(first, last):
        row[j] = np.uint8(np.int32(math.floor(values[j] * factor + _F(128.5))))
    return most / _F(127.0)


@compiled
def norm_turn(x, factors, turned, sizes, sums, first, last):  # type: ignore[no-untyped-def]
    """First half of norm and quantize: of x (T, H) the `sums` (T, S) of squares, and `turned` (T, H), x * factors.

    `sizes` (T, S) takes the largest of each block of `turned`. All of columns [first, last).
    """
    size = block_size(x.shape[1])
    for i in range(x.shape[0]):
        row, into = x[i], turned[i]
        for j in range(first, last):
            into[j] = row[j] * factors[j]
        for start in range(first, last, size):
            sums[i, start // size] = _sum_of_squares(row, start, start + size)
        _turn(into, first, last, size, sizes[i])


@compiled
def add(x, product, row_scales, column_scales, first, last):  # type: ignore[no-untyped-def]
    """x (T, H) += product (T, >= H), scaled, in columns [first, last)."""
    for i in range(x.shape[0]):
        for j in range(first, last):
            x[i, j] += product[i, j] * (row_scales[i] * column_scales[j])


@compiled
def _root_mean_square(sums, width, eps):  # type: ignore[no-untyped-def]
    summed = _F(0.0)
    for block in range(sums.shape[0]):
        summed += sums[block]
    return math.sqrt(summed / _F(width) + eps)


@compiled
def norm_quantize(turned, sizes, sums, eps, rows, scales, first, last):  # type: ignore[no-untyped-def]
    """Second half: uint8 rows (T, H) with scales (T,), of which the RMS norm's own factor is part."""
    for i in range(turned.shape[0]):
        scale = _quantize_columns(turned[i], first, last, sizes[i], rows[i])
        if last == turned.shape[1]:  # one worker has them
            scales[i] = scale / _root_mean_square(sums[i], turned.shape[1], eps)


@compiled
def norm(x, weight, sums, eps, out, first, last):  # type: ignore[no-untyped-def]
    """out (T, H) = the RMS norm of x times `weight`, from `sums` as `norm_turn` takes them."""
    for i in range(x.shape[0]):
        factor = _F(1.0) / _root_mean_square(sums[i], x.shape[1], eps)
        for j in range(first, last):
            out[i, j] = x[i, j] * factor * weight[j]


@compiled
def exp_row(values, bits, powers):  # type: ignore[no-untyped-def]
    """values = exp(values). `bits` (int32) and `powers` (float32) share their memory, as long as `values`.

    A polynomial of degree 5 for 2 ** fraction, within 3e-6, times a power of two put together from its bits: unlike
    calls of exp, it runs on many values at once.
    """
    for k in range(values.shape[0]):
        t = min(max(values[k] * _F(1.44269504), _F(-126.0)), _F(126.0))
        whole = np.floor(t + _F(0.5))
        f = t - whole
        bits[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
        p = _F(0.00961813) + f * _F(0.00133336)
        p = _F(0.69314718) + f * (_F(0.24022651) + f * (_F(0.05550411) + f * p))
        values[k] = _F(1.0) + f * p
    for k in range(values.shape[0]):
        values[k] *= powers[k]


@compiled
def gate_turn(product, row_scales, column_scales, factors, turned, sizes, first, last):  # type: ignore[no-untyped-def]
    """SiLU(gate) * up * factors (I,) of a product (T, >= 2 I), gate first -> `turned` (T, I), `sizes` (T, S)."""
    width, own = factors.shape[0], last - first
    size = block_size(width)
    bits = np.empty(own, np.int32)
    powers = bits.view(np.float32)
    for i in range(product.shape[0]):
        scale, gated = row_scales[i], turned[i, first:last]
        gates, ups = product[i, first:last], product[i, width + first : width + last]
        gate_scales, up_scales = column_scales[first:last], column_scales[width + first : width + last]
        for j in range(own):
            gated[j] = -gates[j] * (scale * gate_scales[j])
        exp_row(gated, bits, powers)
        for j in range(own):
            gate = gates[j] * (scale * gate_scales[j])
            gated[j] = gate / (_F(1.0) + gated[j]) * (ups[j] * (scale * up_scales[j])) * factors[first + j]
        _turn(turned[i], first, last, size, sizes[i])


@compiled
def quantize_turned(turned, sizes, rows, scales, first, last):  # type: ignore[no-untyped-def]
    """turned (T, I) -> uint8 rows (T, I) with scales (T,)."""
    for i in range(turned.shape[0]):
        scale = _quantize_columns(turned[i], first, last, sizes[i], rows[i])
        if last == turned.shape[1]:
            scales[i] = scale


@compiled
def quantize(x, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, K) * factors (K,) -> uint8 rows (T, K) with scales (T,), every worker its rows."""
    width = x.shape[1]
    size = block_size(width)
    values, sizes = np.empty(width, np.float32), np.empty(width // size, np.float32)
    for i in range(worker, x.shape[0], workers):
        for j in range(width):
            values[j] = x[i, j] * factors[j]
        _turn(values, 0, width, size, sizes)
        scales[i] = _quantize_columns(values, 0, width, sizes, rows[i])


@compiled
def scale(product, row_scales, column_scales, bias, worker, workers):  # type: ignore[no-untyped-def]
    """The first N of product (T, >= N) in place: times its scales, plus bias (N,), of length 0 where there is none."""
    count = column_scales.shape[0]
    first, last = count * worker // workers, count * (worker + 1) // workers
    for i in range(product.shape[0]):
        for j in range(first, last):
            product[i, j] *= row_scales[i] * column_scales[j]
        if bias.shape[0]:
            for j in range(first, last):
                product[i, j] += bias[j]
