"""The int8 pass between its matrix products, fused for the CPU: norm, quantize, gate.

Every row is computed by the same instructions in the same order whatever other rows there are, so a row of a tree
equals, to the last bit, the row that decoding its path token by token would give.
Shapes: T rows, H hidden, I width of the MLP, N outputs. Integer products arrive as float32 (T, N) with one scale a
row and one a column. uint8 rows have their zero at 128. `workers` is the number of threads; what starts with an
underscore computes the share of one. Attention is in `attention.py`. Knows nothing of models, weights or torch.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from medusa_core.backbone.threads import in_parallel


def _can_keep() -> bool:
    """Whether compiled code can be kept for the next start: nowhere to write to, and numba would not even compile."""
    try:
        numba.jit(nopython=True, cache=True)(lambda: None)
    except RuntimeError:
        return False
    return True


OPTIONS: dict[str, Any] = {
    "nopython": True,
    "cache": _can_keep(),
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": True,
}
_F = np.float32
_TINY = _F(1e-8)  # a row of zeros has no scale of its own


@numba.jit(**OPTIONS)
def _quantize_row(values, factors, largest, row):  # type: ignore[no-untyped-def]
    """row = round(values * factors) with `largest` at 127."""
    factor = _F(127.0) / largest
    for j in range(values.shape[0]):
        row[j] = np.uint8(np.int32(math.floor(values[j] * factors[j] * factor + _F(128.5))))


@numba.jit(**OPTIONS)
def _norm_quantize_row(x, weight, eps, row):  # type: ignore[no-untyped-def]
    """Quantize the RMS norm of x (H,); returns the row's scale. The norm's own factor only enters the scale."""
    squares, largest = _F(0.0), _TINY
    for j in range(x.shape[0]):
        squares += x[j] * x[j]
        largest = max(largest, abs(x[j] * weight[j]))
    _quantize_row(x, weight, largest, row)
    return largest / math.sqrt(squares / _F(x.shape[0]) + eps) / _F(127.0)


@numba.jit(**OPTIONS)
def _add_row(x, product, row_scale, scales):  # type: ignore[no-untyped-def]
    """x += product, scaled."""
    for j in range(x.shape[0]):
        x[j] += product[j] * (row_scale * scales[j])


@numba.jit(**OPTIONS)
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


@numba.jit(**OPTIONS)
def _norm_quantize(x, weight, eps, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    for i in range(worker, x.shape[0], workers):
        scales[i] = _norm_quantize_row(x[i], weight, eps, rows[i])


@numba.jit(**OPTIONS)
def norm_quantize(x, weight, eps, rows, scales, workers):  # type: ignore[no-untyped-def]
    """x (T, H) -> its RMS norm times `weight` (H,), as uint8 rows (T, H) with scales (T,)."""
    in_parallel(_norm_quantize, (x, weight, eps, rows, scales), workers)


@numba.jit(**OPTIONS)
def _add_norm_quantize(x, product, row_scales, column_scales, weight, eps, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    for i in range(worker, x.shape[0], workers):
        _add_row(x[i], product[i], row_scales[i], column_scales)
        scales[i] = _norm_quantize_row(x[i], weight, eps, rows[i])


@numba.jit(**OPTIONS)
def add_norm_quantize(x, product, row_scales, column_scales, weight, eps, rows, scales, workers):  # type: ignore[no-untyped-def]
    """x (T, H) += product (T, H); then `norm_quantize`."""
    in_parallel(_add_norm_quantize, (x, product, row_scales, column_scales, weight, eps, rows, scales), workers)


@numba.jit(**OPTIONS)
def _add_norm(x, product, row_scales, column_scales, weight, eps, out, worker, workers):  # type: ignore[no-untyped-def]
    for i in range(worker, x.shape[0], workers):
        _add_row(x[i], product[i], row_scales[i], column_scales)
        squares = _F(0.0)
        for j in range(x.shape[1]):
            squares += x[i, j] * x[i, j]
        factor = _F(1.0) / math.sqrt(squares / _F(x.shape[1]) + eps)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * factor * weight[j]


@numba.jit(**OPTIONS)
def add_norm(x, product, row_scales, column_scales, weight, eps, out, workers):  # type: ignore[no-untyped-def]
    """x (T, H) += product (T, H); out (T, H) is its RMS norm times `weight`."""
    in_parallel(_add_norm, (x, product, row_scales, column_scales, weight, eps, out), workers)


@numba.jit(**OPTIONS)
def _quantize(x, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    for i in range(worker, x.shape[0], workers):
        largest = _TINY
        for j in range(x.shape[1]):
            largest = max(largest, abs(x[i, j] * factors[j]))
        _quantize_row(x[i], factors, largest, rows[i])
        scales[i] = largest / _F(127.0)


@numba.jit(**OPTIONS)
def quantize(x, factors, rows, scales, workers):  # type: ignore[no-untyped-def]
    """x (T, H) * factors (H,) -> uint8 rows (T, H) with scales (T,)."""
    in_parallel(_quantize, (x, factors, rows, scales), workers)


@numba.jit(**OPTIONS)
def _gate_quantize(product, row_scales, column_scales, factors, rows, scales, worker, workers):  # type: ignore[no-untyped-def]
    width = product.shape[1] // 2
    bits = np.empty(width, np.int32)
    powers = bits.view(np.float32)
    gated = np.empty(width, np.float32)
    for i in range(worker, product.shape[0], workers):
        scale = row_scales[i]
        for j in range(width):
            gated[j] = -product[i, j] * (scale * column_scales[j])
        exp_row(gated, bits, powers)
        largest = _TINY
        for j in range(width):
            gate = product[i, j] * (scale * column_scales[j])
            up = product[i, width + j] * (scale * column_scales[width + j])
            gated[j] = gate / (_F(1.0) + gated[j]) * up
            largest = max(largest, abs(gated[j] * factors[j]))
        _quantize_row(gated, factors, largest, rows[i])
        scales[i] = largest / _F(127.0)


@numba.jit(**OPTIONS)
def gate_quantize(product, row_scales, column_scales, factors, rows, scales, workers):  # type: ignore[no-untyped-def]
    """SiLU(gate) * up * factors (I,) of a product (T, 2 I), gate first -> uint8 rows (T, I) with scales (T,)."""
    in_parallel(_gate_quantize, (product, row_scales, column_scales, factors, rows, scales), workers)


@numba.jit(**OPTIONS)
def _scale(product, row_scales, column_scales, bias, worker, workers):  # type: ignore[no-untyped-def]
    # Columns are shared out, not rows: logits are wide, and of one row as often as of many.
    first, last = product.shape[1] * worker // workers, product.shape[1] * (worker + 1) // workers
    for i in range(product.shape[0]):
        for j in range(first, last):
            product[i, j] *= row_scales[i] * column_scales[j]
        if bias.shape[0]:
            for j in range(first, last):
                product[i, j] += bias[j]


@numba.jit(**OPTIONS)
def scale(product, row_scales, column_scales, bias, workers):  # type: ignore[no-untyped-def]
    """product (T, N) in place: times its scales, plus bias (N,), which is of length 0 where there is none."""
    in_parallel(_scale, (product, row_scales, column_scales, bias), workers)
