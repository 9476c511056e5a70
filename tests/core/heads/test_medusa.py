"""Medusa heads against the paper's equation, written out plainly."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from medusa_core.errors import CheckpointMismatch, ConfigError
from medusa_core.heads.medusa import HeadsShape, MedusaHeads

K, H, V = 3, 8, 20
SHAPE = HeadsShape(num_heads=K, num_layers=1, hidden_size=H, vocab_size=V, draft_vocab_size=V, shared_output=False)
TOKEN_MAP = torch.tensor([3, 17, 4, 9, 11])
OUTPUTS = pytest.mark.parametrize(("shared", "one"), [(False, False), (True, False), (False, True)])


def randomized(shape: HeadsShape, token_map: torch.Tensor | None = None) -> MedusaHeads:
    """Heads with every parameter at random, as after training."""
    torch.manual_seed(0)
    heads = MedusaHeads(shape, torch.randn(V, H), token_map)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_(0.0, 0.5)
    return heads.requires_grad_(False)


def paper(heads: MedusaHeads, k: int, h: torch.Tensor) -> torch.Tensor:
    """softmax(W2 (SiLU(W1 h + b) + h)) of one head and one state, a residual block a layer."""
    for layer in range(heads.shape.num_layers):
        z = heads.w1[layer, k] @ h + heads.b1[layer, k]
        h = z / (1 + torch.exp(-z)) + h
    w2 = heads.w2 if heads.shape.shared_output else heads.w2[0 if heads.shape.one_output else k]
    return torch.exp(w2 @ h) / torch.exp(w2 @ h).sum()


@pytest.mark.parametrize("layers", [0, 1, 2])
@OUTPUTS
@pytest.mark.parametrize("token_map", [None, TOKEN_MAP])
def test_the_batched_product_is_the_papers_equation(
    layers: int, shared: bool, one: bool, token_map: torch.Tensor | None
) -> None:
    size = V if token_map is None else len(token_map)
    shape = dataclasses.replace(SHAPE, num_layers=layers, shared_output=shared, one_output=one, draft_vocab_size=size)
    heads = randomized(shape, token_map)
    states = torch.randn(4, H)
    together = heads(states).softmax(-1)
    assert together.shape == (K, 4, size)
    for k in range(K):
        for i, h in enumerate(states):
            torch.testing.assert_close(together[k, i], paper(heads, k, h), rtol=1e-5, atol=1e-6)


@OUTPUTS
def test_untrained_heads_repeat_the_models_next_token(shared: bool, one: bool) -> None:
    output, states = torch.randn(V, H), torch.randn(6, H)
    heads = MedusaHeads(dataclasses.replace(SHAPE, num_layers=2, shared_output=shared, one_output=one), output)
    for logits in heads(states):
        torch.testing.assert_close(logits, states @ output.T, rtol=1e-5, atol=1e-5)


def test_layers_and_heads_have_weights_of_their_own() -> None:
    heads = randomized(dataclasses.replace(SHAPE, num_layers=2))
    before = heads(torch.ones(1, H))
    for layer in range(2):
        changed = randomized(dataclasses.replace(SHAPE, num_layers=2))
        changed.w1[layer, 1] += 1.0
        assert torch.equal(changed.w1[1 - layer], heads.w1[1 - layer])
        after = changed(torch.ones(1, H))
        assert torch.equal(after[0], before[0])
        assert not torch.allclose(after[1], before[1])


def test_training_a_head_leaves_the_models_output_alone() -> None:
    output = torch.randn(V, H)
    kept = output.clone()
    heads = MedusaHeads(SHAPE, output)
    with torch.no_grad():
        heads.w2 += 1.0
    assert torch.equal(output, kept)
    one = MedusaHeads(dataclasses.replace(SHAPE, one_output=True), output)
    with torch.no_grad():
        one.w2 += 1.0
    assert one.w2.shape == (1, V, H)
    assert torch.equal(output, kept)
    shared = MedusaHeads(dataclasses.replace(SHAPE, shared_output=True), output)
    assert [name for name, _ in shared.named_parameters()] == ["w1", "b1"]
    assert sorted(shared.state_dict()) == ["b1", "w1"]


def test_a_draft_vocabulary_restricts_the_guesses() -> None:
    heads = randomized(dataclasses.replace(SHAPE, draft_vocab_size=5, shared_output=True), TOKEN_MAP)
    guesses = heads.token_ids(heads(torch.randn(10, H)).argsort(dim=-1))
    assert set(guesses.flatten().tolist()) == set(TOKEN_MAP.tolist())
    whole = randomized(SHAPE)
    assert torch.equal(whole.token_ids(torch.arange(V)), torch.arange(V))


def test_states_of_another_precision_are_taken() -> None:
    heads, states = randomized(SHAPE), torch.randn(2, H)
    torch.testing.assert_close(heads(states.to(torch.bfloat16)), heads(states.to(torch.bfloat16).float()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 0}, "num_heads is 0"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"num_layers": -1}, "num_layers is -1"),
        ({"draft_vocab_size": 21}, "draft vocabulary of 21 exceeds the model's 20"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(SHAPE, **change)


def test_another_models_output_head_is_refused() -> None:
    with pytest.raises(CheckpointMismatch, match=r"vocabulary 20 and hidden size 8; this model has 21 and 8"):
        MedusaHeads(SHAPE, torch.zeros(21, H))


@pytest.mark.parametrize(("size", "token_map"), [(5, None), (V, torch.arange(V)), (4, TOKEN_MAP), (5, TOKEN_MAP[None])])
def test_a_token_map_must_fit_the_draft_vocabulary(size: int, token_map: torch.Tensor | None) -> None:
    with pytest.raises(ConfigError, match="token_map"):
        MedusaHeads(dataclasses.replace(SHAPE, draft_vocab_size=size), torch.zeros(V, H), token_map)
