"""Heads that see the root: their equation written out, and what they share with the paper's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from medusa_core.errors import CheckpointMismatch, ConfigError
from medusa_core.heads.kinds import build_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads

K, L, H, V = 3, 2, 8, 20
SHAPE = HeadsShape(num_heads=K, num_layers=L, hidden_size=H, vocab_size=V, draft_vocab_size=V, shared_output=True)


@pytest.fixture
def heads() -> RootedHeads:
    torch.manual_seed(0)
    made = RootedHeads(SHAPE, torch.randn(V, H), torch.randn(V, H))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.5)
    made.scale_roots(3 * torch.randn(100, H))
    return made.requires_grad_(False)


def test_equals_the_equation_written_out(heads: RootedHeads) -> None:
    states, roots = torch.randn(5, H), torch.tensor([0, 7, 7, 19, 3])
    logits = heads(states, roots)
    assert logits.shape == (K, 5, V)
    for k in range(K):
        for m in range(5):
            h, e = states[m], heads.root_scale * heads.embedding[roots[m]]
            x = F.silu(heads.w1[0, k] @ h + heads.w_root[k] @ e + heads.b1[0, k]) + h
            x = F.silu(heads.w1[1, k] @ x + heads.b1[1, k]) + x
            torch.testing.assert_close(logits[k, m], heads.w2 @ x, rtol=1e-5, atol=1e-5)


def test_another_root_means_other_guesses(heads: RootedHeads) -> None:
    state = torch.randn(1, H)
    assert not torch.allclose(heads(state, torch.tensor([1])), heads(state, torch.tensor([2])))


def test_untrained_heads_repeat_the_models_own_next_token() -> None:
    output = torch.randn(V, H)
    states = torch.randn(6, H)
    logits = RootedHeads(SHAPE, output, torch.randn(V, H))(states, torch.arange(6))
    torch.testing.assert_close(logits, (states @ output.T).expand(K, 6, V))


def test_without_a_view_of_the_root_they_are_the_papers_heads(heads: RootedHeads) -> None:
    heads.w_root.zero_()
    paper = MedusaHeads(SHAPE, heads.w2).requires_grad_(False)
    paper.w1.copy_(heads.w1)
    paper.b1.copy_(heads.b1)
    states = torch.randn(4, H)
    torch.testing.assert_close(heads(states, torch.arange(4)), paper(states))


def test_embeddings_are_scaled_to_the_states_size(heads: RootedHeads) -> None:
    states = 40 * torch.randn(2000, H)
    heads.scale_roots(states)
    scaled = heads.root_scale * heads.embedding
    assert scaled.square().mean().sqrt().item() == pytest.approx(states.square().mean().sqrt().item(), rel=0.01)


def test_the_models_own_weights_are_neither_saved_nor_trained(heads: RootedHeads) -> None:
    assert set(heads.state_dict()) == {"w1", "b1", "w_root", "root_scale"}
    assert {name for name, _ in heads.named_parameters()} == {"w1", "b1", "w_root"}


def test_the_root_must_be_given(heads: RootedHeads) -> None:
    with pytest.raises(TypeError, match="root"):
        heads(torch.randn(1, H))


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match="first residual block"):
        RootedHeads(replace(SHAPE, num_layers=0), torch.randn(V, H), torch.randn(V, H))
    with pytest.raises(CheckpointMismatch, match="size 8"):
        RootedHeads(SHAPE, torch.randn(V, H), torch.randn(V, H + 1))


def test_kinds_by_name() -> None:
    weights = torch.randn(V, H)
    assert type(build_heads("medusa", SHAPE, weights, weights, None)) is MedusaHeads
    assert type(build_heads("rooted", SHAPE, weights, weights, None)) is RootedHeads
    with pytest.raises(ConfigError, match="medusa, rooted"):
        build_heads("eagle", SHAPE, weights, weights, None)
