"""The heads' guesses in the places of the tree."""

from __future__ import annotations

import pytest
import torch

from medusa_core.drafters.medusa import MedusaDrafter
from medusa_core.drafters.sharpening import CLASSES, probability_class
from medusa_core.events import Source
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.state import State
from medusa_core.tree import RankedTree, Tree
from tests.core.drafters.tables import EmptyCache

H, V = 6, 30
TREE = RankedTree(Tree((0, 0, 0, 1, 2, 3, 5)), (0, 0, 2, 1, 0, 0, 0))  # four levels; rank 1 of head 1 is left out
TOKEN_MAP = torch.tensor([29, 3, 7, 12, 20])


@pytest.fixture
def state() -> State:
    state = State(EmptyCache())
    torch.manual_seed(3)
    state.set_root(21, torch.randn(H))
    return state


def heads(count: int = 4, token_map: torch.Tensor | None = None) -> MedusaHeads:
    size = V if token_map is None else len(token_map)
    shape = HeadsShape(
        num_heads=count, num_layers=1, hidden_size=H, vocab_size=V, draft_vocab_size=size, shared_output=True
    )
    torch.manual_seed(4)
    made = MedusaHeads(shape, torch.randn(V, H), token_map)
    with torch.no_grad():
        made.w1.normal_()
    return made.requires_grad_(False)


@pytest.mark.parametrize("token_map", [None, TOKEN_MAP])
def test_a_node_is_its_heads_guess_of_its_rank(state: State, token_map: torch.Tensor | None) -> None:
    made = heads(token_map=token_map)
    candidates = MedusaDrafter(made, TREE, nodes=16).propose(state, room=100)
    assert candidates.tree == TREE.tree
    assert (candidates.token_ids[0], candidates.sources[0], candidates.draft_probabilities[0]) == (
        21,
        Source.MODEL,
        None,
    )
    for node in range(1, len(TREE.tree)):
        probabilities = made(state.hidden[None])[TREE.tree.depths[node] - 1, 0].softmax(-1)
        index = int(probabilities.argsort(descending=True)[TREE.ranks[node]])
        assert candidates.token_ids[node] == (index if token_map is None else int(token_map[index]))
        assert candidates.draft_probabilities[node] == pytest.approx(float(probabilities[index]))
    assert set(candidates.sources[1:]) == {Source.HEAD}
    assert candidates.ranks == TREE.ranks


@pytest.mark.parametrize(("nodes", "room", "size"), [(16, 100, 7), (3, 100, 4), (16, 4, 4), (2, 4, 3), (16, 1, 1)])
def test_the_tree_is_cut_to_the_nodes_asked_for_and_the_room_left(
    state: State, nodes: int, room: int, size: int
) -> None:
    candidates = MedusaDrafter(heads(), TREE, nodes).propose(state, room)
    assert candidates.tree == TREE.tree.first(size)
    assert len(candidates.token_ids) == len(candidates.ranks) == len(candidates.sources) == size


def test_a_tree_deeper_than_the_heads_is_cut(state: State) -> None:
    candidates = MedusaDrafter(heads(count=2), TREE, nodes=16).propose(state, room=100)
    assert max(candidates.tree.depths) == 2


def test_siblings_are_never_the_same_token(state: State) -> None:
    wide = RankedTree(Tree((0, *[0] * 20)), (0, *range(20)))
    candidates = MedusaDrafter(heads(count=1), wide, nodes=20).propose(state, room=100)
    assert len(set(candidates.token_ids[1:])) == 20
    probabilities = [value for value in candidates.draft_probabilities if value is not None]
    assert probabilities == sorted(probabilities, reverse=True)


def test_classes_of_probability_halve() -> None:
    classes = {p: probability_class(p) for p in (1.0, 0.51, 0.5, 0.49, 0.26, 0.24, 2**-6.5, 2**-7.5, 1e-12, 0.0)}
    assert list(classes.values()) == [0, 0, 0, 1, 1, 2, 6, 7, 7, 7]
    assert CLASSES == 8
