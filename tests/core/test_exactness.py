"""fp32 greedy through the tree equals plain greedy and transformers' own, token for token; a damaged mask shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from medusa_core import verify
from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.backbone.base import Backbone
from medusa_core.backbone.cost import CostTable
from medusa_core.backbone.load import make_backbone, make_spec
from medusa_core.backbone.stock import StockBackbone
from medusa_core.config import DRAFTERS, DecodingConfig, DrafterName, TreeKind
from medusa_core.drafters.base import Drafter
from medusa_core.drafters.choice import Drafters
from medusa_core.drafters.medusa import MedusaDrafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.engine import Engine
from medusa_core.events import Finished
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.state import State
from medusa_core.testing import ScriptedDrafter
from medusa_core.tiny import END_ID, tiny_model, tiny_tokenizer
from medusa_core.tree import RankedTree, Tree

STOP = frozenset({END_ID})
MODELS = [("llama", False), ("llama", True), ("qwen2", False), ("qwen2", True), ("mistral", False), ("mistral", True)]
PROMPTS = [list(b"Perseus came back with the head"), list(b"42"), list(range(100, 140))]


def decode(
    backbone: Backbone, drafter: Drafter, prompt: list[int], count: int, stop_ids: frozenset[int] = STOP
) -> Finished:
    engine = Engine(backbone, drafter, GreedyRule(), stop_ids=stop_ids, max_new_tokens=count)
    *_, finished = engine.generate(State(backbone.new_cache()), prompt)
    assert isinstance(finished, Finished)
    return finished


def by_transformers(model: Any, prompt: list[int], count: int, end: int = END_ID) -> tuple[int, ...]:
    """transformers' greedy reply, without the token that ended it."""
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        reply = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=count,
            eos_token_id=end,
            pad_token_id=end,
        )[0, len(prompt) :].tolist()
    return tuple(reply[: reply.index(end)] if end in reply else reply)


TREE = RankedTree(Tree((0, 0, 0, 1, 1, 2, 3, 4)), (0, 0, 1, 0, 1, 0, 0, 2))


def checkpoint(backbone: Backbone) -> HeadsCheckpoint:
    """Heads that guess badly, with a wide tree."""
    spec = backbone.spec
    shape = HeadsShape(
        num_heads=3,
        num_layers=1,
        hidden_size=spec.hidden_size,
        vocab_size=spec.vocab_size,
        draft_vocab_size=spec.vocab_size,
        shared_output=True,
    )
    heads = MedusaHeads(shape, backbone.output_weight)
    return HeadsCheckpoint(heads, TREE, BaseModel(spec.name, spec.family, spec.fingerprint))


def random_heads(backbone: Backbone) -> MedusaDrafter:
    """Almost every node is a wrong one."""
    return MedusaDrafter(checkpoint(backbone).heads, TREE, nodes=16)


@cache
def reference(family: str, tied: bool) -> tuple[Backbone, list[tuple[int, ...]]]:
    """A tiny random model and transformers' replies to the prompts."""
    model = tiny_model(family, tied=tied, seed=3)
    backbone = make_backbone(model, make_spec(model, tiny_tokenizer(), "tiny"), keep_model=True)
    return backbone, [by_transformers(model, prompt, 40) for prompt in PROMPTS]


@pytest.mark.parametrize(("family", "tied"), MODELS)
def test_tiny_models_write_the_same_tokens_each_way(family: str, tied: bool) -> None:
    backbone, replies = reference(family, tied)
    for prompt, expected in zip(PROMPTS, replies, strict=True):
        plain = decode(backbone, NoDrafter(), prompt, 40)
        scripted = decode(backbone, ScriptedDrafter(expected), prompt, 40)
        drafted = decode(backbone, random_heads(backbone), prompt, 40)
        assert plain.token_ids == scripted.token_ids == drafted.token_ids == expected
        assert scripted.steps <= plain.steps / 2  # whole paths were kept, not only roots


COSTS = CostTable((), (1, 16), (64,), ((0.01, 0.012),), 0.001)


