"""The model's own successors, kept from every node of every pass."""

from __future__ import annotations

import pytest
import torch

from medusa_core.drafters.recycling import RecyclingGuesser
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.tree import Tree

V = 30


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
    tokens = (3, 4, 5, 6)
    logits = learned(guesser, Tree((0, 0, 0, 1)), tokens, (0, 1))
    for node, token in enumerate(tokens):
        guesses = guesser.guesses((29, token))
        wanted = logits[node].topk(8)
        shares = wanted.values.softmax(-1).tolist()
        expected = [t for t, share in zip(wanted.indices.tolist(), shares, strict=True) if share >= 0.01]
        assert [guess.token for guess in guesses] == expected
        assert [guess.rank for guess in guesses] == list(range(len(expected)))
        beliefs = [guess.probability for guess in guesses]
        assert beliefs == sorted(beliefs, reverse=True)
        assert all(0 <= guess.kind < guesser.kinds for guess in guesses)


def test_a_token_never_seen_has_no_successors() -> None:
    assert RecyclingGuesser(V).guesses((1, 2)) == []


def test_two_tokens_seen_together_are_remembered_apart() -> None:
    guesser = RecyclingGuesser(V)
    logits = learned(guesser, Tree((0, 0, 0, 1, 2)), (3, 4, 5, 7, 7), (0, 1, 3))
    first, second = guesser.guesses((4, 7)), guesser.guesses((5, 7))
    assert first[0].token == int(logits[3].argmax())
    assert second[0].token == int(logits[4].argmax())
    # Alone, the token has what it had on the kept path.
    assert [guess.token for guess in guesser.guesses((9, 7))] == [guess.token for guess in first]
    assert guesser.advance((1, 4), 7) == (4, 7)


def test_what_was_seen_last_counts() -> None:
    guesser = RecyclingGuesser(V)
    learned(guesser, Tree((0,)), (3,), (0,), seed=1)
    logits = learned(guesser, Tree((0,)), (3,), (0,), seed=2)
    assert guesser.guesses((0, 3))[0].token == int(logits[0].argmax())


def test_only_so_many_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medusa_core.drafters.recycling._PAIRS", 3)
    guesser = RecyclingGuesser(V)
    for token in range(6):
        learned(guesser, Tree((0, 0)), (20, token), (0,))
    assert list(guesser._pairs) == [(20, 3), (20, 4), (20, 5)]
