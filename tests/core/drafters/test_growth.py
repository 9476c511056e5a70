"""Trees of the likeliest paths over several guessers, against trying every path."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from medusa_core.drafters.growth import Grower
from medusa_core.events import Source
from medusa_core.records import Accepted
from medusa_core.state import State
from tests.core.drafters.tables import ROOT, TableHeads, TableSuccessors, all_paths, state_at_root


@pytest.fixture
def state() -> State:
    return state_at_root()


def random_guesses(rng: random.Random, share: float) -> list[tuple[int, float]]:
    tokens = rng.sample(range(8), 3)
    return sorted(((token, 0.02 + share * rng.random()) for token in tokens), key=lambda pair: -pair[1])


def random_guessers(seed: int) -> list[TableHeads | TableSuccessors]:
    rng = random.Random(seed)
    heads = TableHeads(*(random_guesses(rng, 0.3) for _ in range(3)))
    return [heads, TableSuccessors({token: random_guesses(rng, 0.1) for token in (*range(5), ROOT)})]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 4, 12, 100])
def test_the_likeliest_paths_are_taken_whoever_guessed_them(state: State, seed: int, size: int) -> None:
    guessers = random_guessers(seed)
    grown = Grower(guessers).grow(state, [0.01] * size)
    paths = all_paths(guessers, 6)
    likeliest = [gain for gain in sorted(paths.values(), reverse=True)[1 : size + 1] if gain >= 0.01]
    assert grown.gains == pytest.approx(likeliest)
    candidates = grown.first(size)
    for node, gain in enumerate(grown.gains, 1):
        path = tuple(candidates.token_ids[i] for i in candidates.tree.path(node)[1:])
        assert paths[path] == pytest.approx(gain)
    assert len({candidates.tree.path(node) for node in range(len(candidates.tree))}) == len(candidates.tree)


def test_duplicates_are_one_node_of_the_likelier_source(state: State) -> None:
    heads = TableHeads([(1, 0.5), (2, 0.1)])
    recycling = TableSuccessors({ROOT: [(2, 0.3), (1, 0.05)], 1: [(7, 0.5)]})
    candidates = Grower([heads, recycling]).grow(state, [0.0] * 8).first(8)
    nodes = zip(candidates.token_ids, candidates.tree.parents, candidates.sources, candidates.ranks, strict=True)
    assert sorted(nodes) == [
        (1, 0, Source.HEAD, 0),
        (2, 0, Source.RECYCLING, 0),
        (7, candidates.token_ids.index(1), Source.RECYCLING, 0),
        (ROOT, 0, Source.MODEL, 0),
    ]


def test_sources_that_disagree_share_what_there_is(state: State) -> None:
    grown = Grower([TableHeads([(1, 0.9)]), TableSuccessors({ROOT: [(2, 0.5)]})]).grow(state, [0.0] * 4)
    assert sum(grown.gains) < 1
    assert max(grown.gains) < 0.9


def test_nodes_that_add_too_little_are_left_out(state: State) -> None:
    guesser = TableHeads([(1, 0.5), (2, 0.2)], [(4, 0.5), (3, 0.3)])
    assert Grower([guesser]).grow(state, [0.2] * 10).gains == pytest.approx([0.5, 0.25, 0.2])
    assert Grower([guesser]).grow(state, [0.1, 0.1, 0.22, 0.22]).gains == pytest.approx([0.5, 0.25])
    assert Grower([guesser]).grow(state, [0.6, 0.6]).gains == []


def test_the_budget_goes_to_who_has_been_earning(state: State) -> None:
    grower = Grower([TableHeads([(1, 0.4), (2, 0.3)]), TableSuccessors({ROOT: [(5, 0.2)]})])
    assert grower.grow(state, [0.0]).sources[1] is Source.HEAD
    for _ in range(60):
        grown = grower.grow(state, [0.0] * 3)
        grower.settle(grown, Accepted((0, 3) if grown.tokens[3] == 5 else (0,), 5, {}))
    assert grower.grow(state, [0.0] * 3).sources[1] is Source.RECYCLING
    heads, recycling = grower.earnings.rates
    assert heads.min() < 0.2
    assert recycling.max() > 2


def test_only_what_was_guessed_this_time_is_settled(state: State) -> None:
    """A larger tree before must not leave its guesses to a smaller one."""
    grower = Grower([TableHeads([(1, 0.5), (2, 0.2)], [(4, 0.5), (3, 0.3)])])
    grower.grow(state, [0.0] * 6)
    grown = grower.grow(state, [0.6])  # nothing is worth it; the root alone was looked below
    before = grower.earnings.claimed.sum()
    grower.settle(grown, Accepted((0,), 1, {}))
    assert grower.earnings.claimed.sum() == pytest.approx(before + 0.7)


def test_gains_descend_and_every_beginning_is_a_tree(state: State) -> None:
    grown = Grower(random_guessers(3)).grow(state, [0.0] * 90)  # more than there is room for at first
    assert len(grown.gains) == 90
    assert all(first >= second for first, second in pairwise(grown.gains))
    for size in range(len(grown.gains) + 1):
        assert len(grown.first(size).tree) == size + 1


_ALL_SOURCES = """
import json, sys
{setup}
import torch
from medusa_core.drafters import compiling
from medusa_core.drafters.growth import Grower
from medusa_core.drafters.lookup import LookupGuesser
from medusa_core.drafters.paired import PairedGuesser
from medusa_core.drafters.recycling import RecyclingGuesser
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.pairs import count_pairs
from medusa_core.records import Accepted, Scores
from medusa_core.state import State
from dataclasses import replace

