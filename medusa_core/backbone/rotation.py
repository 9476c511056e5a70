"""Hadamard rotations of blocks of a row, in registers: they spread a few large numbers over all of their block.

A rotation of both sides leaves a product as it is, and rows without outliers lose less when they are rounded
(Ashkboos et al. 2024, "QuaRot"; here block by block, so that nothing of the model but its int8 weights is rotated).
Rows are rotated without the factor 1 / sqrt(size), which their scales take up. Knows nothing of models.
"""

from __future__ import annotations

from typing import Any

import torch
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from medusa_core.backbone.compiling import compiled

LARGEST = 64
_INDEX, _FLOAT = ir.IntType(64), ir.FloatType()
_LANES = 16


@compiled
def block_size(inputs):  # type: ignore[no-untyped-def]
    """Of the blocks of `inputs` numbers: a power of two up to 64, so that there is an even number of them, or 1."""
    return max(1, min(LARGEST, (inputs & -inputs) // 2))


def rotated(weight: torch.Tensor) -> torch.Tensor:
    """weight (N, K) whose products with rotated rows (K,), not divided by anything, are those of before."""
    size: int = block_size(weight.shape[1])
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    turned: torch.Tensor = weight.reshape(-1, size) @ matrix / size
    return turned.reshape(weight.shape)


def _butterflies(builder: Any, vectors: list[Any], lanes: int) -> list[Any]:
    """The Hadamard transform of the numbers of `vectors`, one after the other; only sums and differences."""
    kind = ir.VectorType(_FLOAT, lanes)
    step = 1
    while step < lanes:
        order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [lane ^ step for lane in range(lanes)])
        signs = ir.Constant(kind, [-1.0 if lane & step else 1.0 for lane in range(lanes)])
        swapped = [builder.shuffle_vector(v, v, order) for v in vectors]
        vectors = [builder.fadd(builder.fmul(v, signs), s) for v, s in zip(vectors, swapped, strict=True)]
        step *= 2
    step = 1
    while step < len(vectors):
        for first in range(0, len(vectors), 2 * step):
            for i in range(first, first + step):
                a, b = vectors[i], vectors[i + step]
                vectors[i], vectors[i + step] = builder.fadd(a, b), builder.fsub(a, b)
        step *= 2
    return vectors


def _rotate_block(builder: Any, address: Any, size: int) -> None:
    lanes = min(size, _LANES)
    kind = ir.VectorType(_FLOAT, lanes)
    places = [
        builder.inttoptr(builder.add(address, ir.Constant(_INDEX, 4 * start)), kind.as_pointer())
        for start in range(0, size, lanes)
    ]
    vectors = _butterflies(builder, [builder.load(place, align=4) for place in places], lanes)
    for place, vector in zip(places, vectors, strict=True):
        builder.store(vector, place, align=4)


def _rotate(_context: Any, address: Any, size: Any) -> Any:
    """Rotate the `size` float32 at an address: 64, 32, 16, 8, 4 or 2; of other sizes nothing happens."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        end = builder.append_basic_block("rotated")
        switch = builder.switch(values[1], end)
        size = LARGEST
        while size > 1:
            block = builder.append_basic_block(f"block_{size}")
            switch.add_case(ir.Constant(_INDEX, size), block)
            builder.position_at_end(block)
            _rotate_block(builder, values[0], size)
            builder.branch(end)
            size //= 2
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


rotate_block: Any = intrinsic(_rotate)
