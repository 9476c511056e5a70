"""Trees from parent indices: every shape that is one, and none that is not. Knows no tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import TreeError
from medusa_core.tree import ROOT_ONLY, RankedTree, Tree

#           0
#         / | \
#        1  2  5
#       / \    |
#      3   4   6
#      |
#      7
PARENTS = (0, 0, 0, 1, 1, 0, 5, 3)


@st.composite
def trees(draw: st.DrawFn, largest: int = 24) -> Tree:
    size = draw(st.integers(1, largest))
    return Tree((0, *(draw(st.integers(0, node - 1)) for node in range(1, size))))


def ranked(tree: Tree) -> RankedTree:
    """Children ranked in their order, spaced out so that a rank is no index."""
    ranks = [0] * len(tree)
    for children in tree.children:
        for place, child in enumerate(children):
            ranks[child] = 2 * place
    return RankedTree(tree, tuple(ranks))


def test_a_drawn_tree() -> None:
    tree = Tree(PARENTS)
    assert len(tree) == 8
    assert tree.depths == (0, 1, 1, 2, 2, 1, 2, 3)
    assert tree.children == ((1, 2, 5), (3, 4), (), (7,), (), (6,), (), ())
    assert tree.leaves == (2, 4, 6, 7)
    assert tree.path(7) == (0, 1, 3, 7)
    assert tree.path(0) == (0,)
    assert tree.mask[7] == (True, True, False, True, False, False, False, True)
    assert tree.mask[5] == (True, False, False, False, False, True, False, False)


@given(trees())
def test_a_mask_row_is_the_parents_row_plus_the_node(tree: Tree) -> None:
    assert tree.mask[0] == (True, *(False,) * (len(tree) - 1))
    for node, parent in enumerate(tree.parents[1:], 1):
        expected = set(_seen(tree, parent)) | {node}
        assert set(_seen(tree, node)) == expected


@given(trees())
def test_a_node_sees_its_path_and_nothing_else(tree: Tree) -> None:
    for node in range(len(tree)):
        assert tuple(_seen(tree, node)) == tree.path(node)


@given(trees())
def test_depth_is_the_sum_of_the_mask_row_less_one(tree: Tree) -> None:
    assert tree.depths == tuple(sum(row) - 1 for row in tree.mask)


@given(trees())
def test_children_and_parents_say_the_same(tree: Tree) -> None:
    pairs = {(parent, child) for parent, children in enumerate(tree.children) for child in children}
    assert pairs == {(parent, node) for node, parent in enumerate(tree.parents) if node}
    assert set(tree.leaves) == set(range(len(tree))) - {parent for parent, _ in pairs}


@given(trees(), st.integers(-3, 40))
def test_every_prefix_is_a_tree_that_looks_the_same(tree: Tree, nodes: int) -> None:
    part = tree.first(nodes)
    kept = min(max(nodes, 1), len(tree))
    assert part.parents == tree.parents[:kept]
    assert part.depths == tree.depths[:kept]
    assert part.mask == tuple(row[:kept] for row in tree.mask[:kept])


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ((), "begin with 0"),
        ((1,), r"begin with 0.*\[1\]"),
        ((-1, 0), "begin with 0"),
        ((0, 1), "node 1 has parent 1"),
        ((0, 0, 3, 0), "node 2 has parent 3"),
        ((0, 0, -1), "node 2 has parent -1"),
    ],
)
def test_parents_that_are_no_tree_are_refused(parents: tuple[int, ...], message: str) -> None:
    with pytest.raises(TreeError, match=message):
        Tree(parents)


@given(trees(), st.data())
def test_a_parent_that_does_not_come_before_its_node_is_refused(tree: Tree, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(tree) - 1))
    bad = data.draw(st.integers(max(node, 1), len(tree) + 3) | st.integers(-5, -1))
    with pytest.raises(TreeError):
        Tree((*tree.parents[:node], bad, *tree.parents[node + 1 :]))


def test_trees_of_the_same_parents_are_equal_whatever_was_asked_of_them() -> None:
    asked, other = Tree(PARENTS), Tree(PARENTS)
    assert asked.mask
    assert asked == other
    assert hash(asked) == hash(other)
    assert Tree((0,)) == ROOT_ONLY


@given(trees())
def test_json_brings_the_same_tree_back(tree: Tree) -> None:
    assert RankedTree.from_json(ranked(tree).to_json()) == ranked(tree)


def test_the_file_holds_plain_parents_and_ranks(tmp_path: Path) -> None:
    file = tmp_path / "tree.json"
    tree = RankedTree(Tree((0, 0, 1)), (0, 0, 3))
    tree.save(file)
    assert json.loads(file.read_text()) == {
        "format": "medusa-tree",
        "version": 1,
        "parents": [0, 0, 1],
        "ranks": [0, 0, 3],
    }
    assert RankedTree.load(file) == tree


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "medusa-tree"),
        ({"version": 2}, "version 2.*reads version 1"),
        ({"version": None}, "version None"),
        ({"parents": [0, 1]}, "node 1 has parent 1"),
        ({"parents": "00"}, "'parents' must be a list of whole numbers"),
        ({"parents": [0, 0.0]}, "'parents' must be a list of whole numbers"),
        ({"parents": [0, False]}, "'parents' must be a list of whole numbers"),
        ({"ranks": None}, "'ranks' must be a list"),
        ({"ranks": [0]}, "2 nodes but 1 ranks"),
        ({"ranks": [0, -1]}, "negative; got -1"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(tmp_path: Path, change: dict[str, object], message: str) -> None:
    file = tmp_path / "tree.json"
    whole = {"format": "medusa-tree", "version": 1, "parents": [0, 0], "ranks": [0, 0]}
    file.write_text(json.dumps({**whole, **change}))
    with pytest.raises(TreeError, match=message) as caught:
        RankedTree.load(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff\xfe"])
def test_a_file_that_holds_no_tree_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tree.json"
    file.write_bytes(content)
    with pytest.raises(TreeError, match=r"tree\.json"):
        RankedTree.load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match=r"absent\.json"):
        RankedTree.load(tmp_path / "absent.json")


def test_two_children_of_one_node_cannot_be_the_same_guess() -> None:
    with pytest.raises(TreeError, match=r"children of node 1 have the same rank: \[4, 4\]"):
        RankedTree(Tree((0, 0, 1, 1)), (0, 0, 4, 4))
    assert RankedTree(Tree((0, 0, 0, 1)), (0, 4, 1, 4)).depth == 2  # cousins can


@given(trees(), st.integers(1, 30))
def test_the_first_nodes_keep_their_ranks(tree: Tree, nodes: int) -> None:
    whole = ranked(tree)
    part = whole.first(nodes)
    assert part.tree == tree.first(nodes)
    assert part.ranks == whole.ranks[: len(part.tree)]


def test_the_part_for_fewer_heads() -> None:
    whole = RankedTree(Tree(PARENTS), (0, 0, 1, 0, 1, 2, 5, 7))
    assert whole.depth == 3
    assert whole.within(3) == whole
    assert whole.within(2) == RankedTree(Tree(PARENTS[:7]), (0, 0, 1, 0, 1, 2, 5))
    assert whole.within(1) == RankedTree(Tree((0, 0, 0, 0)), (0, 0, 1, 2))
    assert whole.within(0) == RankedTree(ROOT_ONLY, (0,))


@given(trees(), st.integers(0, 6))
def test_the_part_for_fewer_heads_keeps_every_shallow_path(tree: Tree, heads: int) -> None:
    whole = ranked(tree)
    part = whole.within(heads)
    expected = [_rank_path(whole, node) for node, depth in enumerate(tree.depths) if depth <= heads]
    assert [_rank_path(part, node) for node in range(len(part.tree))] == expected


def _seen(tree: Tree, node: int) -> list[int]:
    return [other for other, visible in enumerate(tree.mask[node]) if visible]


def _rank_path(tree: RankedTree, node: int) -> tuple[int, ...]:
    return tuple(tree.ranks[i] for i in tree.tree.path(node))
