"""What the int8 pass does to rows between its products, fused for the CPU: norm, gate, rotate, quantize.

Every row is computed by the same instructions in the same order whatever other rows there are, so a row of a tree
equals, to the last bit, the row that decoding its path token by token would give.
Shapes: T rows, H hidden, I width of the MLP, N outputs. Integer products arrive as float32 (T, >= N) with one scale a
row and one a column. uint8 rows have their zero at 128; they are rotated in blocks (`rotation.py`). Each function
computes the share of one of several workers. Attention is in `attention.py`. Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math

import numpy as np

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.rotation import LARGEST, rotate_block
from medusa_core.backbone.weighted import FOLDED, largest_size, squares

_F = np.float32
_TINY = _F(1e-8)  # a row of zeros has no scale of its own


@compiled
def mean_square(x):  # type: ignore[no-untyped-def]
    """Of x (H,)."""
    whole = x.shape[0] // FOLDED * FOLDED
    summed = squares(x.ctypes.data, whole)
    for j in range(whole, x.shape[0]):
        summed += x[j] * x[j]
    return summed / _F(x.shape[0])


@compiled
def _quantize_row(values, row):  # type: ignore[no-untyped-def]
    """Rotate `values` in place; row = round(values), the largest at 127. Returns the row's scale."""
    inputs = values.shape[0]
    size = min(LARGEST, inputs & -inputs)
    for start in range(0, inputs, size):
        rotate_block(values.ctypes.data + 4 * start, size)
    whole = inputs // FOLDED * FOLDED
    most = max(_TINY, largest_size(values.ctypes.data, whole))
    for j in range(whole, inputs):
        most = max(most, abs(values[j]))
    factor = _F(127.0) / most
    for j in range(inputs):
        row[j] = np.uint8(np.int32(math.floor(values[j] * factor + _F(128.5))))
    return most / _F(127.0)


@compiled
def _norm_quantize_row(x, weight, eps, values, row):  # type: ignore[no-untyped-def]
    """Quantize the RMS norm of x (H,); returns the row's scale. The norm's own factor only enters the scale."""
    for j in range(x.shape[0]):
        values[j] = x[j] * weight[j]
    return _quantize_row(values, row) / math.sqrt(mean_square(x) + eps)


@compiled
def _add_row(x, product, row_scale, scales):  # type: ignore[no-untyped-def]
    """x += product, scaled."""
    for j in range(x.shape[0]):
        x[j] += product[j] * (row_scale * scales[j])


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
def norm_quantize(x, weight, eps, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) -> its RMS norm times `weight` (H,), as uint8 rows (T, H) with scales (T,)."""
    values = np.empty(x.shape[1], np.float32)
    for i in range(worker, x.shape[0], workers):
        scales[i] = _norm_quantize_row(x[i], weight, eps, values, rows[i])


@compiled
def add_norm_quantize(x, product, row_scales, column_scales, weight, eps, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) += product (T, H); then `norm_quantize`."""
    values = np.empty(x.shape[1], np.float32)
    for i in range(worker, x.shape[0], workers):
        _add_row(x[i], product[i], row_scales[i], column_scales)
        scales[i] = _norm_quantize_row(x[i], weight, eps, values, rows[i])


@compiled
def add_norm(x, product, row_scales, column_scales, weight, eps, out, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) += product (T, H); out (T, H) is its RMS norm times `weight`."""
    for i in range(worker, x.shape[0], workers):
        _add_row(x[i], product[i], row_scales[i], column_scales)
        factor = _F(1.0) / math.sqrt(mean_square(x[i]) + eps)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * factor * weight[j]


@compiled
def quantize(x, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """x (T, H) * factors (H,) -> uint8 rows (T, H) with scales (T,)."""
    values = np.empty(x.shape[1], np.float32)
    for i in range(worker, x.shape[0], workers):
        for j in range(x.shape[1]):
            values[j] = x[i, j] * factors[j]
        scales[i] = _quantize_row(values, rows[i])


@compiled
def gate_quantize(product, row_scales, column_scales, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    """SiLU(gate) * up * factors (I,) of a product (T, >= 2 I), gate first -> uint8 rows (T, I) with scales (T,)."""
    width = factors.shape[0]
    bits = np.empty(width, np.int32)
    powers = bits.view(np.float32)
    gated = np.empty(width, np.float32)
    for i in range(worker, product.shape[0], workers):
        scale = row_scales[i]
        for j in range(width):
            gated[j] = -product[i, j] * (scale * column_scales[j])
        exp_row(gated, bits, powers)
        for j in range(width):
            gate = product[i, j] * (scale * column_scales[j])
            up = product[i, width + j] * (scale * column_scales[width + j])
            gated[j] = gate / (_F(1.0) + gated[j]) * up * factors[j]
        scales[i] = _quantize_row(gated, rows[i])


@compiled
def scale(product, row_scales, column_scales, bias, worker, workers):  # type: ignore[no-untyped-def]
    """The first N of product (T, >= N) in place: times its scales, plus bias (N,), of length 0 where there is none."""
    # Columns are shared out, not rows: logits are wide, and of one row as often as of many.
    count = column_scales.shape[0]
    first, last = count * worker // workers, count * (worker + 1) // workers
    for i in range(product.shape[0]):
        for j in range(first, last):
            product[i, j] *= row_scales[i] * column_scales[j]
        if bias.shape[0]:
            for j in range(first, last):
                product[i, j] += bias[j]
