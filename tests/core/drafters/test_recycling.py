"""The model's own successors, kept from every node of every pass."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from medusa_core.drafters.guessed import MOST
from medusa_core.drafters.recycling import RecyclingGuesser, guess
from medusa_core.drafters.successors import NOTHING, find
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State
from medusa_core.tree import Tree
from tests.core.drafters.tables import EmptyCache

V = 30


def state(*context: int) -> State:
    made = State(EmptyCache())
    made.context = list(context)
    return made


def recycled(guesser: RecyclingGuesser, before: int, token: int) -> list[tuple[int, float, int]]:
    """Token, probability and kind of every guess after two tokens."""
    tokens, probabilities, kinds = np.zeros(MOST, np.int32), np.zeros(MOST), np.zeros(MOST, np.int32)
    count = guess(guesser.begin(state()), before, token, tokens, probabilities, kinds)
    return list(zip(tokens.tolist(), probabilities.tolist(), kinds.tolist(), strict=True))[:count]


def tokens(guesser: RecyclingGuesser, before: int, token: int) -> list[int]:
    return [guess[0] for guess in recycled(guesser, before, token)]


def learned(
    guesser: RecyclingGuesser, tree: Tree, tokens: tuple[int, ...], path: tuple[int, ...], seed: int = 0
) -> torch.Tensor:
    count = len(tree)
    sources = (Source.MODEL, *[Source.HEAD] * (count - 1))
    logits = torch.randn(count, V, generator=torch.Generator().manual_seed(seed)) * 2
    candidates = CandidateTree(tree, tokens, (0,) * count, (None,) * count, sources)
    guesser.observe(candidates, Scores(logits, torch.zeros(count, 4)), Accepted(path, 0, {}))
    return logits


def test_every_node_leaves_its_best_successors() -> None:
    guesser = RecyclingGuesser(V)
    seen = (3, 4, 5, 6)
    logits = learned(guesser, Tree((0, 0, 0, 1)), seen, (0, 1))
    for node, token in enumerate(seen):
        guesses = recycled(guesser, 29, token)
        wanted = logits[node].topk(8)
        shares = wanted.values.softmax(-1).tolist()
        expected = [t for t, share in zip(wanted.indices.tolist(), shares, strict=True) if share >= 0.01]
        assert [token for token, _, _ in guesses] == expected
        beliefs = [belief for _, belief, _ in guesses]
        np.testing.assert_allclose(beliefs, 0.55 * np.array(shares[: len(expected)]), rtol=1e-5)
        assert all(0 <= kind < guesser.kinds for _, _, kind in guesses)


def test_a_token_never_seen_has_no_successors() -> None:
    assert recycled(RecyclingGuesser(V), 1, 2) == []


def test_two_tokens_seen_together_are_remembered_apart() -> None:
    guesser = RecyclingGuesser(V)
    logits = learned(guesser, Tree((0, 0, 0, 1, 2)), (3, 4, 5, 7, 7), (0, 1, 3))
    first, second = tokens(guesser, 4, 7), tokens(guesser, 5, 7)
    assert first[0] == int(logits[3].argmax())
    assert second[0] == int(logits[4].argmax())
    assert tokens(guesser, 9, 7) == first, "alone, the token has what it had on the kept path"
    assert recycled(guesser, 4, 7)[0][1] > recycled(guesser, 9, 7)[0][1], "two tokens say more than one"


def test_the_root_is_remembered_after_the_token_before_it_where_that_is_known() -> None:
    guesser = RecyclingGuesser(V)
    for context, before in (((8, 9), 9), ((), NOTHING)):
        successors = guesser.begin(state(*context))
        learned(guesser, Tree((0,)), (3,), (0,))
        assert find(successors, before, 3) >= 0
    pairs = int(successors.ends[2])
    learned(guesser, Tree((0,)), (4,), (0,))  # a step that nothing was guessed for
    assert successors.ends[2] == pairs
    assert tokens(guesser, 0, 4)


def test_what_was_seen_last_counts() -> None:
    guesser = RecyclingGuesser(V)
    learned(guesser, Tree((0,)), (3,), (0,), seed=1)
    logits = learned(guesser, Tree((0,)), (3,), (0,), seed=2)
    assert tokens(guesser, 0, 3)[0] == int(logits[0].argmax())


def test_only_so_many_pairs_are_kept_those_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medusa_core.drafters.recycling._PAIRS", 5)
    guesser = RecyclingGuesser(V)
    successors, rng, seen = guesser.begin(state()), random.Random(4), {}
    learned(guesser, Tree((0,)), (0,), (0,))  # the one pair whose root has a token before
    for step in range(300):
        token = rng.randrange(9)
        logits = learned(guesser, Tree((0, 0)), (20, token), (0,), seed=step)
        seen.pop(token, None)
        seen[token] = int(logits[1].argmax())
        kept = {token for token in range(V) if find(successors, 20, token) >= 0}
        assert kept == set(list(seen)[-5:])
        for token in kept:
            assert successors.pair_tokens[find(successors, 20, token), 0] == seen[token]


def test_a_token_that_can_be_read_but_not_written_has_no_successors() -> None:
    """A prompt may hold some: input embeddings can have more rows than the output head."""
    guesser = RecyclingGuesser(V)
    learned(guesser, Tree((0, 0)), (V, 3), (0,))
    successors = guesser.begin(state())
    assert recycled(guesser, 3, V) == []
    assert find(successors, V, 3) >= 0
    assert tokens(guesser, V, 3)


@pytest.mark.parametrize("vocab", [1, 3, 8])
def test_small_vocabularies_have_fewer_successors(vocab: int) -> None:
    guesser = RecyclingGuesser(vocab)
    candidates = CandidateTree(Tree((0,)), (0,), (0,), (None,), (Source.MODEL,))
    guesser.observe(candidates, Scores(torch.zeros(1, vocab), torch.zeros(1, 4)), Accepted((0,), 0, {}))
    assert sorted(tokens(guesser, 0, 0)) == list(range(vocab))
