"""The search against brute force over all small trees, and counting by hand. Knows no model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core import tree_search
from medusa_core.errors import TreeError
from medusa_core.tree import RankedTree
from medusa_core.tree_search import (
    Path,
    best_branching,
    best_size,
    count_paths,
    dense_tree,
    expected_curve,
    expected_tokens,
    tree_from_accuracies,
    tree_from_paths,
)

HEADS, RANKS = 3, 2  # 2 + 4 + 8 paths
ALL_PATHS: list[Path] = [path for depth in range(1, HEADS + 1) for path in product(range(RANKS), repeat=depth)]

observations = st.lists(st.lists(st.integers(0, RANKS), max_size=HEADS), max_size=30)
accuracies = st.lists(st.lists(st.floats(0.01, 1.0), min_size=RANKS, max_size=RANKS), min_size=HEADS, max_size=HEADS)


def paths_of(tree: RankedTree) -> list[Path]:
    return [tuple(tree.ranks[i] for i in tree.tree.path(node)[1:]) for node in range(1, len(tree.tree))]


def all_trees(nodes: int) -> Iterator[tuple[Path, ...]]:
    """Every set of at most `nodes` - 1 paths that holds each path's prefix."""
    for size in range(nodes):
        for chosen in combinations(ALL_PATHS, size):
            if all(len(path) == 1 or path[:-1] in chosen for path in chosen):
                yield chosen


def brute_force(nodes: int, gain: Callable[[Path], float]) -> float:
    return max(sum(map(gain, chosen)) for chosen in all_trees(nodes))


def test_counting_by_hand() -> None:
    steps = [
        (0, 1, 0),  # right at ranks 0, 1, 0
        (0, 1, 7),  # head 3 missed
        (0, 9),  # head 2 missed
        (3, 0, 0),  # rank 3 is beyond the three guesses: nothing after it counts
        (2,),
        (),
    ]
    assert count_paths(steps, max_rank=3) == {(0,): 3, (0, 1): 2, (0, 1, 0): 1, (2,): 1}


@given(observations)
def test_a_path_was_right_no_more_often_than_its_beginning(steps: list[list[int]]) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    assert all(counts[path] <= counts[path[:-1]] for path in counts if len(path) > 1)
    assert all(rank < RANKS for path in counts for rank in path)
    firsts = sum(count for path, count in counts.items() if len(path) == 1)
    assert firsts == sum(1 for step in steps if step and step[0] < RANKS)


@given(observations, st.integers(1, 6))
def test_no_tree_of_counted_paths_is_better(steps: list[list[int]], nodes: int) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    tree = tree_from_paths(counts, nodes)
    assert len(tree.tree) <= nodes
    assert sum(counts[path] for path in paths_of(tree)) == brute_force(nodes, lambda path: counts[path])


@given(accuracies, st.integers(1, 6))
def test_no_tree_of_accuracies_is_better(heads: list[list[float]], nodes: int) -> None:
    def gain(path: Path) -> float:
        return math.prod(heads[depth][rank] for depth, rank in enumerate(path))

    tree = tree_from_accuracies(heads, nodes)
    assert len(tree.tree) == nodes
    assert sum(map(gain, paths_of(tree))) == pytest.approx(brute_force(nodes, gain), rel=1e-12)


@given(observations, st.integers(1, 16), st.integers(1, 16))
def test_the_best_small_tree_is_the_beginning_of_the_best_large_one(
    steps: list[list[int]], few: int, many: int
) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    few, many = sorted((few, many))
    assert tree_from_paths(counts, few) == tree_from_paths(counts, many).first(few)


@given(observations)
def test_nodes_come_in_order_of_gain(steps: list[list[int]]) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    gains = [counts[path] for path in paths_of(tree_from_paths(counts, 100))]
    assert gains == sorted(gains, reverse=True)
    assert 0 not in gains


def test_equal_gains_prefer_the_shorter_path_then_the_likelier_rank() -> None:
    counts = Counter({(1,): 2, (0,): 2, (0, 0): 2, (1, 1): 1})
    assert paths_of(tree_from_paths(counts, 10)) == [(0,), (1,), (0, 0), (1, 1)]


def test_a_guess_never_once_right_takes_no_room() -> None:
    tree = tree_from_accuracies([[0.5, 0.0], [0.0, 0.2]], nodes=10)
    assert paths_of(tree) == [(0,), (0, 1)]


