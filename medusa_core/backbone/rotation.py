"""Hadamard rotations of blocks of a row, in registers: they spread a few large numbers over all of their block.

A rotation of both sides leaves a product as it is, and rows without outliers lose less when they are rounded
(Ashkboos et al. 2024, "QuaRot"; here block by block, so that nothing of the model but its int8 weights is rotated).
Rows are rotated without the factor 1 / sqrt(size), which their scales take up. Knows nothing of models.
"""

from __future__ import annotations

from typing import Any

import torch
from llvmlite import ir

from medusa_core.backbone.compiling import compiled

LARGEST = 64


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


def butterflies(builder: Any, vectors: list[Any], lanes: int) -> list[Any]:
    """The Hadamard transform of the numbers of `vectors`, one after the other; only sums and differences."""
    kind = ir.VectorType(ir.FloatType(), lanes)
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
