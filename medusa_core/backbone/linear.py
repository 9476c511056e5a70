"""The matrix products of a pass: several linear modules over one input, run as one where they are plain.

Plain fp32 weights on the CPU can be packed once for oneDNN, which reads them about twice as fast as the default BLAS
path with few rows; but it sums in another order. Quantized modules (bitsandbytes) are called as they are.
Knows nothing of models or layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

Product = Callable[[torch.Tensor], torch.Tensor]
Form = Callable[[torch.Tensor, torch.Tensor | None], Product]


def fuse(modules: Sequence[nn.Module], form: Form) -> Product:
    """One product (..., in) -> (..., sum of outs) that equals the modules' outputs side by side.

    `form`, `plain` or `fastest`, makes it where the modules are plain ones.
    """
    if all(type(module) is nn.Linear for module in modules):
        linears = [module for module in modules if isinstance(module, nn.Linear)]
        weight = torch.cat([linear.weight.detach() for linear in linears]) if len(linears) > 1 else linears[0].weight
        return form(weight.detach(), _joined_bias(linears))
    if len(modules) == 1:
        return modules[0]
    return _SideBySide(modules)


def plain(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product:
    """The product x -> x @ weight.T + bias as transformers computes it, to the last bit."""
    return _Plain(weight, bias)


def fastest(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product:
    """The product x -> x @ weight.T + bias, in the fastest form for the weight's device and dtype."""
    packable = weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return _Packed(weight, bias) if packable else _Plain(weight, bias)


def _joined_bias(linears: Sequence[nn.Linear]) -> torch.Tensor | None:
    if all(linear.bias is None for linear in linears):
        return None
    return torch.cat(
        [
            linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias.detach()
            for linear in linears
        ]
    )


class _Plain:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class _Packed:
    """An fp32 weight in oneDNN's blocked layout."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        # 16 rows is the batch the layout is chosen for: about a tree's worth; other numbers of rows work as well.
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 16)
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return y


class _SideBySide:
    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = list(modules)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([module(x) for module in self.modules], dim=-1)
