"""Products of uint8 rows with int8 weights: exact integers, on every kind of processor."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest

from medusa_core.backbone import products
from medusa_core.backbone.products import ANY, HERE, NARROW, WIDE, Instructions

# On another processor WIDE and NARROW would be unknown instructions. Whoever has the wide ones has the narrow ones.
KINDS = {WIDE: (ANY, NARROW, WIDE), NARROW: (ANY, NARROW), ANY: (ANY,)}[HERE]


@functools.cache
def multiplier(kind: Instructions) -> Any:
    """`multiply` with the constants of another processor."""
    constants = {
        "_tile_here": products.tile(kind),
        "_MOST_ROWS": kind.most_rows,
        "_FEW_ROWS": kind.few_rows,
        "_BLOCK_BYTES": 4 * kind.block,
    }
    return numba.njit(FunctionType(products.multiply.py_func.__code__, {**vars(products), **constants}))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("outputs", "inputs"), [(100, 16), (64, 576), (1, 4), (40, 4096)])
def test_they_are_exact_at_the_extremes_for_any_number_of_rows_and_workers(
    kind: Instructions, outputs: int, inputs: int
) -> None:
    rng = np.random.default_rng(0)
    weight = rng.choice([-127, -1, 0, 1, 127], (outputs, inputs)).astype(np.int8)
    weight[0], width = 127, products.padded(outputs, kind)
    packed = products.aligned((width // kind.block, inputs // 4, kind.block, 4), np.int8)
    corrections = products.pack(weight, packed, kind)
    for count in (*range(1, 2 * kind.most_rows + 2), 65):
        rows = rng.integers(0, 256, (count, inputs)).astype(np.uint8)
        rows[count // 2] = 255
        expected = (rows.astype(np.int64) - 128) @ weight.T.astype(np.int64)
        out = np.full((count, width), np.nan, np.float32)
        blocks = len(packed)
        for share in range(3):
            multiplier(kind)(rows, packed, corrections, out, blocks * share // 3, blocks * (share + 1) // 3, 0)
        np.testing.assert_array_equal(out[:, :outputs], expected.astype(np.float32))
        assert (out[:, outputs:] == 0).all()


def test_weights_start_where_registers_can_be_loaded_from() -> None:
    assert all(products.aligned((3, n), np.float32).ctypes.data % 64 == 0 for n in range(1, 40))
