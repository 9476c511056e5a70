"""Which drafter the options give, and what it remembers."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone.cost import CostTable
from medusa_core.config import DRAFTERS, DecodingConfig, DrafterName
from medusa_core.drafters.choice import Drafters
from medusa_core.drafters.hybrid import HybridDrafter
from medusa_core.drafters.medusa import MedusaDrafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.drafters.sizing import FixedSize, MeasuredSize
from medusa_core.events import Source
from medusa_core.head_statistics import HeadStatistics, PathStatistics
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.state import State
from medusa_core.tree import RankedTree, Tree
from tests.core.drafters.tables import EmptyCache

H, V = 6, 30
TREE = RankedTree(Tree((0, 0, 1, 0)), (0, 0, 0, 1))
CHEAP = CostTable((), (1, 64), (128,), ((0.02, 0.0201),), 0.0001)
DEAR = CostTable((), (1, 64), (128,), ((0.02, 1.0),), 0.0001)


@pytest.fixture
def state() -> State:
    state = State(EmptyCache(200))
    state.context = [1, 2, 3, 1]
    torch.manual_seed(3)
    state.set_root(2, torch.randn(H))
    return state


def statistics() -> HeadStatistics:
    part = PathStatistics(100, (100, 100), ((60, 10), (50, 10)), (((0,), 60), ((0, 0), 40), ((1,), 10)))
    return HeadStatistics(greedy=part, sampled=part, temperatures=(2.0, 0.5), precision="fp32")


def checkpoint(measured: HeadStatistics | None = None) -> HeadsCheckpoint:
    shape = HeadsShape(num_heads=2, num_layers=1, hidden_size=H, vocab_size=V, draft_vocab_size=V, shared_output=True)
    torch.manual_seed(4)
    heads = MedusaHeads(shape, torch.randn(V, H)).requires_grad_(False)
    return HeadsCheckpoint(heads, TREE, BaseModel("tiny", "llama", "0"), statistics=measured)


def config(drafter: DrafterName, nodes: int = 8) -> DecodingConfig:
    return DecodingConfig(drafter=drafter, nodes=nodes, tree="grown")


@pytest.mark.parametrize(
    ("drafter", "sources"),
    [
        ("auto", {Source.HEAD, Source.LOOKUP}),
        ("hybrid", {Source.HEAD, Source.LOOKUP}),
        ("medusa", {Source.HEAD}),
        ("lookup", {Source.LOOKUP}),
        ("recycling", set()),  # nothing was seen yet
    ],
)
def test_every_drafter_guesses_from_its_own_sources(state: State, drafter: DrafterName, sources: set[Source]) -> None:
    candidates = Drafters(checkpoint(), V, None).drafter(config(drafter)).propose(state, 100)
    assert candidates.sources[0] is Source.MODEL
    assert set(candidates.sources[1:]) == sources
    assert len(candidates.tree) <= 9


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_without_heads_the_others_go_on(state: State, drafter: DrafterName) -> None:
    made = Drafters(None, V, None).drafter(config(drafter))
    assert isinstance(made, NoDrafter) == (drafter in ("medusa", "none"))
    assert Source.HEAD not in made.propose(state, 100).sources


@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_tree_keeps_within_the_room(state: State, room: int) -> None:
    assert len(Drafters(checkpoint(), V, None).drafter(config("hybrid")).propose(state, room).tree) <= room


def test_the_size_is_measured_where_costs_are_known(state: State) -> None:
    for costs, nodes, kind in ((CHEAP, 0, MeasuredSize), (CHEAP, 5, FixedSize), (None, 0, FixedSize)):
        made = Drafters(checkpoint(), V, costs).drafter(config("auto", nodes))
        assert isinstance(made, HybridDrafter)
        assert type(made._sizing) is kind
    cheap, dear = (
        len(Drafters(checkpoint(), V, costs).drafter(config("auto", 0)).propose(state, 100).tree)
        for costs in (CHEAP, DEAR)
    )
    assert cheap > 8 > dear


def test_the_calibrated_tree_has_the_size_that_pays(state: State) -> None:
    sizes = []
    for measured, costs, nodes in (
        (statistics(), CHEAP, 0),
        (statistics(), DEAR, 0),
        (statistics(), DEAR, 2),
        (None, DEAR, 0),
    ):
        wanted = DecodingConfig(drafter="medusa", nodes=nodes, tree="ranked")
        made = Drafters(checkpoint(measured), V, costs).drafter(wanted)
        assert isinstance(made, MedusaDrafter)
        sizes.append(len(made.propose(state, 100).tree))
    assert sizes == [4, 2, 3, 4]


def test_probabilities_are_calibrated_by_temperature(state: State) -> None:
    plain, measured = checkpoint(), checkpoint(statistics())
    logits = plain.heads(state.hidden[None], torch.tensor([2]))[:, 0]
    for tree in ("grown", "ranked"):
        candidates = (
            Drafters(measured, V, None)
            .drafter(DecodingConfig(drafter="medusa", nodes=3, tree=tree))  # type: ignore[arg-type]
            .propose(state, 100)
        )
        for node in range(1, len(candidates.tree)):
            head = candidates.tree.depths[node] - 1
            expected = (logits[head] / (2.0, 0.5)[head]).softmax(-1)[candidates.token_ids[node]]
            assert candidates.draft_probabilities[node] == pytest.approx(float(expected), rel=0.05)


def test_what_is_learnt_stays_from_reply_to_reply() -> None:
    drafters = Drafters(checkpoint(), V, CHEAP)
    first, second = drafters.drafter(config("auto", 0)), drafters.drafter(config("hybrid", 0))
    assert isinstance(first, HybridDrafter)
    assert isinstance(second, HybridDrafter)
    assert first._grower is second._grower
    assert first._sizing is second._sizing
