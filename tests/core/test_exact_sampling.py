"""fp32 sampling through any tree equals plain sampling with the same seed, token for token, on a whole model."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch

from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.acceptance.speculative import SamplingRule
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import SamplingAcceptance
from medusa_core.drafters.base import Drafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.engine import Engine
from medusa_core.events import Finished, Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.sampling import distribution, uniform
from medusa_core.state import State
from medusa_core.testing import ScriptedDrafter
from medusa_core.tree import Tree

PROMPT = list(b"Perseus came back with the head")
CONFIGS = [
    SamplingAcceptance(temperature=1.0, top_p=1.0),
    SamplingAcceptance(temperature=0.9, top_p=0.9, repetition_penalty=1.3),
    SamplingAcceptance(temperature=1.5, top_p=0.97, top_k=40, min_p=0.01, repetition_penalty=1.1),
]


class RandomTrees:
    """Trees of random shape; some of their nodes hold what the reply goes on with, the others anything."""

    def __init__(self, reply: Sequence[int], seed: int) -> None:
        self._reply, self._rng = reply, random.Random(seed)

    def propose(self, state: State, room: int) -> CandidateTree:
        size = min(room, self._rng.randint(1, 24))
        tree = Tree((0, *(self._rng.randrange(max(0, node - 6), node) for node in range(1, size))))
        place = len(state.reply)
        tokens = [state.root]
        for depth in tree.depths[1:]:
            known = place + depth < len(self._reply) and self._rng.random() < 0.5
            tokens.append(self._reply[place + depth] if known else self._rng.randrange(264))
        drafted = size - 1
        sources = (Source.MODEL, *(Source.HEAD,) * drafted)
        return CandidateTree(tree, tuple(tokens), (0,) * size, (None, *(0.5,) * drafted), sources)

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Random trees do not learn."""


@pytest.fixture
def backbone(tiny_backbone: Callable[..., LeanBackbone]) -> LeanBackbone:
    return tiny_backbone()


def decode(
    backbone: LeanBackbone, drafter: Drafter, config: SamplingAcceptance, seed: int, *, explain: bool = False
) -> Finished:
    rule = SamplingRule(config, seed, explain=explain)
    engine = Engine(backbone, drafter, rule, stop_ids=frozenset(), max_new_tokens=32)
    *_, finished = engine.generate(State(backbone.new_cache()), PROMPT)
    assert isinstance(finished, Finished)
    return finished


@pytest.mark.parametrize("seed", [0, 1, 2**40])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_same_seed_gives_the_same_reply_with_any_drafter(
    backbone: LeanBackbone, config: SamplingAcceptance, seed: int
) -> None:
    plain = decode(backbone, NoDrafter(), config, seed)
    scripted = decode(backbone, ScriptedDrafter(plain.token_ids), config, seed)
    trees = decode(backbone, RandomTrees(plain.token_ids, seed + 1), config, seed, explain=True)
    unhelpful = decode(backbone, RandomTrees([], seed), config, seed)
    assert plain.tokens == 32
    assert plain.token_ids == scripted.token_ids == trees.token_ids == unhelpful.token_ids
    assert scripted.steps <= plain.steps / 2  # whole paths were kept, not only roots
    assert trees.steps < plain.steps


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_another_seed_gives_another_reply(backbone: LeanBackbone, config: SamplingAcceptance) -> None:
    assert len({decode(backbone, NoDrafter(), config, seed).token_ids for seed in range(5)}) == 5


@torch.inference_mode()
def test_every_token_is_the_draw_from_the_whole_text_before_it(backbone: LeanBackbone) -> None:
    """The first one too; each from a pass over the whole text, without cache or tree."""
    config = CONFIGS[1]
    context = list(PROMPT)
    for token in decode(backbone, RandomTrees([], 3), config, 7).token_ids[:12]:
        hidden = backbone.forward(torch.tensor(context), torch.arange(len(context)), None, backbone.new_cache())
        own = distribution(backbone.logits(hidden[-1:])[0], config, context)
        assert token == own.draw(uniform(7, len(context)))
        context.append(token)


def test_temperature_0_is_the_models_greedy_reply(backbone: LeanBackbone) -> None:
    engine = Engine(backbone, NoDrafter(), GreedyRule(), stop_ids=frozenset(), max_new_tokens=32)
    *_, greedy = engine.generate(State(backbone.new_cache()), PROMPT)
    assert isinstance(greedy, Finished)
    sampled = decode(backbone, RandomTrees(greedy.token_ids, 5), SamplingAcceptance(temperature=0.0), 5)
    assert sampled.token_ids == greedy.token_ids
