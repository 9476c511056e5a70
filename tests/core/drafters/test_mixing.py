"""What several sources say of one place: agreement counts for more, contradiction for less, certainty is shared out."""

from __future__ import annotations

import math

import pytest

from medusa_core.drafters.base import Guess
from medusa_core.drafters.mixing import Mixer, alone
from medusa_core.events import Source

SOURCES = (Source.HEAD, Source.LOOKUP, Source.RECYCLING)
RATES = ([1.0], [1.0], [1.0])


def guesses(*pairs: tuple[int, float]) -> list[Guess]:
    return [Guess(token, probability, 0, rank) for rank, (token, probability) in enumerate(pairs)]


def worth(*made: list[Guess], token: int = 1) -> float:
    return Mixer(SOURCES).together(made, RATES)[token][0]


def test_a_source_alone_is_taken_at_its_word_and_its_earnings() -> None:
    offers = alone([Guess(5, 0.4, 0, 0), Guess(6, 0.2, 1, 1)], [0.5, 1.5])
    assert {token: offer[0] for token, offer in offers.items()} == pytest.approx({5: 0.2, 6: 0.3})
    assert [offer[2] for offer in offers.values()] == [0, 1]


def test_two_that_agree_are_worth_more_than_either() -> None:
    both = worth(guesses((1, 0.4)), guesses((1, 0.4)), [])
    assert both > worth(guesses((1, 0.4)), [], [])
    assert both > worth([], guesses((1, 0.4)), [])
    assert worth(guesses((1, 0.4)), guesses((1, 0.4)), guesses((1, 0.4))) > both


def test_a_source_that_names_another_token_speaks_against_this_one() -> None:
    without = worth(guesses((1, 0.4)), [], [])
    assert worth(guesses((1, 0.4)), guesses((2, 0.4)), []) < without
    assert worth(guesses((1, 0.4)), guesses((2, 0.4)), guesses((2, 0.4))) < worth(
        guesses((1, 0.4)), guesses((2, 0.4)), []
    )


def test_a_source_without_an_opinion_changes_nothing() -> None:
    alone_in_three = Mixer(SOURCES).together([guesses((1, 0.4)), [], []], RATES)
    alone_in_two = Mixer(SOURCES[:2]).together([guesses((1, 0.4)), []], RATES[:2])
    assert alone_in_three == alone_in_two


def test_more_belief_is_more_worth_and_nothing_is_certain() -> None:
    worths = [worth(guesses((1, p)), guesses((1, 0.3)), []) for p in (0.0, 0.001, 0.1, 0.5, 0.9, 1.0, 3.0)]
    assert worths == sorted(worths)
    assert worths[0] > 0
    assert worths[-1] < 1


def test_what_a_kind_has_been_earning_counts() -> None:
    made = [guesses((1, 0.4)), guesses((2, 0.4)), []]
    poor = Mixer(SOURCES).together(made, [[0.1], [1.0], [1.0]])
    rich = Mixer(SOURCES).together(made, [[2.0], [1.0], [1.0]])
    assert poor[1][0] < rich[1][0]
    assert poor[1][0] < poor[2][0]


def test_a_token_belongs_to_the_source_that_believes_in_it_most() -> None:
    made = [guesses((7, 0.5), (1, 0.2)), guesses((1, 0.6)), guesses((1, 0.1), (7, 0.1))]
    offers = Mixer(SOURCES).together(made, RATES)
    assert offers[1][1:] == (1, 0)
    assert offers[7][1:] == (0, 0)


def test_all_tokens_of_a_place_are_shared_out_below_certainty() -> None:
    made = [guesses((1, 0.98)), guesses((2, 0.98)), guesses((3, 0.98), (1, 0.98), (2, 0.98))]
    offers = Mixer(SOURCES).together(made, RATES)
    assert sum(offer[0] for offer in offers.values()) < 1
    assert not Mixer(SOURCES).together([[], [], []], RATES)


def test_log_odds_add_up() -> None:
    """What a second source adds does not depend on what the first one said."""

    def odds(value: float) -> float:
        return math.log(value / (1 - value))

    added = [
        odds(worth(guesses((1, p)), guesses((1, 0.5)), [])) - odds(worth(guesses((1, p)), [], []))
        for p in (0.1, 0.3, 0.5)
    ]
    assert added == pytest.approx([added[0]] * 3)
    assert added[0] > 0.5
