"""Weighted sums in registers: the right sums, in one order whatever is summed beside them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from medusa_core.backbone import weighted
from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.weighted import FOLDED, MOST, TILE, add_weighted, largest, squares


def add(weights, pairs, out, steps):  # type: ignore[no-untyped-def]
    add_weighted(
        weights.shape[0], weights.ctypes.data, weights.strides[0], pairs.ctypes.data, pairs.strides[0], steps,
        out.ctypes.data, out.strides[0], pairs.ctypes.data, pairs.strides[0],
    )  # fmt: skip


@pytest.fixture(params=sorted({False, weighted.DOTS}), ids=["widened", "dots"][: 1 + weighted.DOTS])
def adder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`add` as processors with and without products of bfloat16 run it."""
    monkeypatch.setattr(weighted, "DOTS", request.param)
    return numba.njit(add)


@compiled
def fold(values):  # type: ignore[no-untyped-def]
    at, count = values.ctypes.data, values.shape[0]
    return largest(at, count), squares(at, count)


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def halves(*shape: int, seed: int = 1) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """bfloat16 in the bits of uint16, and the numbers they are."""
    bits = (floats(*shape, seed=seed).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def paired(rows: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Rows (2 N, W) two by two: (N, W, 2)."""
    return np.ascontiguousarray(rows.reshape(-1, 2, rows.shape[1]).transpose(0, 2, 1))


@pytest.mark.parametrize("count", range(1, MOST + 1))
def test_sums_are_right_and_those_of_each_set_alone(adder: Any, count: int) -> None:
    (bits, numbers), (weights, factors) = halves(40, TILE + 3), halves(count, 40, seed=2)
    pairs, together = paired(bits), np.ones((count, TILE), np.float32)
    adder(weights, pairs, together, 20)
    np.testing.assert_allclose(together, 1 + factors @ numbers[:, :TILE], rtol=1e-4, atol=1e-4)
    for i in range(count):
        alone = np.ones((1, TILE), np.float32)
        adder(weights[i : i + 1], pairs, alone, 9)
        adder(np.ascontiguousarray(weights[i : i + 1, 18:]), pairs[9:], alone, 11)
        np.testing.assert_array_equal(alone[0], together[i])


def test_no_rows_add_nothing(adder: Any) -> None:
    out = floats(2, TILE)
    before = out.copy()
    adder(halves(2, 2)[0], paired(halves(2, TILE)[0]), out, 0)
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
