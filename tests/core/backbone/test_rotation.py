"""Hadamard rotations: the product stays as it is, an outlier is spread over its block."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.kernels import turn
from medusa_core.backbone.rotation import block_size, rotated


@compiled
def rotate(values, ones, size):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        turn(values[i], ones, values[i], 0, values.shape[1], size)


def ones(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ones(values.shape[1], np.float32)


@pytest.mark.parametrize("inputs", [128, 576, 96, 48, 40, 4, 6, 7])
def test_products_stay_as_they_are(inputs: int) -> None:
    generator = torch.Generator().manual_seed(inputs)
    weight, rows = torch.randn(20, inputs, generator=generator), torch.randn(5, inputs, generator=generator)
    turned = rows.clone()
    rotate(turned.numpy(), ones(turned.numpy()), block_size(inputs))
    torch.testing.assert_close(turned @ rotated(weight).T, rows @ weight.T, rtol=1e-4, atol=1e-4)
    assert torch.equal(turned, rows) == (block_size(inputs) == 1)


def test_one_large_number_is_spread_over_all_of_its_block() -> None:
    values = np.zeros((1, 128), np.float32)
    values[0, 70] = 3
    rotate(values, ones(values), 64)
    assert (np.abs(values[0, 64:]) == 3).all()
    assert (values[0, :64] == 0).all()


def test_blocks_are_powers_of_two_and_their_number_even() -> None:
    assert [block_size(n) for n in (576, 1536, 4096, 896, 48, 100, 7, 1)] == [32, 64, 64, 64, 8, 2, 1, 1]
