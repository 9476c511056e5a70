"""A kind's rate follows what it earned."""

from __future__ import annotations

import pytest

from medusa_core.drafters.base import Guess
from medusa_core.drafters.earnings import Earnings


def test_a_kind_that_is_right_as_often_as_it_says_keeps_its_rate() -> None:
    earnings = Earnings(2)
    for step in range(200):
        earnings.settle([Guess(1, 0.5, 0, 0)], came=step % 2)
    assert earnings.rates[0] == pytest.approx(1.0, abs=0.05)
    assert earnings.rates[1] == 1.0


@pytest.mark.parametrize(("claim", "every", "rate"), [(0.8, 4, 0.25 / 0.8), (0.1, 4, 2.5), (0.9, 10_000, 0.02)])
def test_the_rate_becomes_what_was_earned_for_what_was_claimed(claim: float, every: int, rate: float) -> None:
    earnings = Earnings(1)
    for step in range(1, 3000):
        earnings.settle([Guess(1, claim, 0, 0), Guess(2, 0.0, 0, 1)], came=1 if step % every == 0 else 3)
    assert earnings.rates[0] == pytest.approx(rate, rel=0.15)


def test_later_steps_count_more() -> None:
    earnings = Earnings(1)
    for _ in range(2000):
        earnings.settle([Guess(1, 0.5, 0, 0)], came=0)
    for _ in range(400):
        earnings.settle([Guess(1, 0.5, 0, 0)], came=1)
    assert earnings.rates[0] > 1.5