V, H = 40, 6
random = torch.Generator().manual_seed(1)
shape = HeadsShape(num_heads=3, num_layers=1, hidden_size=H, vocab_size=V, draft_vocab_size=V, shared_output=True)
heads = MedusaHeads(shape, torch.randn(V, H, generator=random)).requires_grad_(False)
texts = [torch.randint(0, V, (2000,), generator=random)]
pairs = replace(count_pairs(texts, V, None, 3), strengths=(0.5, 0.7, 0.9))
guessers = [PairedGuesser(heads, pairs, None), LookupGuesser(), RecyclingGuesser(V)]
grower = Grower(guessers)
class Cache:
    length = 0
    def crop(self, length): pass
    def keep(self, start, rows): pass
state, seen = State(Cache()), []
state.context = texts[0][:60].tolist()
for step in range(12):
    state.set_root(int(torch.randint(0, V, (1,), generator=random)), torch.randn(H, generator=random))
    grown = grower.grow(state, [0.0] * 9)
    candidates = grown.first(9)
    scores = Scores(torch.randn(len(candidates.tree), V, generator=random) * 2, torch.zeros(len(candidates.tree), H))
    path = candidates.tree.path(len(candidates.tree) - 1)
    accepted = Accepted(path, int(scores.logits[path[-1]].argmax()), {{}})
    for guesser in guessers:
        guesser.observe(candidates, scores, accepted)
    grower.settle(grown, accepted)
    state.context += [candidates.token_ids[node] for node in path]
    state.reply += [candidates.token_ids[node] for node in path]
    gains = [round(gain, 5) for gain in grown.gains]
    seen.append([grown.parents, grown.tokens, grown.ranks, [source.value for source in grown.sources], gains])
print(json.dumps([compiling.COMPILES, seen]))
"""


def test_without_numba_the_same_trees_grow() -> None:
    made, root = {}, str(Path(__file__).parents[3])
    for setup in ("", "sys.modules['numba'] = None"):
        program = f"import sys; sys.path.insert(0, {root!r})" + _ALL_SOURCES.format(setup=setup)
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        compiles, made[setup] = json.loads(done.stdout)
        assert compiles == (not setup)
    compiled, written = made.values()
    assert compiled == written
    sources = {source for tree in compiled for source in tree[3]}
    assert sources == {"model", "head", "lookup", "recycling"}, "or the test shows little"
