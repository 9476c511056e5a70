"""The closed forms against values worked out by hand, and against brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import ConfigError
from medusa_core.theory import effective_accuracy, expected_tokens_per_pass, speed_up


def test_the_four_head_example() -> None:
    # 1 + 0.8 + 0.8*0.65 + 0.8*0.65*0.5 + 0.8*0.65*0.5*0.35 = 1 + 0.8 + 0.52 + 0.26 + 0.091
    assert expected_tokens_per_pass([0.8, 0.65, 0.5, 0.35]) == pytest.approx(2.671)


@given(st.integers(0, 12))
def test_perfect_heads_give_all_their_tokens_and_the_root(heads: int) -> None:
    assert expected_tokens_per_pass([1.0] * heads) == heads + 1


@given(st.lists(st.floats(0, 1), max_size=5))
def test_expectation_equals_the_sum_over_all_outcomes(accuracies: list[float]) -> None:
    total = 0.0
    for outcome in itertools.product([True, False], repeat=len(accuracies)):
        chance = 1.0
        for right, accuracy in zip(outcome, accuracies, strict=True):
            chance *= accuracy if right else 1 - accuracy
        kept = next((i for i, right in enumerate(outcome) if not right), len(outcome))
        total += chance * (1 + kept)
    assert expected_tokens_per_pass(accuracies) == pytest.approx(total)


def test_effective_accuracy_by_hand() -> None:
    assert effective_accuracy(0.5, 3) == pytest.approx(0.875)
    assert effective_accuracy(0.3, 1) == pytest.approx(0.3)
    assert effective_accuracy(0.3, 0) == 0.0


def test_speed_up_is_tokens_per_step_over_overhead() -> None:
    assert speed_up(2.4, 1.2) == pytest.approx(2.0)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_shares_outside_zero_to_one_are_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        expected_tokens_per_pass([bad])
    with pytest.raises(ConfigError, match="between 0 and 1"):
        effective_accuracy(bad, 2)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_a_pass_that_costs_nothing_is_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="overhead"):
        speed_up(2.0, bad)
