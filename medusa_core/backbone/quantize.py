"""int8 weights, one scale an output channel, and their exact integer products with uint8 rows.

SmoothQuant (Xiao et al. 2022, equation 4): where some input channels are far larger than the rest, part of their size
is moved into the weights, which leaves the product as it is and the rows easier to round.
Shapes: T rows, K inputs, N outputs. Knows nothing of models or layers.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ZERO_POINT = 128  # of the uint8 rows
_SMOOTHING = 0.5  # alpha: how much of the difficulty moves from the rows into the weights


class Int8Linear:
    """A weight (N, K) in int8, packed for oneDNN. `scales` (N,): what one unit of an output counts."""

    def __init__(self, weight: torch.Tensor) -> None:
        largest = weight.abs().amax(1).clamp_min(1e-8) / 127
        self.scales: Floats = largest.numpy()
        self._packed, self._ones, self._zeros = _pack((weight / largest[:, None]).round_().to(torch.int8))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """uint8 rows (T, K) -> sums of integer products (T, N), as float32."""
        return _product(rows, self._packed, self._ones, self._zeros)


def smoothing(largest_inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Factors (K,): inputs are divided by them, weight columns multiplied. `largest_inputs` (K,): their maxima."""
    inputs, columns = largest_inputs.float().clamp_min(1e-5), weight.abs().amax(0).clamp_min(1e-5)
    return (inputs**_SMOOTHING / columns ** (1 - _SMOOTHING)).clamp_min(1e-5)


def products_are_exact() -> bool:
    """Whether this processor's integer products hold at the extremes.

    Without VNNI instructions pairs of products are added in 16 bits, and what does not fit is cut off.
    """
    inputs = 512
    signs = torch.where(torch.arange(32)[:, None] * torch.arange(inputs)[None] % 3 == 0, 1, -1)
    signs[0], signs[1] = 1, -1
    weight = (127 * signs).to(torch.int8)
    for rows in (1, 4, 32):
        q = torch.full((rows, inputs), 255, dtype=torch.uint8)
        q[rows // 2] = 1
        expected = (q.int() - ZERO_POINT) @ weight.int().T
        try:
            found = _product(q, *_pack(weight))
        except (RuntimeError, AttributeError):  # a PyTorch without oneDNN has no such product
            return False
        if not torch.equal(found, expected.float()):
            return False
    return True


def _pack(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    outputs, inputs = weight.shape
    # 8 rows is the batch that the layout is chosen for; other numbers of rows work as well.
    packed = torch.ops.onednn.qlinear_prepack(weight.contiguous(), [8, inputs])
    return packed, torch.ones(outputs), torch.zeros(outputs, dtype=torch.int32)


def _product(rows: torch.Tensor, packed: torch.Tensor, ones: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    # Unit scales: what comes out are the integers themselves.
    product: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, ZERO_POINT, packed, ones, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product
