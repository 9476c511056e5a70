"""int8 weights: what smoothing and rotation leave as it is, and what they make better."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone.quantize import Int8Linear, quantized, smoothing
from medusa_core.backbone.rotation import rotated

WEIGHT = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))


def test_weights_are_rounded_to_the_nearest_step_of_their_row() -> None:
    made = quantized(WEIGHT)
    scales = torch.from_numpy(made.scales)[:, None]
    values = torch.from_numpy(made.values).float()
    assert values.abs().amax(1).eq(127).all()
    torch.testing.assert_close(values * scales, rotated(WEIGHT), rtol=0, atol=float(scales.max()) / 2 * 1.001)
    assert (made.factors == 1).all()


@pytest.mark.parametrize("inputs", [64, 48, 36, 576])
@pytest.mark.parametrize("rows", [1, 3, 16, 65])
def test_a_linear_layer_is_close_to_its_weight(rows: int, inputs: int) -> None:
    generator = torch.Generator().manual_seed(inputs + rows)
    weight, bias = torch.randn(50, inputs, generator=generator), torch.randn(50, generator=generator)
    x = torch.randn(rows, inputs, generator=generator)
    expected = x @ weight.T
    plain, biased = Int8Linear(weight)(x), Int8Linear(weight, bias=bias)(x)
    assert (plain - expected).norm() / expected.norm() < 0.02
    torch.testing.assert_close(biased, plain + bias, rtol=0, atol=1e-5)


def test_smoothing_leaves_the_product_unchanged_and_evens_the_inputs() -> None:
    inputs = torch.randn(100, 64) * torch.logspace(-2, 2, 64)
    divisors = smoothing(inputs.abs().amax(0), WEIGHT)
    smooth = inputs / divisors
    torch.testing.assert_close(smooth @ (WEIGHT * divisors).T, inputs @ WEIGHT.T, rtol=1e-4, atol=1e-3)
    before, after = inputs.abs().amax(0), smooth.abs().amax(0)
    assert after.max() / after.min() < before.max() / before.min() / 10


def test_smoothing_and_rotation_lose_less_than_rounding_alone() -> None:
    """A few channels a hundred times the rest, as models have them: alone they take all steps of a row."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(200, 64, generator=generator)
    inputs[:, [5, 40]] *= 100
    weight = WEIGHT.clone()
    weight[:, [5, 40]] /= 50
    expected = inputs @ weight.T

    def error(found: torch.Tensor) -> float:
        return float((found - expected).norm() / expected.norm())

    steps = inputs.abs().amax(1, keepdim=True) / 127
    alone = error((inputs / steps).round() * steps @ weight.T)
    turned, both = error(Int8Linear(weight)(inputs)), error(Int8Linear(weight, inputs.abs().amax(0))(inputs))
    assert turned < 0.6 * alone
    assert both < 0.4 * alone


def test_channels_that_were_never_used_do_no_harm() -> None:
    divisors = smoothing(torch.zeros(64), torch.cat((WEIGHT[:, :32], torch.zeros(50, 32)), dim=1))
    assert divisors.isfinite().all()
    assert (divisors > 0).all()
