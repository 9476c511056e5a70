"""int8 weights: exact integer products, smoothing that changes no product, and processors that cut products off."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone import quantize
from medusa_core.backbone.quantize import Int8Linear, products_are_exact, smoothing

WEIGHT = torch.randn(48, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rows", [1, 3, 16, 65])
def test_products_are_those_of_the_rounded_weights(rows: int) -> None:
    linear = Int8Linear(WEIGHT)
    scales = torch.from_numpy(linear.scales)[:, None]
    rounded = (WEIGHT / scales).round()
    assert rounded.abs().amax(1).eq(127).all()
    torch.testing.assert_close(rounded * scales, WEIGHT, rtol=0, atol=float(scales.max()) / 2 * 1.001)
    q = torch.randint(1, 256, (rows, 64), dtype=torch.uint8)
    assert torch.equal(linear(q).double(), (q.double() - 128) @ rounded.double().T)


def test_smoothing_leaves_the_product_unchanged_and_evens_the_inputs() -> None:
    inputs = torch.randn(100, 64) * torch.logspace(-2, 2, 64)
    divisors = smoothing(inputs.abs().amax(0), WEIGHT)
    smooth = inputs / divisors
    torch.testing.assert_close(smooth @ (WEIGHT * divisors).T, inputs @ WEIGHT.T, rtol=1e-4, atol=1e-3)
    before, after = inputs.abs().amax(0), smooth.abs().amax(0)
    assert after.max() / after.min() < before.max() / before.min() / 10


def test_channels_that_were_never_used_do_no_harm() -> None:
    divisors = smoothing(torch.zeros(64), torch.cat((WEIGHT[:, :32], torch.zeros(48, 32)), dim=1))
    assert divisors.isfinite().all()
    assert (divisors > 0).all()


def test_products_cut_off_at_16_bits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What vpmaddubsw does: two products of an unsigned and a signed byte, added in 16 bits."""

    def pack(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return weight, torch.empty(0), torch.empty(0)

    def product(q: torch.Tensor, weight: torch.Tensor, _ones: torch.Tensor, _zeros: torch.Tensor) -> torch.Tensor:
        terms = q.int()[:, None] * weight.int()[None]
        pairs = terms.unflatten(-1, (-1, 2)).sum(-1)
        if saturating:
            pairs = pairs.clamp(-(2**15), 2**15 - 1)
        return (pairs.sum(-1) - 128 * weight.int().sum(-1)).float()

    monkeypatch.setattr(quantize, "_pack", pack)
    monkeypatch.setattr(quantize, "_product", product)
    saturating = False
    assert products_are_exact()
    saturating = True
    assert not products_are_exact()


def test_a_pytorch_without_such_products_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    def pack(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        raise RuntimeError("qlinear_prepack is not implemented")

    monkeypatch.setattr(quantize, "_pack", pack)
    assert not products_are_exact()
