"""Each fused kernel against plain PyTorch, and the same to the last bit however many threads share the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from medusa_core.backbone import kernels
from medusa_core.backbone.rotation import block_size

EPS = np.float32(1e-5)
ROWS, WIDTH = 5, 72  # not a multiple of any register; rotated in blocks of 8


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def turned(rows: torch.Tensor) -> torch.Tensor:
    """The Hadamard transform of every block, from its definition: signs by the common bits of two indices."""
    size = block_size(rows.shape[-1])
    signs = torch.tensor([[(-1.0) ** (i & j).bit_count() for i in range(size)] for j in range(size)])
    return (rows.unflatten(-1, (-1, size)) @ signs).flatten(-2)


def assert_quantized(rows: NDArray[np.uint8], scales: NDArray[np.float32], expected: torch.Tensor) -> None:
    """Every rotated value within half a step of its row, and the largest of each row at the end of the range."""
    expected = turned(expected)
    found = torch.from_numpy((rows.astype(np.float32) - 128) * scales[:, None])
    assert ((found - expected).abs() <= torch.from_numpy(scales)[:, None] * 0.501).all()
    assert (np.abs(rows.astype(int) - 128).max(1) == 127).all()
    assert rows.min() >= 1


def test_quantize() -> None:
    x, factors = floats(ROWS, WIDTH, scale=30), floats(WIDTH, seed=1)
    rows, scales = np.empty((ROWS, WIDTH), np.uint8), np.empty(ROWS, np.float32)
    kernels.quantize(x, factors, rows, scales, 0, 1)
    assert_quantized(rows, scales, torch.from_numpy(x * factors))


def test_a_row_of_zeros_stays_zero() -> None:
    rows, scales = np.empty((1, WIDTH), np.uint8), np.empty(1, np.float32)
    kernels.quantize(np.zeros((1, WIDTH), np.float32), np.ones(WIDTH, np.float32), rows, scales, 0, 1)
    assert (rows == 128).all()
    assert np.isfinite(scales).all()


def test_norm_quantize() -> None:
    x, weight = floats(ROWS, WIDTH, scale=7), floats(WIDTH, seed=1)
    rows, scales = np.empty((ROWS, WIDTH), np.uint8), np.empty(ROWS, np.float32)
    kernels.norm_quantize(x, weight, EPS, rows, scales, 0, 1)
    expected = F.rms_norm(torch.from_numpy(x), (WIDTH,), torch.from_numpy(weight), float(EPS))
    assert_quantized(rows, scales, expected)


def product() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Integers as they come from a product, their scales by row and by column."""
    return np.round(floats(ROWS, WIDTH, seed=2, scale=500)), np.abs(floats(ROWS, seed=3)), np.abs(floats(WIDTH, seed=4))


def test_add_norm_quantize_and_add_norm() -> None:
    weight, (y, row_scales, column_scales) = floats(WIDTH, seed=1), product()
    before = floats(ROWS, WIDTH)
    total = torch.from_numpy(before + y * row_scales[:, None] * column_scales)
    expected = F.rms_norm(total, (WIDTH,), torch.from_numpy(weight), float(EPS))
    x, rows, scales = before.copy(), np.empty((ROWS, WIDTH), np.uint8), np.empty(ROWS, np.float32)
    kernels.add_norm_quantize(x, y, row_scales, column_scales, weight, EPS, rows, scales, 0, 1)
    torch.testing.assert_close(torch.from_numpy(x), total, rtol=1e-6, atol=1e-4)
    assert_quantized(rows, scales, expected)
    x, out = before.copy(), np.empty((ROWS, WIDTH), np.float32)
    kernels.add_norm(x, y, row_scales, column_scales, weight, EPS, out, 0, 1)
    torch.testing.assert_close(torch.from_numpy(out), expected, rtol=1e-5, atol=1e-5)


def test_gate_quantize() -> None:
    y, row_scales, column_scales = product()
    row_scales *= 0.01
    factors = floats(WIDTH // 2, seed=5)
    rows, scales = np.empty((ROWS, WIDTH // 2), np.uint8), np.empty(ROWS, np.float32)
    kernels.gate_quantize(y, row_scales, column_scales, factors, rows, scales, 0, 1)
    gate, up = torch.from_numpy(y * row_scales[:, None] * column_scales).chunk(2, dim=-1)
    assert_quantized(rows, scales, F.silu(gate) * up * torch.from_numpy(factors))


@pytest.mark.parametrize("biased", [False, True])
def test_scale(biased: bool) -> None:
    y, row_scales, column_scales = product()
    bias = floats(WIDTH, seed=6) if biased else np.empty(0, np.float32)
    expected = y * row_scales[:, None] * column_scales + (bias if biased else 0)
    for worker in range(3):
        kernels.scale(y, row_scales, column_scales, bias, worker, 3)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def test_exp_is_close_from_the_smallest_to_the_largest() -> None:
    values = np.linspace(-80, 80, 1003, dtype=np.float32)
    found, bits = values.copy(), np.empty(1003, np.int32)
    kernels.exp_row(found, bits, bits.view(np.float32))
    exact = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=2e-4)
    near = np.abs(values) < 10
    np.testing.assert_allclose(found[near], exact[near], rtol=2e-5)
    far = np.array([-1e30, 1e4], np.float32)
    kernels.exp_row(far, bits[:2], bits.view(np.float32)[:2])
    assert far[0] < 1e-30
    assert np.isfinite(far[1])


def shared(kernel: Callable[..., None], workers: int, *arguments: Any) -> list[Any]:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    for worker in range(workers):
        kernel(*copies, worker, workers)
    return copies


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_threads_change_no_bit(workers: int) -> None:
    y, row_scales, column_scales = product()
    x, weight, none = floats(ROWS, WIDTH), floats(WIDTH, seed=1), np.empty(0, np.float32)
    rows, scales, half = np.zeros((ROWS, WIDTH), np.uint8), np.zeros(ROWS, np.float32), WIDTH // 2
    calls = [
        (kernels.quantize, x, weight, rows, scales),
        (kernels.norm_quantize, x, weight, EPS, rows, scales),
        (kernels.add_norm_quantize, x, y, row_scales, column_scales, weight, EPS, rows, scales),
        (kernels.add_norm, x, y, row_scales, column_scales, weight, EPS, x),
        (kernels.gate_quantize, y, row_scales, column_scales, weight[:half].copy(), rows[:, :half].copy(), scales),
        (kernels.scale, y, row_scales, column_scales, none),
    ]
    for kernel, *arguments in calls:
        alone, together = shared(kernel, 1, *arguments), shared(kernel, workers, *arguments)
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b)
