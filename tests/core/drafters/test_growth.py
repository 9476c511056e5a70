"""Trees of the likeliest paths over several guessers, against trying every path."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from medusa_core.drafters.base import Guess
from medusa_core.drafters.growth import Grower
from medusa_core.drafters.mixing import Mixer
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

Table = dict[tuple[int, ...], list[tuple[int, float]]]


class EmptyCache:
    """Growing reads no rows."""

    length = 0

    def keep(self, start: int, rows: object) -> None:
        raise AssertionError

    def crop(self, length: int) -> None:
        raise AssertionError


class TableGuesser:
    """Guesses by the path below the root."""

    kinds = 1

    def __init__(self, source: Source, table: Table) -> None:
        self.source, self._table = source, table

    def begin(self, state: State) -> tuple[int, ...]:
        return ()

    def advance(self, cursor: tuple[int, ...], token: int) -> tuple[int, ...]:
        return (*cursor, token)

    def guesses(self, cursor: tuple[int, ...]) -> list[Guess]:
        return [Guess(token, p, 0, rank) for rank, (token, p) in enumerate(self._table.get(cursor, []))]

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """A table does not change."""


@pytest.fixture
def state() -> State:
    state = State(EmptyCache())
    state.root = 99
    return state


def random_table(seed: int, share: float) -> Table:
    rng = random.Random(seed)
    table: Table = {}
    level: list[tuple[int, ...]] = [()]
    for _ in range(3):
        for path in level:
            tokens = rng.sample(range(8), 3)
            table[path] = sorted(((token, share * rng.random()) for token in tokens), key=lambda pair: -pair[1])
        level = [(*path, token) for path in level for token, _ in table[path]]
    return table


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 4, 12])
def test_the_likeliest_paths_are_taken_whoever_guessed_them(state: State, seed: int, size: int) -> None:
    tables = [random_table(seed, 0.3), random_table(100 + seed, 0.02)]
    guessers = [TableGuesser(source, table) for source, table in zip((Source.HEAD, Source.LOOKUP), tables, strict=True)]
    grown = Grower(guessers).grow(state, [0.0] * size)
    paths: dict[tuple[int, ...], float] = {(): 1.0}
    level: list[tuple[int, ...]] = [()]
    for _ in range(3):
        below = []
        for path in level:
            made = [guesser.guesses(path) for guesser in guessers]
            for token, offer in Mixer([Source.HEAD, Source.LOOKUP]).together(made, [[1.0], [1.0]]).items():
                paths[(*path, token)] = paths[path] * offer[0]
                below.append((*path, token))
        level = below
    assert grown.gains == pytest.approx(sorted(paths.values(), reverse=True)[1 : size + 1])
    candidates = grown.first(size)
    for node, gain in enumerate(grown.gains, 1):
        path = tuple(candidates.token_ids[i] for i in candidates.tree.path(node)[1:])
        assert paths[path] == pytest.approx(gain)


def test_duplicates_are_one_node_of_the_likelier_source(state: State) -> None:
    heads = TableGuesser(Source.HEAD, {(): [(1, 0.5), (2, 0.1)]})
    lookup = TableGuesser(Source.LOOKUP, {(): [(2, 0.3), (1, 0.05)], (1,): [(7, 0.9)]})
    candidates = Grower([heads, lookup]).grow(state, [0.0] * 8).first(8)
    nodes = zip(candidates.token_ids, candidates.tree.parents, candidates.sources, candidates.ranks, strict=True)
    assert sorted(nodes) == [
        (1, 0, Source.HEAD, 0),
        (2, 0, Source.LOOKUP, 0),
        (7, candidates.token_ids.index(1), Source.LOOKUP, 0),
        (99, 0, Source.MODEL, 0),
    ]


def test_sources_that_disagree_share_what_there_is(state: State) -> None:
    guessers = [TableGuesser(Source.HEAD, {(): [(1, 0.9)]}), TableGuesser(Source.LOOKUP, {(): [(2, 0.9)]})]
    grown = Grower(guessers).grow(state, [0.0] * 4)
    assert sum(grown.gains) < 1
    assert max(grown.gains) < 0.9


def test_nodes_that_add_too_little_are_left_out(state: State) -> None:
    guesser = TableGuesser(Source.HEAD, {(): [(1, 0.5), (2, 0.2)], (1,): [(3, 0.3), (4, 0.5)]})
    assert Grower([guesser]).grow(state, [0.2] * 10).gains == pytest.approx([0.5, 0.25, 0.2])
    assert Grower([guesser]).grow(state, [0.1, 0.1, 0.22, 0.22]).gains == pytest.approx([0.5, 0.25])
    assert Grower([guesser]).grow(state, [0.6, 0.6]).gains == []


def test_the_budget_goes_to_who_has_been_earning(state: State) -> None:
    heads = TableGuesser(Source.HEAD, {(): [(1, 0.4), (2, 0.3)]})
    lookup = TableGuesser(Source.LOOKUP, {(): [(5, 0.2)]})
    grower = Grower([heads, lookup])
    assert grower.grow(state, [0.0]).sources[1] is Source.HEAD
    for _ in range(60):
        grown = grower.grow(state, [0.0] * 3)
        grower.settle(grown, Accepted((0, 3) if grown.tokens[3] == 5 else (0,), 5, {}))
    sources = grower.grow(state, [0.0] * 3).sources
    assert sources[1] is Source.LOOKUP
    rates = [earnings.rates[0] for earnings in grower.earnings]
    assert rates[0] < 0.2
    assert rates[1] > 2


def test_gains_descend_and_every_beginning_is_a_tree(state: State) -> None:
    grown = Grower([TableGuesser(Source.HEAD, random_table(3, 0.3))]).grow(state, [0.0] * 20)
    assert all(first >= second for first, second in pairwise(grown.gains))
    for size in range(len(grown.gains) + 1):
        assert len(grown.first(size).tree) == size + 1
