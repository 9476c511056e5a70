"""A kind's rate follows what it earned."""

from __future__ import annotations

import numpy as np
import pytest

from medusa_core.drafters.earnings import Earnings, new_earnings, settle
from medusa_core.drafters.guessed import new_guessed


def settled(earnings: Earnings, came: int, *guesses: tuple[int, float, int]) -> None:
    """Token, probability and kind of the second source's guesses at node 3, and what came."""
    guessed = new_guessed(5, 2)
    guessed.counts[3, 1] = len(guesses)
    for k, (token, probability, kind) in enumerate(guesses):
        guessed.tokens[3, 1, k], guessed.probabilities[3, 1, k], guessed.kinds[3, 1, k] = token, probability, kind
    settle(earnings, guessed, np.array([3]), np.array([came]))


def test_a_kind_that_is_right_as_often_as_it_says_keeps_its_rate() -> None:
    earnings = new_earnings(2, 2)
    for step in range(200):
        settled(earnings, step % 2, (1, 0.5, 0))
    assert earnings.rates[1, 0] == pytest.approx(1.0, abs=0.05)
    assert earnings.rates[1, 1] == 1.0
    assert (earnings.rates[0] == 1.0).all()


@pytest.mark.parametrize(("claim", "every", "rate"), [(0.8, 4, 0.25 / 0.8), (0.1, 4, 2.5), (0.9, 10_000, 0.02)])
def test_the_rate_becomes_what_was_earned_for_what_was_claimed(claim: float, every: int, rate: float) -> None:
    earnings = new_earnings(2, 1)
    for step in range(1, 3000):
        settled(earnings, 1 if step % every == 0 else 3, (1, claim, 0), (2, 0.0, 0))
    assert earnings.rates[1, 0] == pytest.approx(rate, rel=0.15)


def test_later_steps_count_more() -> None:
    earnings = new_earnings(2, 1)
    for _ in range(2000):
        settled(earnings, 0, (1, 0.5, 0))
    for _ in range(400):
        settled(earnings, 1, (1, 0.5, 0))
    assert earnings.rates[1, 0] > 1.5
