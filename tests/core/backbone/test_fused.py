"""What is done to a row in registers, against its definition: every size of block, and columns in the middle."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
import torch
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch.nn import functional as F

from medusa_core.backbone import fused
from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fused import LANES, exp_narrow, exp_row, gate_row, round_row, turn_row
from medusa_core.backbone.rotation import LARGEST
from medusa_core.backbone.turning import narrowed
from medusa_core.backbone.weighted import DOTS, FOLDED

SIZES = [LARGEST >> shift for shift in range(LARGEST.bit_length())]


@compiled
def turn(values, factors, into, first, last, size):  # type: ignore[no-untyped-def]
    at = 4 * first
    return turn_row(values.ctypes.data + at, factors.ctypes.data + at, into.ctypes.data + at, last - first, size)


@compiled
def gate(gates, ups, row_scale, gate_scales, up_scales, factors, into, size):  # type: ignore[no-untyped-def]
    return gate_row(
        gates.ctypes.data, ups.ctypes.data, row_scale, gate_scales.ctypes.data, up_scales.ctypes.data,
        factors.ctypes.data, into.ctypes.data, into.shape[0], size,
    )  # fmt: skip


@compiled
def rounded(values, factor, into, count):  # type: ignore[no-untyped-def]
    round_row(values.ctypes.data, factor, into.ctypes.data, count)


@compiled
def exp(values, peak):  # type: ignore[no-untyped-def]
    return exp_row(values.ctypes.data, values.shape[0], peak)


@compiled
def narrow(values, peak, into):  # type: ignore[no-untyped-def]
    return exp_narrow(values.ctypes.data, values.shape[0], peak, into.ctypes.data)


def narrowed_all(values, into):  # type: ignore[no-untyped-def]
    for start in range(0, values.shape[0], LANES):
        narrow_vector(values.ctypes.data + 4 * start, into.ctypes.data + 2 * start)


def _narrow_vector(_context: Any, values: Any, into: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        halves, _ = fused.narrow(builder, fused.loaded(builder, arguments[0], ir.Constant(ir.IntType(64), 0), LANES))
        builder.store(halves, builder.inttoptr(arguments[1], halves.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


narrow_vector: Any = intrinsic(_narrow_vector)


def floats(count: int, seed: int, scale: float = 1.0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(count) * scale).astype(np.float32)


def hadamard(values: NDArray[np.float32], size: int) -> NDArray[np.float64]:
    """By definition: signs by the common bits of two indices."""
    signs = np.array([[(-1.0) ** (i & j).bit_count() for i in range(size)] for j in range(size)])
    return (values.astype(np.float64).reshape(-1, size) @ signs).reshape(-1)


@pytest.mark.parametrize("size", SIZES)
def test_scaling_and_rotating_columns_in_the_middle(size: int) -> None:
    values, factors, into = floats(6 * size, 0, 5), floats(6 * size, 1), np.full(6 * size, 7, np.float32)
    first, last = size, 4 * size
    largest = turn(values, factors, into, first, last, size)
    expected = hadamard((values * factors)[first:last], size)
    np.testing.assert_allclose(into[first:last], expected, rtol=1e-4, atol=1e-4)
    assert largest == np.abs(into[first:last]).max()
    assert (into[:first] == 7).all()
    assert (into[last:] == 7).all()


def test_no_columns_have_no_size() -> None:
    values = floats(64, 0)
    into = values.copy()
    assert turn(values, values, into, 32, 32, 32) == 0
    assert (into == values).all()


@pytest.mark.parametrize("size", SIZES)
def test_gating(size: int) -> None:
    count = 3 * size
    gates, ups = np.round(floats(count, 2, 900)), np.round(floats(count, 3, 900))
    gates[0], gates[-1] = -1e5, 1e5
    gate_scales, up_scales, factors = np.abs(floats(count, 4)), np.abs(floats(count, 5)), floats(count, 6)
    into, scale = np.empty(count, np.float32), np.float32(0.01)
    largest = gate(gates, ups, scale, gate_scales, up_scales, factors, into, size)
    wanted = F.silu(torch.from_numpy(gates * scale * gate_scales)) * torch.from_numpy(ups * scale * up_scales * factors)
    expected = hadamard(wanted.numpy(), size)
    np.testing.assert_allclose(into, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert largest == np.abs(into).max()


def test_rounding_to_the_nearest_byte() -> None:
    values = np.linspace(-2, 2, 1600, dtype=np.float32)
    into, factor = np.full(1600, 3, np.uint8), np.float32(63.5)
    rounded(values, factor, into, 1600 - LANES)
    exact = np.floor(values * factor + np.float32(128.5)).astype(np.uint8)
    assert (into[:-LANES] == exact[:-LANES]).all()
    assert (into[-LANES:] == 3).all(), "no further than told"
    assert (into.min(), exact.max()) == (1, 255)


def test_exp_is_close_from_the_smallest_to_the_largest() -> None:
    values = np.linspace(-80, 80, 992, dtype=np.float32)
    for peak in (0.0, 3.5):
        found = values.copy()
        summed = exp(found, np.float32(peak))
        exact = np.exp(values.astype(np.float64) - peak)
        np.testing.assert_allclose(found, exact, rtol=2e-4)
        near = np.abs(values - peak) < 10
        np.testing.assert_allclose(found[near], exact[near], rtol=2e-5)
        np.testing.assert_allclose(summed, found.sum(dtype=np.float64), rtol=1e-5)
    assert exp(values[:0], np.float32(0)) == 0


@pytest.mark.parametrize("number", [87.0, 88.0, 89.0, 100.0, 177.446, 178.0, 300.0, 1e4, 2e4, 3e38])
def test_exp_is_held_between_the_smallest_and_the_largest(number: float) -> None:
    far = np.full(FOLDED, -number, np.float32)
    far[0] = number
    summed, most = exp(far, np.float32(0)), math.exp(min(number, 126 * math.log(2)))
    np.testing.assert_allclose([summed, far[0]], most, rtol=2e-4)
    np.testing.assert_allclose(far[1:], 1 / most, rtol=2e-4)


@pytest.mark.parametrize("dots", sorted({False, DOTS}))
def test_narrowing_is_to_the_nearest_and_of_two_as_near_to_the_even_one(
    dots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "DOTS", dots)
    high = np.arange(0x3F80, 0x3F84, dtype=np.uint32)
    low = np.array([0x0000, 0x7FFF, 0x8000, 0x8001], np.uint32)
    bits = np.concatenate([(high[:, None] << 16 | low).ravel(), (high[:, None] << 16 | low).ravel() | 0x80000000])
    numbers = np.concatenate([bits.view(np.float32), np.array([0.0, -0.0, 1e38, -3.38e38] * 4, np.float32)])
    into = np.empty(len(numbers), np.uint16)
    numba.njit(narrowed_all)(numbers, into)
    assert (into == torch.from_numpy(numbers).bfloat16().view(torch.uint16).numpy()).all()
    assert [narrowed(number) for number in numbers] == into.tolist()


def test_exponentials_narrowed_are_the_nearest_and_their_sum_is_theirs() -> None:
    values, into = floats(4 * FOLDED, 4, 3), np.zeros(4 * FOLDED, np.uint16)
    exact, before = values.copy(), values.copy()
    exp(exact, np.float32(1))
    summed = narrow(values, np.float32(1), into)
    expected = torch.from_numpy(exact).bfloat16()
    assert torch.equal(torch.from_numpy(into.view(np.int16)).view(torch.bfloat16), expected)
    assert summed == pytest.approx(float(expected.double().sum()), rel=1e-5)
    np.testing.assert_array_equal(values, before)
    assert narrow(values[:0], np.float32(0), into) == 0
