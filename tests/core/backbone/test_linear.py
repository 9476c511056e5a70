"""Fused products equal the modules they stand for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from medusa_core.backbone.linear import Form, fastest, fuse, plain


class Doubled(nn.Linear):
    """Not a plain linear module, as quantized ones are not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def side_by_side(modules: list[nn.Module], x: torch.Tensor) -> torch.Tensor:
    return torch.cat([module(x) for module in modules], dim=-1)


@pytest.mark.parametrize("form", [plain, fastest])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_plain_modules_become_one_product(form: Form, rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    modules: list[nn.Module] = [nn.Linear(24, out, bias=out != 8).to(dtype) for out in (16, 8, 8)]
    x = torch.randn(1, rows, 24).to(dtype)
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(fuse(modules, form)(x), side_by_side(modules, x), rtol=tolerance, atol=tolerance)


def test_modules_of_another_kind_are_called_as_they_are() -> None:
    torch.manual_seed(0)
    alone, mixed = Doubled(8, 4), [nn.Linear(8, 4), Doubled(8, 6)]
    x = torch.randn(1, 3, 8)
    assert fuse([alone], plain) is alone
    torch.testing.assert_close(fuse(mixed, plain)(x), side_by_side([*mixed], x))


@pytest.mark.parametrize("form", [plain, fastest])
def test_a_product_takes_any_leading_shape(form: Form) -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(6, 4), torch.randn(6), torch.randn(2, 3, 5, 4)
    torch.testing.assert_close(form(weight, bias)(x), x @ weight.T + bias, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(form(weight, None)(x[0, 0, 0]), weight @ x[0, 0, 0], rtol=1e-5, atol=1e-5)
