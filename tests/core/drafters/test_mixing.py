"""What several sources say of one place: agreement counts for more, contradiction for less, certainty is shared out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medusa_core.drafters.guessed import MOST
from medusa_core.drafters.mixing import alone, new_offers, together, voices
from medusa_core.events import Source

SOURCES = (Source.HEAD, Source.LOOKUP, Source.RECYCLING)

Guesses = list[tuple[int, float]]  # tokens and probabilities, all of one kind
Offered = dict[int, tuple[float, int, int]]  # by token: what it is worth, the number of its source, its rank there


def mixed(*made: Guesses, rates: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Offered:
    count = len(made)
    tokens, probabilities = np.zeros((count, MOST), np.int32), np.zeros((count, MOST))
    for source, guesses in enumerate(made):
        for rank, (token, probability) in enumerate(guesses):
            tokens[source, rank], probabilities[source, rank] = token, probability
    counts, kinds = np.array([len(guesses) for guesses in made], np.int32), np.zeros((count, MOST), np.int32)
    offers = new_offers(count)
    rows = np.array(rates[:count])[:, None]
    n = together(voices(SOURCES[:count]), counts, tokens, probabilities, kinds, rows, offers)
    columns = (offers.tokens, offers.worths, offers.sources, offers.ranks)
    return {token: (w, source, rank) for token, w, source, rank in zip(*(c[:n].tolist() for c in columns), strict=True)}


def worth(*made: Guesses, token: int = 1) -> float:
    return mixed(*made)[token][0]


def test_a_source_alone_is_taken_at_its_word_and_its_earnings() -> None:
    offers, tokens, kinds = new_offers(1), np.array([5, 6], np.int32), np.array([0, 1], np.int32)
    assert alone(tokens, np.array([0.4, 0.2]), kinds, np.array([0.5, 1.5]), offers) == 2
    assert offers.tokens[:2].tolist() == [5, 6]
    assert offers.worths[:2].tolist() == pytest.approx([0.2, 0.3])
    assert offers.ranks[:2].tolist() == [0, 1]
    assert alone(tokens, np.array([0.9, 0.3]), kinds, np.array([1.0, 3.0]), offers) == 2
    assert offers.worths[:2].tolist() == pytest.approx([0.98 / 2, 0.98 / 2]), "more than certain they cannot be"


def test_two_that_agree_are_worth_more_than_either() -> None:
    both = worth([(1, 0.4)], [(1, 0.4)], [])
    assert both > worth([(1, 0.4)], [], [])
    assert both > worth([], [(1, 0.4)], [])
    assert worth([(1, 0.4)], [(1, 0.4)], [(1, 0.4)]) > both


def test_a_source_that_names_another_token_speaks_against_this_one() -> None:
    without = worth([(1, 0.4)], [], [])
    assert worth([(1, 0.4)], [(2, 0.4)], []) < without
    assert worth([(1, 0.4)], [(2, 0.4)], [(2, 0.4)]) < worth([(1, 0.4)], [(2, 0.4)], [])


def test_a_source_without_an_opinion_changes_nothing() -> None:
    assert mixed([(1, 0.4)], [], []) == mixed([(1, 0.4)], [])


def test_more_belief_is_more_worth_and_nothing_is_certain() -> None:
    worths = [worth([(1, p)], [(1, 0.3)], []) for p in (0.0, 0.001, 0.1, 0.5, 0.9, 1.0, 3.0)]
    assert worths == sorted(worths)
    assert worths[0] > 0
    assert worths[-1] < 1


def test_what_a_kind_has_been_earning_counts() -> None:
    poor = mixed([(1, 0.4)], [(2, 0.4)], [], rates=(0.1, 1.0, 1.0))
    rich = mixed([(1, 0.4)], [(2, 0.4)], [], rates=(2.0, 1.0, 1.0))
    assert poor[1][0] < rich[1][0]
    assert poor[1][0] < poor[2][0]


def test_a_token_belongs_to_the_source_that_believes_in_it_most() -> None:
    offers = mixed([(7, 0.5), (1, 0.2)], [(1, 0.6)], [(1, 0.1), (7, 0.1)])
    assert offers[1][1:] == (1, 0)
    assert offers[7][1:] == (0, 0)


def test_all_tokens_of_a_place_are_shared_out_below_certainty() -> None:
    offers = mixed([(1, 0.98)], [(2, 0.98)], [(3, 0.98), (1, 0.98), (2, 0.98)])
    assert sum(offer[0] for offer in offers.values()) < 1
    assert not mixed([], [], [])


def test_log_odds_add_up() -> None:
    """What a second source adds does not depend on what the first one said."""

    def odds(value: float) -> float:
        return math.log(value / (1 - value))

    added = [odds(worth([(1, p)], [(1, 0.5)], [])) - odds(worth([(1, p)], [], [])) for p in (0.1, 0.3, 0.5)]
    assert added == pytest.approx([added[0]] * 3)
    assert added[0] > 0.5
