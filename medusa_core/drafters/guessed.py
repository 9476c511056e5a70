"""What all sources guess below one node, in arrays that kernels fill and read.

Shapes: S sources, G guesses of one source at most. Knows no particular source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 10  # G

Wholes = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Guessed(NamedTuple):
    """Guesses below every node of a tree that grows, (nodes, S, G); a guess's place is its rank, 0 = likeliest."""

    tokens: Wholes
    probabilities: Floats  # as their source sees them, before anything was earned
    kinds: Wholes  # guesses of one kind earn together; at least 0 and below their source's `kinds`
    counts: Wholes  # (nodes, S)


def new_guessed(nodes: int, sources: int) -> Guessed:
    """Room for so many nodes."""
    room = (nodes, sources, MOST)
    return Guessed(
        np.zeros(room, np.int32), np.zeros(room), np.zeros(room, np.int32), np.zeros((nodes, sources), np.int32)
    )
