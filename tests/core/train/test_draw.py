"""Drawing by blocks gives the tokens that the running sum gives."""

from __future__ import annotations

import torch

from medusa_core.train.draw import draw


def test_draws_by_blocks_are_the_draws_of_the_running_sum() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(64, 1000, generator=generator) ** 8
    probabilities[:, ::3] = 0
    probabilities /= probabilities.sum(-1, keepdim=True)
    points = torch.rand(64, generator=generator)
    expected = torch.searchsorted(probabilities.double().cumsum(-1), points.double()[:, None])[:, 0]
    assert (draw(probabilities, points) == expected).float().mean() > 0.95, "up to rounding at a border"
    assert (probabilities.gather(1, draw(probabilities, points)[:, None]) > 0).all()
    last = draw(torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([1.0]))
    assert last.tolist() == [1]
