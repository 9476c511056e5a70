"""A head that is turned in registers, against its definition: scaled, turned by its position, multiplied, narrowed."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from medusa_core.backbone import fused
from medusa_core.backbone.fused import LANES
from medusa_core.backbone.turning import turn_head
from medusa_core.backbone.weighted import DOTS


def turned(numbers, row_scale, scales, bias, cos, sin, factor, into):  # type: ignore[no-untyped-def]
    turn_head(
        numbers.ctypes.data, row_scale, scales.ctypes.data, bias.ctypes.data, cos.ctypes.data, sin.ctypes.data,
        cos.shape[0], factor, into.ctypes.data,
    )  # fmt: skip


def floats(count: int, seed: int, scale: float = 1.0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(count) * scale).astype(np.float32)


@pytest.mark.parametrize("half", [LANES, 2 * LANES, 3 * LANES])
@pytest.mark.parametrize("dots", sorted({False, DOTS}))
def test_turning_a_head(half: int, dots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "DOTS", dots)
    turn = numba.njit(turned)
    numbers, scales, bias = np.round(floats(2 * half, 0, 900)), floats(2 * half, 1, 0.01), floats(2 * half, 2)
    angles = floats(half, 3, 3)
    cos, sin = np.cos(angles), np.sin(angles)
    into = np.full(2 * half + 2, 7, np.uint16)
    turn(numbers, np.float32(0.3), scales, bias, cos, sin, np.float32(0.125), into)
    scaled = numbers * (np.float32(0.3) * scales) + bias
    near, far = scaled[:half], scaled[half:]
    expected = np.concatenate([near * cos - far * sin, far * cos + near * sin]) * np.float32(0.125)
    narrowed = torch.from_numpy(expected).bfloat16().view(torch.uint16).numpy()
    assert (into[: 2 * half] == narrowed).all()
    assert (into[2 * half :] == 7).all()
