"""One pass over a tree gives every node what a pass over its own path alone would."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.events import Source
from medusa_core.records import CandidateTree
from medusa_core.state import State
from medusa_core.tree import Tree
from medusa_core.verify import verify

CONTEXT = [72, 101, 108, 108, 111]


@torch.inference_mode()
def having_read(backbone: LeanBackbone, tokens: list[int]) -> tuple[State, torch.Tensor]:
    state = State(backbone.new_cache())
    hidden = backbone.forward(torch.tensor(tokens), torch.arange(len(tokens)), None, state.cache)
    return state, hidden


trees = st.lists(st.integers(0, 10**6), max_size=11).map(
    lambda seeds: Tree((0, *(seed % (node + 1) for node, seed in enumerate(seeds))))
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees, data=st.data())
def test_every_node_is_scored_as_if_its_path_were_read_alone(
    tiny_backbone: Callable[..., LeanBackbone], tree: Tree, data: st.DataObject
) -> None:
    backbone = tiny_backbone("qwen2")
    tokens = data.draw(st.lists(st.integers(0, 263), min_size=len(tree), max_size=len(tree)))
    state, _ = having_read(backbone, CONTEXT)
    count = len(tree)
    candidates = CandidateTree(
        tree, tuple(tokens), (0,) * count, (None,) * count, (Source.MODEL, *[Source.HEAD] * (count - 1))
    )
    with torch.inference_mode():
        scores = verify(backbone, state, candidates)
    assert state.cache.length == len(CONTEXT) + count
    for node in range(count):
        _, hidden = having_read(backbone, [*CONTEXT, *(tokens[n] for n in tree.path(node))])
        torch.testing.assert_close(scores.hidden[node], hidden[-1], rtol=0, atol=1e-4)
        torch.testing.assert_close(scores.logits[node], backbone.logits(hidden[-1:])[0], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_shapes_of_large_trees_do_not_fill_memory(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    backbone, seen = tiny_backbone("llama"), []
    for shape in range(40):
        tree = Tree((0, *(node % (shape + 2) if node > shape + 2 else 0 for node in range(1, 60))))
        count = len(tree)
        candidates = CandidateTree(
            tree, (1,) * count, (0,) * count, (None,) * count, (Source.MODEL, *[Source.HEAD] * (count - 1))
        )
        state, _ = having_read(backbone, CONTEXT)
        verify(backbone, state, candidates)
        seen.append(weakref.ref(tree))
        del tree, candidates
    gc.collect()
    assert sum(tree() is not None for tree in seen) <= 16