def test_heads_may_have_different_numbers_of_guesses() -> None:
    tree = tree_from_accuracies([[0.6, 0.3, 0.05], [0.5]], nodes=10)
    assert paths_of(tree) == [(0,), (1,), (0, 0), (1, 0), (2,), (2, 0)]


def test_nothing_observed_is_a_root_alone() -> None:
    assert len(tree_from_paths(Counter(), 8).tree) == 1
    assert len(tree_from_accuracies([], 8).tree) == 1


@pytest.mark.parametrize("nodes", [0, -1])
def test_a_tree_without_a_root_is_refused(nodes: int) -> None:
    with pytest.raises(TreeError, match=f"{nodes} nodes asked for"):
        tree_from_paths(Counter(), nodes)


def test_expected_tokens_by_hand() -> None:
    counts = count_paths([(0, 0), (0, 1), (1,), (5,)], max_rank=3)
    tree = tree_from_paths(counts, 3)
    assert paths_of(tree) == [(0,), (1,)]
    assert expected_tokens(tree, counts, steps=4) == 1 + 2 / 4 + 1 / 4
    assert expected_tokens(tree, Counter(), steps=0) == 1


@given(observations, st.integers(1, 16))
def test_expected_tokens_are_what_the_tree_would_have_kept(steps: list[list[int]], nodes: int) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    tree = tree_from_paths(counts, nodes)
    known = set(paths_of(tree))
    kept = sum(1 + sum(tuple(step[:depth]) in known for depth in range(1, len(step) + 1)) for step in steps)
    assert expected_tokens(tree, counts, len(steps)) == pytest.approx(kept / len(steps) if steps else 1)


def test_the_curve_is_the_expectation_of_every_size() -> None:
    counts = count_paths([(0, 0), (0, 1), (1,), (5,)], max_rank=3)
    tree = tree_from_paths(counts, 9)
    assert tree_search.paths_of(tree) == paths_of(tree)
    curve = expected_curve(tree, counts, 4)
    assert curve == tuple(expected_tokens(tree.first(nodes), counts, 4) for nodes in range(1, len(tree.tree) + 1))
    assert curve[0] == 1


def test_a_dense_tree_by_hand() -> None:
    tree = dense_tree((2, 3))
    assert tree.tree.parents == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert tree.ranks == (0, 0, 1, 0, 1, 2, 0, 1, 2)
    assert dense_tree(()).tree.parents == (0,)
    with pytest.raises(TreeError, match="at least one child"):
        dense_tree((2, 0))


@given(observations, st.integers(0, 16))
def test_no_dense_tree_is_better_than_the_best_of_them(steps: list[list[int]], nodes: int) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    branching = best_branching(counts, nodes)
    found = dense_tree(branching)
    assert len(found.tree) <= nodes + 1
    for depth in range(HEADS + 1):
        for other in product(range(1, RANKS + 1), repeat=depth):
            tree = dense_tree(other)
            if len(tree.tree) <= nodes + 1:
                assert expected_tokens(tree, counts, len(steps)) <= expected_tokens(found, counts, len(steps))


@given(observations, st.integers(0, 16))
def test_the_sparse_tree_is_never_worse_than_a_dense_one_of_its_size(steps: list[list[int]], nodes: int) -> None:
    counts = count_paths(steps, max_rank=RANKS)
    sparse = expected_tokens(tree_from_paths(counts, nodes + 1), counts, len(steps))
    assert sparse >= expected_tokens(dense_tree(best_branching(counts, nodes)), counts, len(steps))


def test_the_size_is_chosen_by_tokens_a_second() -> None:
    curve = best_size([1.0, 1.6, 1.9, 2.0], [1.0, 1.1, 1.2, 2.0])
    assert curve.nodes == 2
    assert curve.tokens_per_second == pytest.approx((1.0, 1.6 / 1.1, 1.9 / 1.2, 1.0))
    assert best_size([1.0, 1.6], [1.0, 1.6]).nodes == 0, "equally fast: the smaller"
    assert best_size([1.0, 1.6], [1.0, 9.0, 9.0]).nodes == 0, "as far as both go"
    with pytest.raises(TreeError, match="no size"):
        best_size([], [])
