"""Draw tokens from many distributions at once. Knows nothing of where they come from or of who draws."""

from __future__ import annotations

import torch

_BLOCK = 256  # tokens: a drawn token is found by its block's share first


def draw(probabilities: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """The token at which the running sum of probabilities (M, V) reaches points (M,) in (0, 1]; returns (M,).

    By blocks first, so that only one block a row is summed up token by token.
    """
    rows, vocab = probabilities.shape
    padded = torch.nn.functional.pad(probabilities, (0, -vocab % _BLOCK))
    blocks = padded.view(rows, -1, _BLOCK)
    sums = blocks.sum(-1).cumsum(-1)
    # The sum of all probabilities differs from 1 by rounding; the point is a share of what there is.
    wanted = (points * sums[:, -1])[:, None]
    block = torch.searchsorted(sums, wanted).clamp_max_(sums.shape[1] - 1)
    before = torch.where(block > 0, sums.gather(1, (block - 1).clamp_min(0)), 0.0)
    inside = blocks.take_along_dim(block[..., None], 1)[:, 0].cumsum(-1)
    place = torch.searchsorted(inside, wanted - before).clamp_max_(_BLOCK - 1)
    return (block * _BLOCK + place)[:, 0].clamp_max_(vocab - 1)
