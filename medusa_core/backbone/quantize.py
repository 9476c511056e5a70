"""int8 weights, one scale an output channel, made so that little is lost when their rows are rounded too.

First SmoothQuant (Xiao et al. 2022, equation 4): where some input channels are far larger than the rest, part of their
size is moved into the weights. Then both sides are rotated in blocks (`rotation.py`), which spreads what outliers are
left. Both leave the product as it is.
Shapes: T rows, K inputs, N outputs. Knows nothing of models or layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from medusa_core.backbone import products
from medusa_core.backbone.int8_pass import Floats, project
from medusa_core.backbone.rotation import rotated

_ROWS = 4096  # of a weight that are in 32 bit at once
_SMOOTHING = 0.5  # alpha: how much of the difficulty moves from the rows into the weights


@dataclass(frozen=True, slots=True)
class Quantized:
    """A weight (N, K) in int8. An output is scales * (the sum of integers)."""

    values: NDArray[np.int8]  # (N, K)
    scales: Floats  # (N,)
    factors: Floats  # (K,): what inputs are multiplied by before they are rotated and rounded


def quantized(weight: torch.Tensor, largest_inputs: torch.Tensor | None = None) -> Quantized:
    """Quantize a weight (N, K); with the sizes of its inputs (K,), smoothed for them.

    Some rows at a time: an output head in 32 bit would be larger than all layers in int8.
    """
    weight = weight.detach()
    outputs, inputs = weight.shape
    divisors = torch.ones(inputs) if largest_inputs is None else smoothing(largest_inputs, weight)
    values, scales = torch.empty(outputs, inputs, dtype=torch.int8), torch.empty(outputs)
    for first in range(0, outputs, _ROWS):
        some = slice(first, first + _ROWS)
        turned = rotated(weight[some].float() * divisors)
        scales[some] = turned.abs().amax(1).clamp_min(1e-8) / 127
        values[some] = (turned / scales[some, None]).round_().to(torch.int8)
    return Quantized(values.numpy(), scales.numpy(), np.reciprocal(divisors.numpy()))


def smoothing(largest_inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Factors (K,): inputs are divided by them, weight columns multiplied. `largest_inputs` (K,): their maxima."""
    inputs, columns = largest_inputs.float().clamp_min(1e-5), weight.abs().amax(0).float().clamp_min(1e-5)
    return (inputs**_SMOOTHING / columns ** (1 - _SMOOTHING)).clamp_min(1e-5)


class Linears(NamedTuple):
    """S layers of one size as kernels read them, B outputs a tile."""

    packed: NDArray[np.int8]  # (S, N / B, K / 4, B, 4)
    corrections: NDArray[np.int32]  # (S, N)
    scales: Floats  # (S, N)
    factors: Floats  # (S, K)
    biases: Floats  # (S, N), or (S, 0)


def no_linears() -> Linears:
    """S = 0."""
    floats = np.empty((0, 0), np.float32)
    packed = products.aligned((0, 1, 1, products.HERE.block, products.GROUP), np.int8)
    return Linears(packed, np.empty((0, 0), np.int32), floats, floats, floats)


class Int8Linears:
    """S linear layers of one size in int8, side by side, each with rows of its own. K must be a multiple of 4."""

    def __init__(
        self,
        weights: Sequence[torch.Tensor] | torch.Tensor,
        biases: torch.Tensor | None = None,
        largest_inputs: torch.Tensor | None = None,
    ) -> None:
        """`weights` (S, N, K), `biases` (S, N); `largest_inputs` (K,) of all."""
        made = [quantized(weight, largest_inputs) for weight in weights]
        self.outputs, self.inputs = made[0].values.shape
        self._width, block = products.padded(self.outputs), products.HERE.block
        packed = products.aligned(
            (len(made), self._width // block, self.inputs // products.GROUP, block, products.GROUP), np.int8
        )
        none = np.empty((len(made), 0), np.float32)
        self.layers = Linears(
            packed,
            np.stack([products.pack(one.values, into) for one, into in zip(made, packed, strict=True)]),
            np.stack([one.scales for one in made]),
            np.stack([one.factors for one in made]),
            none if biases is None else biases.detach().float().contiguous().numpy(),
        )

    def __call__(self, x: torch.Tensor, first: int = 0) -> torch.Tensor:
        """float32 x (S, T, K) -> (S, T, N); of more layers than x has those from `first` on."""
        out = torch.empty(*x.shape[:2], self._width)
        rows, scales = np.empty(tuple(x.shape), np.uint8), np.empty(tuple(x.shape[:2]), np.float32)
        layers = (array[first : first + len(x)] for array in self.layers)
        project(x.contiguous().numpy(), *layers, rows, scales, out.numpy(), torch.get_num_threads())
        return out[..., : self.outputs]


class Int8Linear:
    """A linear layer in int8 by itself. K must be a multiple of 4."""

    def __init__(
        self, weight: torch.Tensor, largest_inputs: torch.Tensor | None = None, bias: torch.Tensor | None = None
    ) -> None:
        """`weight` (N, K), `bias` (N,), `largest_inputs` (K,)."""
        self._one = Int8Linears([weight], None if bias is None else bias[None], largest_inputs)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """float32 x (T, K) -> (T, N)."""
        return self._one(x[None])[0]
