"""What guesses of each kind have been earning: how often they came true, beside how often they claimed to.

A guess is worth its own probability times what its kind has earned for every unit claimed, so the nodes of a tree go to
the sources that have been right in this conversation.
Shapes: S sources, M kinds of the source that has most. Knows nothing of how a source guesses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.guessed import Floats

_TRUST = 4.0  # claims that a kind starts with as if it had earned them all
_MEMORY = 96.0  # claims remembered: at so many, old and new are halved, so that later ones count more
_LEAST_RATE, _MOST_RATE = 0.02, 3.0


class Earnings(NamedTuple):
    """Of every source's kinds, (S, M) each."""

    claimed: Floats
    earned: Floats
    rates: Floats  # earned for every unit claimed


def new_earnings(sources: int, kinds: int) -> Earnings:
    """Of sources that are trusted."""
    return Earnings(np.full((sources, kinds), _TRUST), np.full((sources, kinds), _TRUST), np.ones((sources, kinds)))


@compiled
def settle(earnings, guessed, path, tokens):  # type: ignore[no-untyped-def]
    """What followed every node of the kept `path` (n,) is known now: `tokens` (n,). Guesses see `guessed.Guessed`."""
    for n in range(path.shape[0]):
        node = path[n]
        for source in range(guessed.counts.shape[1]):
            claimed, earned = earnings.claimed[source], earnings.earned[source]
            for k in range(guessed.counts[node, source]):
                kind = guessed.kinds[node, source, k]
                claimed[kind] += guessed.probabilities[node, source, k]
                if guessed.tokens[node, source, k] == tokens[n]:
                    earned[kind] += 1.0
                if claimed[kind] > _MEMORY:
                    claimed[kind] /= 2
                    earned[kind] /= 2
                rate = earned[kind] / claimed[kind]
                earnings.rates[source, kind] = min(max(rate, _LEAST_RATE), _MOST_RATE)