@pytest.mark.parametrize("nodes", [0, 5, 64])
@pytest.mark.parametrize(("drafter", "tree"), [(name, "grown") for name in DRAFTERS] + [("medusa", "ranked")])
def test_every_drafter_of_any_size_writes_the_same_tokens(drafter: DrafterName, tree: TreeKind, nodes: int) -> None:
    """Reply after reply, so that texts, successors and earnings of the replies before are used."""
    backbone, replies = reference("qwen2", True)
    drafters = Drafters(checkpoint(backbone), backbone.spec.vocab_size, COSTS)
    drafting = drafters.drafter(DecodingConfig(drafter=drafter, nodes=nodes, tree=tree))
    for prompt, expected in [*zip(PROMPTS, replies, strict=True)] * 2:
        assert decode(backbone, drafting, prompt, 40).token_ids == expected


@pytest.mark.parametrize("drafter", ["recycling", "auto", "hybrid"])
def test_a_reply_written_before_takes_fewer_steps(drafter: DrafterName) -> None:
    """Its tokens are recycled; without heads, too."""
    backbone, replies = reference("llama", True)
    drafting = Drafters(None, backbone.spec.vocab_size, None).drafter(DecodingConfig(drafter=drafter, nodes=16))
    first, again = (decode(backbone, drafting, PROMPTS[0], 40) for _ in range(2))
    assert first.token_ids == again.token_ids == replies[0]
    assert again.steps <= 0.75 * first.steps


def test_the_stock_pass_writes_the_same_tokens() -> None:
    model = tiny_model("llama", seed=3)
    backbone = StockBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    expected = by_transformers(model, PROMPTS[0], 30)
    assert decode(backbone, ScriptedDrafter(expected), PROMPTS[0], 30).token_ids == expected


def test_the_default_model_writes_the_same_tokens_each_way(default_model_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(default_model_folder, dtype=torch.float32).eval().requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(default_model_folder)
    backbone = make_backbone(model, make_spec(model, tokenizer, "default"), keep_model=True)
    end = tokenizer.eos_token_id
    prompt = tokenizer.encode("<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n")
    expected = by_transformers(model, prompt, 24, end)
    for drafter in (NoDrafter(), ScriptedDrafter(expected), random_heads(backbone)):
        assert decode(backbone, drafter, prompt, 24, frozenset({end})).token_ids == expected


def shuffled(tree: Tree) -> list[tuple[bool, ...]]:
    """Every node takes over its neighbour's view."""
    mask = list(true_mask(tree))
    return [*mask[1:], mask[0]]


def without_ancestors(tree: Tree) -> list[tuple[bool, ...]]:
    return [tuple(i == j for j in range(len(tree))) for i in range(len(tree))]


def causal(tree: Tree) -> list[tuple[bool, ...]]:
    """Siblings see each other, as in a plain sequence."""
    return [tuple(j <= i for j in range(len(tree))) for i in range(len(tree))]


def one_uncle_too_many(tree: Tree) -> list[tuple[bool, ...]]:
    """The smallest damage: nodes see the first wrong guess as well."""
    return [tuple(seen or 1 == j <= i for j, seen in enumerate(row)) for i, row in enumerate(true_mask(tree))]


true_mask = Tree.mask.fget


def forget_shapes() -> None:
    for kept in (verify._of_small, verify._of_large):
        kept.cache_clear()


@pytest.fixture
def damaged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Tree], Any]], None]]:
    def damage(mask: Callable[[Tree], Any]) -> None:
        monkeypatch.setattr(Tree, "mask", property(mask))
        forget_shapes()

    yield damage
    forget_shapes()


@pytest.mark.parametrize("mask", [shuffled, without_ancestors, causal, one_uncle_too_many])
@pytest.mark.parametrize(("family", "tied"), MODELS)
def test_a_damaged_tree_mask_changes_the_tokens(
    damaged: Callable[[Callable[[Tree], Any]], None], mask: Callable[[Tree], Any], family: str, tied: bool
) -> None:
    backbone, expected = reference(family, tied)
    damaged(mask)
    replies = [
        decode(backbone, ScriptedDrafter(reply), prompt, 40).token_ids
        for prompt, reply in zip(PROMPTS, expected, strict=True)
    ]
    assert replies != expected


def test_wrong_positions_change_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, replies = reference("llama", False)
    expected = replies[0]
    monkeypatch.setattr(Tree, "depths", property(lambda tree: tuple(range(len(tree)))))  # by slot, not by depth
    forget_shapes()
    try:
        drafter = ScriptedDrafter(expected)
        assert decode(backbone, drafter, PROMPTS[0], 40).token_ids != expected
    finally:
        forget_shapes()
