"""Heads corrected by pairs: the probabilities are those of the whole corrected distribution."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from medusa_core.drafters.growth import Grower, Grown
from medusa_core.drafters.guessed import MOST
from medusa_core.drafters.paired import PairedGuesser
from medusa_core.drafters.sharpening import guess, sharpen, sharpened
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.pairs import count_pairs

VOCAB, HIDDEN = 40, 6
TOKEN_MAP = torch.arange(0, VOCAB, 2)


@pytest.fixture
def heads() -> MedusaHeads:
    shape = HeadsShape(
        num_heads=3, num_layers=1, hidden_size=HIDDEN, vocab_size=VOCAB, draft_vocab_size=20, shared_output=True
    )
    torch.manual_seed(3)
    made = MedusaHeads(shape, 0.3 * torch.randn(VOCAB, HIDDEN), TOKEN_MAP)
    with torch.no_grad():
        made.w1.normal_()
    return made.requires_grad_(False)


@pytest.fixture
def state() -> Any:
    torch.manual_seed(5)
    return SimpleNamespace(root=7, context=[], hidden=torch.randn(HIDDEN))


def corrected(heads: MedusaHeads, state: Any, head: int, before: int, table: Any, temperature: float) -> torch.Tensor:
    logits = heads(state.hidden[None], torch.tensor([state.root]))[head, 0] / temperature
    after = table.after(before)
    logits[torch.from_numpy(table.followers[after])] += table.strengths[head] * torch.from_numpy(table.boosts[after])
    return logits.softmax(-1)


@pytest.mark.parametrize("before", [7, 4, 39])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_guesses_are_the_best_of_the_corrected_distribution(
    heads: MedusaHeads, state: Any, before: int, depth: int
) -> None:
    texts = [torch.randint(0, VOCAB, (300,), generator=torch.Generator().manual_seed(2))]
    table = replace(count_pairs(texts, VOCAB, TOKEN_MAP, 3), strengths=(0.3, 0.7, 1.0))
    guesser = PairedGuesser(heads, table, (0.8, 1.0, 1.3))
    tokens, probabilities, kinds = np.zeros(MOST, np.int32), np.zeros(MOST), np.zeros(MOST, np.int32)
    made = guess(guesser.begin(state), depth, before, tokens, probabilities, kinds)
    expected = corrected(heads, state, depth, before, table, (0.8, 1.0, 1.3)[depth])
    values, indices = expected.topk(10)
    count = int((values >= 0.005).sum())  # less likely ones hardly ever become nodes
    assert 1 <= made == count <= 10
    assert tokens[:count].tolist() == TOKEN_MAP[indices[:count]].tolist()
    np.testing.assert_allclose(probabilities[:count], values[:count], rtol=1e-4)
    assert all(0 <= kind < guesser.kinds for kind in kinds.tolist())


def test_nothing_is_guessed_below_the_last_head_or_after_a_token_nobody_knows(heads: MedusaHeads, state: Any) -> None:
    table = count_pairs([torch.arange(VOCAB)], VOCAB, TOKEN_MAP, 3)
    known = PairedGuesser(heads, table, None).begin(state)
    assert guess(known, 2, 7, np.zeros(MOST, np.int32), np.zeros(MOST), np.zeros(MOST, np.int32)) > 0
    assert guess(known, 3, 7, np.zeros(MOST, np.int32), np.zeros(MOST), np.zeros(MOST, np.int32)) == 0
    assert guess(known, 2, VOCAB, np.zeros(MOST, np.int32), np.zeros(MOST), np.zeros(MOST, np.int32)) == 0


def test_a_tree_grows_from_it_as_deep_as_there_are_heads(heads: MedusaHeads, state: Any) -> None:
    texts = [torch.tensor([7, 8, 10, 12, 14])] * 400 + [torch.arange(VOCAB)] * 40
    table = replace(count_pairs(texts, VOCAB, TOKEN_MAP, 3), strengths=(1.0, 1.0, 1.0))
    grown = Grower([PairedGuesser(heads, table, None)]).grow(state, [0.0] * 200)
    candidates = grown.first(200)
    assert max(candidates.tree.depths) == 3
    assert grown.gains == sorted(grown.gains, reverse=True)
    assert 8 in _children_of_root(grown), "8 came after 7 in the text"
    plain = Grower([PairedGuesser(heads, replace(table, strengths=(0.0, 0.0, 0.0)), None)]).grow(state, [0.0] * 200)
    assert 8 not in _children_of_root(plain), "or the test shows nothing"


def _children_of_root(grown: Grown) -> list[int]:
    return [grown.tokens[node] for node in range(1, len(grown.parents)) if grown.parents[node] == 0]


@pytest.mark.parametrize("followers", [[], [3], [0, 2, 5, 9], list(range(20))])
def test_with_and_without_numba_the_same_is_likeliest(followers: list[int]) -> None:
    rng = np.random.default_rng(len(followers))
    plain = rng.dirichlet(np.ones(20)).astype(np.float32)
    top, gains = np.argsort(-plain)[:6], np.exp(rng.normal(size=len(followers))).astype(np.float32)
    places = np.array(followers, np.int64)
    found, expected = np.zeros((2, 6), np.int64)
    worths, expected_worths = np.zeros((2, 6), np.float32)
    total = sharpen(plain, top, places, gains, found, worths)
    expected_total = sharpened(plain, top, places, gains, expected, expected_worths)
    assert found.tolist() == expected.tolist()
    assert worths == pytest.approx(expected_worths, rel=1e-6)
    assert total == pytest.approx(expected_total, rel=1e-5)
