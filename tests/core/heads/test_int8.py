"""Heads in int8: close to those they were made from, of every kind and shape, and never saved in their place."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone.int8 import Int8Backbone
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import make_spec
from medusa_core.heads.int8 import Int8Heads, for_decoding
from medusa_core.heads.kinds import build_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def backbone() -> Int8Backbone:
    model = tiny_model("llama")
    return Int8Backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))


@pytest.mark.parametrize(("shared", "one"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(
    ("kind", "layers"), [("medusa", 0), ("medusa", 1), ("medusa", 2), ("rooted", 1), ("rooted", 2)]
)
@torch.inference_mode()
def test_they_are_close_to_the_heads_they_were_made_from(
    backbone: Int8Backbone, kind: str, shared: bool, one: bool, layers: int
) -> None:
    generator = torch.Generator().manual_seed(layers)
    vocab, hidden = backbone.output_weight.shape
    token_map = torch.randperm(vocab, generator=generator)[:100].sort().values
    shape = HeadsShape(
        num_heads=3, num_layers=layers, hidden_size=hidden, vocab_size=vocab, draft_vocab_size=100,
        shared_output=shared, one_output=one,
    )  # fmt: skip
    heads = build_heads(kind, shape, backbone.output_weight.float(), backbone.embedding_weight.float(), token_map)
    for parameter in heads.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) / hidden**0.5)
    made = for_decoding(heads, backbone)
    assert isinstance(made, Int8Heads)
    states, roots = torch.randn(4, hidden, generator=generator), torch.tensor([1, 7, 7, 200])
    expected, found = heads(states, roots), made(states, roots)
    assert found.shape == expected.shape == (3, 4, 100)
    assert (found - expected).norm() / expected.norm() < 0.03
    assert torch.equal(made.token_ids(torch.tensor([0, 99])), token_map[[0, 99]])
    assert torch.equal(made(states[:1], roots[:1]), found[:, :1])  # a state's guesses depend on no other
    assert (made.kind, made.shape, made.device) == (kind, shape, torch.device("cpu"))
    scale = torch.tensor([[1.0], [0.5], [2.0]])
    for count, i in ((10, 0), (3, 3), *((10, i % 4) for i in range(30))):  # in one kernel: as one by one, every time
        probabilities, places = made.likeliest(states[i], roots[i : i + 1], scale, count)
        one_by_one, best = MedusaHeads.likeliest(made, states[i], roots[i : i + 1], scale, count)
        torch.testing.assert_close(probabilities, one_by_one, atol=1e-5, rtol=1e-4)
        assert torch.equal(probabilities.gather(1, places), probabilities.topk(count, dim=-1).values)
        assert torch.equal(places, best)
    with pytest.raises(TypeError, match="save the heads they were made from"):
        made.state_dict()


@pytest.mark.parametrize("sizes", [1.0, 90.0, 178.0, 1000.0])
@torch.inference_mode()
def test_states_of_any_size_are_gated_as_silu_does(backbone: Int8Backbone, sizes: float) -> None:
    vocab, hidden = backbone.output_weight.shape
    shape = HeadsShape(
        num_heads=3, num_layers=2, hidden_size=hidden, vocab_size=vocab, draft_vocab_size=vocab, shared_output=True
    )
    heads = build_heads("medusa", shape, backbone.output_weight.float(), backbone.embedding_weight.float(), None)
    generator = torch.Generator().manual_seed(3)
    for parameter in heads.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) / hidden**0.5)
    made, scale, roots = Int8Heads(heads, backbone), torch.ones(3, 1), torch.tensor([9])
    states = sizes * torch.randn(1, hidden, generator=generator)
    if sizes > 1:
        assert (states[0] @ next(iter(heads.parameters()))[0].mT).min() < -88, "where exp of a float32 ends"
    probabilities, places = made.likeliest(states[0], roots, scale, 8)
    one_by_one, best = MedusaHeads.likeliest(made, states[0], roots, scale, 8)
    torch.testing.assert_close(probabilities, one_by_one, atol=1e-5, rtol=1e-3)
    assert torch.equal(places[:, 0], best[:, 0])


@pytest.mark.parametrize(("heads_count", "draft"), [(1, 33), (5, 17), (7, 256), (2, 264)])
@torch.inference_mode()
def test_guesses_do_not_depend_on_how_many_work(backbone: Int8Backbone, heads_count: int, draft: int) -> None:
    vocab, hidden = backbone.output_weight.shape
    shape = HeadsShape(
        num_heads=heads_count, num_layers=2, hidden_size=hidden, vocab_size=vocab, draft_vocab_size=min(draft, vocab),
        shared_output=False,
    )  # fmt: skip
    token_map = torch.arange(draft) if draft < vocab else None
    heads = build_heads("rooted", shape, backbone.output_weight.float(), backbone.embedding_weight.float(), token_map)
    generator = torch.Generator().manual_seed(1)
    for parameter in heads.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) / hidden**0.5)
    made, state, root = Int8Heads(heads, backbone), torch.randn(hidden, generator=generator), torch.tensor([9])
    scale, threads = torch.ones(heads_count, 1), torch.get_num_threads()
    one_by_one, best = MedusaHeads.likeliest(made, state, root, scale, 99)
    try:
        for workers in (1, 2, 3, 20):
            torch.set_num_threads(workers)
            probabilities, places = made.likeliest(state, root, scale, 99)  # more than the smaller vocabularies have
            torch.testing.assert_close(probabilities, one_by_one, atol=1e-5, rtol=1e-4)
            assert torch.equal(places, best)
    finally:
        torch.set_num_threads(threads)


def test_beside_another_backbone_heads_stay_as_they_are(backbone: Int8Backbone) -> None:
    model = tiny_model("llama")
    lean = LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    vocab, hidden = lean.output_weight.shape
    shape = HeadsShape(
        num_heads=2, num_layers=1, hidden_size=hidden, vocab_size=vocab, draft_vocab_size=vocab, shared_output=True
    )
    heads = build_heads("medusa", shape, lean.output_weight, lean.embedding_weight, None)
    assert for_decoding(heads, lean) is heads
