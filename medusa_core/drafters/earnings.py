"""What guesses of each kind have been earning: how often they came true, beside how often they claimed to.

A guess is worth its own probability times what its kind has earned for every unit claimed, so the nodes of a tree go to
the sources that have been right in this conversation. Knows nothing of sources, tokens or trees.
"""

from __future__ import annotations

from collections.abc import Iterable

from medusa_core.drafters.base import Guess

_TRUST = 4.0  # claims that a kind starts with as if it had earned them all
_MEMORY = 96.0  # claims remembered: at so many, old and new are halved, so that later ones count more
_LEAST_RATE, _MOST_RATE = 0.02, 3.0


class Earnings:
    """Claims and earnings of one guesser's kinds."""

    def __init__(self, kinds: int) -> None:
        self.rates = [1.0] * kinds  # earned for every unit claimed
        self._claimed = [_TRUST] * kinds
        self._earned = [_TRUST] * kinds

    def settle(self, guesses: Iterable[Guess], came: int) -> None:
        """These were the guesses at one place; the token `came` was what followed."""
        for token, probability, kind, _ in guesses:
            self._claimed[kind] += probability
            if token == came:
                self._earned[kind] += 1.0
            if self._claimed[kind] > _MEMORY:
                self._claimed[kind] /= 2
                self._earned[kind] /= 2
            rate = self._earned[kind] / self._claimed[kind]
            self.rates[kind] = min(max(rate, _LEAST_RATE), _MOST_RATE)
