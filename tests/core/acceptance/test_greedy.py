"""Greedy acceptance walks with the model's own choices, and nothing about the tree can change its words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.tree import Tree

VOCABULARY = 5


def accept(parents: Sequence[int], tokens: Sequence[int], choices: Sequence[int], *, explain: bool = False) -> Accepted:
    """One step in which the model prefers `choices[node]` after each node: p = 0.6 against 0.1 for each other token."""
    logits = torch.full((len(parents), VOCABULARY), math.log(0.1))
    logits[range(len(parents)), list(choices)] = math.log(0.6)
    drafted = len(parents) - 1
    candidates = CandidateTree(
        tree=Tree(tuple(parents)),
        token_ids=tuple(tokens),
        ranks=(0,) * len(parents),
        draft_probabilities=(None, *(0.5,) * drafted),
        sources=(Source.MODEL, *(Source.HEAD,) * drafted),
    )
    return GreedyRule(explain=explain).accept(candidates, Scores(logits, torch.zeros(len(parents), 4)))


def test_a_walk_to_the_end_of_the_tree() -> None:
    #    0:token 4 - wants 2
    #    1:token 1   2:token 2 - wants 3
    #                3:token 3 - wants 0
    accepted = accept([0, 0, 0, 2], [4, 1, 2, 3], [2, 4, 3, 0])
    assert accepted.path == (0, 2, 3)
    assert accepted.next_token == 0
    assert {node: verdict.passed for node, verdict in accepted.verdicts.items()} == {1: False, 2: True, 3: True}
    assert {node: verdict.choice for node, verdict in accepted.verdicts.items()} == {1: 2, 2: 2, 3: 3}


def test_a_walk_that_ends_where_no_child_is_wanted() -> None:
    accepted = accept([0, 0, 1, 1], [4, 2, 0, 1], [2, 3, 1, 1])
    assert accepted.path == (0, 1)
    assert accepted.next_token == 3
    assert set(accepted.verdicts) == {1, 2, 3}


def test_below_a_rejected_node_nothing_is_judged_though_it_would_match() -> None:
    accepted = accept([0, 0, 1], [4, 0, 2], [3, 2, 2])
    assert accepted.path == (0,)
    assert set(accepted.verdicts) == {1}


def test_a_root_alone_gives_the_models_choice() -> None:
    accepted = accept([0], [4], [2])
    assert (accepted.path, accepted.next_token, accepted.verdicts) == ((0,), 2, {})


def test_numbers_nobody_asked_for_are_not_there() -> None:
    accepted = accept([0, 0, 1], [4, 2, 1], [2, 0, 0])
    assert accepted.model_probabilities is None
    for verdict in accepted.verdicts.values():
        assert (verdict.probability, verdict.threshold, verdict.entropy) == (None, None, None)
        assert verdict.choice is not None


def test_numbers_asked_for_are_the_models_at_the_parent() -> None:
    # Of (0.6, 0.1, 0.1, 0.1, 0.1): H = 0.6·0.51083 + 0.4·2.30259 = 1.22753 nats.
    accepted = accept([0, 0, 1, 2], [4, 2, 1, 1], [2, 0, 1, 0], explain=True)
    assert accepted.path == (0, 1)
    assert accepted.model_probabilities == pytest.approx((1.0, 0.6, 0.1, 0.6))
    assert set(accepted.verdicts) == {1, 2}
    for node, probability in {1: 0.6, 2: 0.1}.items():
        verdict = accepted.verdicts[node]
        assert verdict.probability == pytest.approx(probability)
        assert verdict.entropy == pytest.approx(1.22753, abs=1e-5)
        assert verdict.threshold is None


@st.composite
def trees_of_tokens(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    size = draw(st.integers(1, 20))
    parents = [0, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    return parents, [draw(st.integers(0, VOCABULARY - 1)) for _ in parents]


def plain_choice(context: Sequence[int], seed: int) -> int:
    """What a made-up model says next: it depends on every token before."""
    value = seed
    for token in context:
        value = (value * 31 + token + 7) % 10_007
    return value % VOCABULARY


@given(trees_of_tokens(), st.integers(0, 10_000), st.booleans())
def test_the_tokens_are_those_of_plain_greedy_decoding(
    drafted: tuple[list[int], list[int]], seed: int, explain: bool
) -> None:
    parents, tokens = drafted
    tree = Tree(tuple(parents))
    contexts = [[tokens[i] for i in tree.path(node)] for node in range(len(tree))]
    accepted = accept(parents, tokens, [plain_choice(context, seed) for context in contexts], explain=explain)

    written = [*(tokens[node] for node in accepted.path), accepted.next_token]
    plain = [tokens[0]]
    while len(plain) < len(written):
        plain.append(plain_choice(plain, seed))
    assert written == plain
    # Nothing right was left behind: no child of the last node is what the model says next.
    assert all(tokens[child] != accepted.next_token for child in tree.children[accepted.path[-1]])
    kept = set(accepted.path)
    assert set(accepted.verdicts) == {node for node in range(1, len(tree)) if parents[node] in kept}
