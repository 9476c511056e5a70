"""Weighted sums in registers: the right sums, in one order whatever is summed beside them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.weighted import FOLDED, MOST, TILE, add_weighted, largest, squares


@compiled
def add(weights, rows, out, steps):  # type: ignore[no-untyped-def]
    add_weighted(
        weights.shape[0], weights.ctypes.data, weights.strides[0], rows.ctypes.data, rows.strides[0], steps,
        out.ctypes.data, out.strides[0],
    )  # fmt: skip


@compiled
def fold(values):  # type: ignore[no-untyped-def]
    at, count = values.ctypes.data, values.shape[0]
    return largest(at, count), squares(at, count)


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def halves(*shape: int) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """bfloat16 in the bits of uint16, and the numbers they are."""
    bits = (floats(*shape, seed=1).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("count", range(1, MOST + 1))
def test_sums_are_right_and_those_of_each_set_alone(count: int) -> None:
    (bits, numbers), weights = halves(40, TILE + 3), floats(count, 40)
    together = np.ones((count, TILE), np.float32)
    add(weights, bits, together, 40)
    np.testing.assert_allclose(together, 1 + weights @ numbers[:, :TILE], rtol=1e-4, atol=1e-4)
    for i in range(count):
        alone = np.ones((1, TILE), np.float32)
        add(weights[i : i + 1], bits, alone, 17)
        add(np.ascontiguousarray(weights[i : i + 1, 17:]), bits[17:], alone, 23)
        np.testing.assert_array_equal(alone[0], together[i])


def test_no_rows_add_nothing() -> None:
    out = floats(2, TILE)
    before = out.copy()
    add(floats(2, 1), halves(1, TILE)[0], out, 0)
    np.testing.assert_array_equal(out, before)


@pytest.mark.parametrize("count", [FOLDED, 5 * FOLDED])
def test_folding(count: int) -> None:
    values = floats(count) - 3
    peak, square = fold(values)
    assert peak == values.max()
    assert square == pytest.approx(float(np.square(values.astype(np.float64)).sum()), rel=1e-5)


def test_folding_nothing() -> None:
    _, square = fold(np.empty(0, np.float32))
    assert square == 0
