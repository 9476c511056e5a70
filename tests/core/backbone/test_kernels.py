"""Each fused kernel against plain PyTorch, and however many workers share its columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from medusa_core.backbone import kernels
from medusa_core.backbone.rotation import block_size

EPS = np.float32(1e-5)
ROWS, WIDTH = 5, 72  # not a multiple of any register; rotated in blocks of 4


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


def quantized_rows(width: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    return np.zeros((ROWS, width), np.uint8), np.zeros(ROWS, np.float32)


def stages(width: int, workers: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """What the first half of a norm leaves to the second: turned rows, sizes by worker, sums by block."""
    blocks = width // block_size(width)
    return (
        np.zeros((ROWS, width), np.float32),
        np.full((workers, ROWS + 2), 1e9, np.float32),  # of an earlier pass
        np.zeros((blocks, ROWS + 2), np.float32),
    )


def shares(width: int, workers: int) -> list[tuple[int, int]]:
    return [kernels.own_columns(width, worker, workers) for worker in range(workers)]


def test_every_column_has_one_worker() -> None:
    for width in (576, 1536, 64, 40, 100, 7):
        for workers in (1, 2, 3, 8):
            owned = [column for first, last in shares(width, workers) for column in range(first, last)]
            assert owned == list(range(width))
    assert shares(576, 2) == [(0, 288), (288, 576)]
    assert shares(1536, 2) == [(0, 768), (768, 1536)]


@pytest.mark.parametrize("workers", [1, 3])
def test_quantize(workers: int) -> None:
    x, factors = floats(ROWS, WIDTH, scale=30), floats(WIDTH, seed=1)
    rows, scales = quantized_rows(WIDTH)
    for worker in range(workers):
        kernels.quantize(x, factors, rows, scales, worker, workers)
    assert_quantized(rows, scales, torch.from_numpy(x * factors))


def test_a_row_of_zeros_stays_zero() -> None:
    rows, scales = np.empty((1, WIDTH), np.uint8), np.empty(1, np.float32)
    kernels.quantize(np.zeros((1, WIDTH), np.float32), np.ones(WIDTH, np.float32), rows, scales, 0, 1)
    assert (rows == 128).all()
    assert np.isfinite(scales).all()


def product(width: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Integers as they come from a product, their scales by row and by column."""
    return np.round(floats(ROWS, width, seed=2, scale=500)), np.abs(floats(ROWS, seed=3)), np.abs(floats(width, seed=4))


@pytest.mark.parametrize("width", [72, 128, 576])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_adding_norm_and_quantizing(width: int, workers: int) -> None:
    weight, (y, row_scales, column_scales) = floats(width, seed=1), product(width)
    x = floats(ROWS, width)
    total = torch.from_numpy(x + y * row_scales[:, None] * column_scales)
    expected = F.rms_norm(total, (width,), torch.from_numpy(weight), float(EPS))
    (rows, scales), (turned_rows, sizes, sums), out = quantized_rows(width), stages(width, workers), np.zeros_like(x)
    for worker, (first, last) in enumerate(shares(width, workers)):
        kernels.add(x, y, row_scales, column_scales, first, last)
        kernels.norm_turn(x, weight, turned_rows, sizes, sums, first, last, worker)
    for first, last in shares(width, workers):
        kernels.norm_quantize(turned_rows, sizes, sums, EPS, rows, scales, first, last)
        kernels.norm(x, weight, sums, EPS, out, first, last)
    torch.testing.assert_close(torch.from_numpy(x), total, rtol=1e-6, atol=1e-4)
    assert_quantized(rows, scales, expected)
    torch.testing.assert_close(torch.from_numpy(out), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [36, 64, 1536])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_gate_and_quantize(width: int, workers: int) -> None:
    y, row_scales, column_scales = product(2 * width)
    row_scales *= 0.01
    factors = floats(width, seed=5)
    (rows, scales), (turned_rows, sizes, _) = quantized_rows(width), stages(width, workers)
    for worker, (first, last) in enumerate(shares(width, workers)):
        kernels.gate_turn(y, row_scales, column_scales, factors, turned_rows, sizes, first, last, worker)
    for first, last in shares(width, workers):
        kernels.quantize_turned(turned_rows, sizes, rows, scales, first, last)
    gate, up = torch.from_numpy(y * row_scales[:, None] * column_scales).chunk(2, dim=-1)
    assert_quantized(rows, scales, F.silu(gate) * up * torch.from_numpy(factors))


@pytest.mark.parametrize("biased", [False, True])
def test_scale(biased: bool) -> None:
    y, row_scales, column_scales = product(WIDTH)
    bias = floats(WIDTH, seed=6) if biased else np.empty(0, np.float32)
    expected = y * row_scales[:, None] * column_scales + (bias if biased else 0)
    for worker in range(3):
        kernels.scale(y, row_scales, column_scales, bias, worker, 3)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)
