"""Heads of one row: scaled, turned to the row's position, multiplied, and narrowed to bfloat16.

In registers where a head is whole registers and has no norm, else number by number.
Shapes: T rows, N columns of a product, D head dimension. Every number is computed by the operations that are written
here, in this order, on vectors of one size whatever the processor's own is. Knows nothing of caches or of who reads
what.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fused import LANES, loaded, narrow, spread
from medusa_core.backbone.kernels import mean_square
from medusa_core.backbone.loops import repeat

_INDEX = ir.IntType(64)


def _as_bits(_context: Any, value: Any) -> Any:
    """The bits of a float32."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), generate


_bits: Any = intrinsic(_as_bits)


@compiled
def narrowed(value):  # type: ignore[no-untyped-def]
    """float32 -> the nearest bfloat16, ties to even, in the bits of a uint16."""
    bits = np.uint32(_bits(value))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


def _turn_head(
    _context: Any, numbers: Any, row_scale: Any, scales: Any, bias: Any, cos: Any, sin: Any, half: Any, factor: Any,
    into: Any,
) -> Any:  # fmt: skip
    """into (2 half, bfloat16) = (numbers * (row_scale * scales) + bias), turned, * factor; given by addresses.

    Arguments: numbers (2 half), the row's scale, scales and bias (2 half each), cos and sin (half each), half (a
    multiple of 16), the factor, and where to. Numbers are float32.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        numbers, row_scale, scales, bias, cos, sin, half, factor, into = arguments
        b = builder
        scale, times = spread(b, row_scale, LANES), spread(b, factor, LANES)
        behind = b.mul(half, ir.Constant(_INDEX, 4))

        def turned(start: Any, _carried: Any) -> tuple[Any, ...]:
            near_at = b.mul(start, ir.Constant(_INDEX, 4))
            far_at = b.add(near_at, behind)

            def scaled(at: Any) -> Any:
                own = b.fmul(scale, loaded(b, scales, at, LANES))
                return b.fadd(b.fmul(loaded(b, numbers, at, LANES), own), loaded(b, bias, at, LANES))

            near, far = scaled(near_at), scaled(far_at)
            cosines, sines = loaded(b, cos, near_at, LANES), loaded(b, sin, near_at, LANES)
            turned_near = b.fsub(b.fmul(near, cosines), b.fmul(far, sines))
            turned_far = b.fadd(b.fmul(far, cosines), b.fmul(near, sines))
            for at, numbers_there in ((near_at, turned_near), (far_at, turned_far)):
                halves, _ = narrow(b, b.fmul(numbers_there, times))
                place = b.add(into, b.lshr(at, ir.Constant(_INDEX, 1)))
                b.store(halves, b.inttoptr(place, halves.type.as_pointer()), align=2)
            return ()

        repeat(b, half, LANES, turned)
        return context.get_dummy_value()

    places = [types.intp] * 4
    return types.void(types.intp, types.float32, *places, types.intp, types.float32, types.intp), generate


turn_head: Any = intrinsic(_turn_head)


@compiled
def _turned_one_by_one(scaled, row, start, norm, turned, factor, buffer, target):  # type: ignore[no-untyped-def]
    """`turn_heads` for one head (D,) of whatever size, normed where the model does so, number by number."""
    product, row_scales, column_scales, bias = scaled
    eps, cos, sin, positions = turned
    half, scale, position = target.shape[0] // 2, row_scales[row], positions[row]
    numbers, scales, biases = product[row, start:], column_scales[start:], bias[start:]
    for j in range(buffer.shape[0]):
        buffer[j] = numbers[j] * (scale * scales[j]) + biases[j]
    if norm.shape[0]:
        size = np.float32(1.0) / math.sqrt(mean_square(buffer) + eps)
        for j in range(buffer.shape[0]):
            buffer[j] = buffer[j] * size * norm[j]
    near, far, cosines, sines = buffer[:half], buffer[half:], cos[position], sin[position]
    for j in range(half):
        a, b = near[j], far[j]
        target[j] = narrowed((a * cosines[j] - b * sines[j]) * factor)
        target[half + j] = narrowed((b * cosines[j] + a * sines[j]) * factor)


@compiled
def turn_heads(scaled, row, start, norm, turned, factor, buffer, targets):  # type: ignore[no-untyped-def]
    """Heads of one row, from column `start` on: scaled, normed where the model does so, turned, times `factor`.

    `scaled`: a product (T, N), its scales (T,) and (N,), and a bias (N,); `norm` (D,), or (0,) where there is none;
    `turned`: eps, the rotary cos and sin (positions, D / 2), and positions (T,). `buffer` (D,) is written to; `targets`
    is (heads, D), bfloat16 in the bits of uint16.
    """
    head_dim = targets.shape[1]
    if head_dim // 2 % LANES or norm.shape[0]:
        for k in range(targets.shape[0]):
            _turned_one_by_one(scaled, row, start + k * head_dim, norm, turned, factor, buffer, targets[k])
        return
    product, row_scales, column_scales, bias = scaled
    _, cos, sin, positions = turned
    numbers_at, scale = product.ctypes.data + row * product.strides[0], row_scales[row]
    cos_at = cos.ctypes.data + positions[row] * cos.strides[0]
    sin_at = sin.ctypes.data + positions[row] * sin.strides[0]
    for k in range(targets.shape[0]):
        at = 4 * (start + k * head_dim)
        turn_head(
            numbers_at + at, scale, column_scales.ctypes.data + at, bias.ctypes.data + at, cos_at, sin_at,
            head_dim // 2, factor, targets.ctypes.data + k * targets.strides[0],
        )  # fmt: skip
