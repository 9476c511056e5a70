"""The losses against their plain definitions, and their gradients against numbers."""

from __future__ import annotations

import pytest
import torch

from medusa_core.errors import TrainingError
from medusa_core.train.losses import hard_loss, soft_loss, weighted_sum

K, M, U, V = 3, 5, 6, 7


def case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(K, M, V, generator=generator, dtype=torch.float64) * 3
    teacher = torch.randn(U, V, generator=generator, dtype=torch.float64).softmax(-1)
    rows = torch.randint(U, (K, M), generator=generator)
    valid = torch.rand(K, M, generator=generator) < 0.7
    return logits.requires_grad_(), teacher, rows, valid


def test_soft_loss_is_the_mean_cross_entropy_over_valid_positions() -> None:
    logits, teacher, rows, valid = case()
    losses, logits = soft_loss(logits, teacher, rows, valid).detach(), logits.detach()
    for k in range(K):
        terms = [
            -sum(float(teacher[rows[k, m], v]) * float(logits[k, m].log_softmax(-1)[v]) for v in range(V))
            for m in range(M)
            if valid[k, m]
        ]
        assert float(losses[k]) == pytest.approx(sum(terms) / len(terms))


def test_soft_loss_gradient_is_that_of_the_definition() -> None:
    logits, teacher, rows, valid = case()
    weights = torch.tensor([0.8, 0.64, 0.512], dtype=torch.float64)
    (soft_loss(logits, teacher, rows, valid) * weights).sum().backward()
    plain = logits.detach().clone().requires_grad_()
    terms = -(teacher[rows] * plain.log_softmax(-1)).sum(-1)
    ((terms * valid).sum(-1) / valid.sum(-1) * weights).sum().backward()
    assert plain.grad is not None
    torch.testing.assert_close(logits.grad, plain.grad)


def test_hard_loss_is_soft_loss_of_certain_labels() -> None:
    logits, _, rows, valid = case()
    certain = torch.eye(V, dtype=torch.float64)
    torch.testing.assert_close(hard_loss(logits, rows, valid), soft_loss(logits, certain, rows, valid))


def test_a_head_without_labels_costs_nothing() -> None:
    logits, teacher, rows, valid = case()
    valid[1] = False
    for losses in (soft_loss(logits, teacher, rows, valid), hard_loss(logits, rows, valid)):
        assert losses[1] == 0
        assert (losses[[0, 2]] > 0).all()
    soft_loss(logits, teacher, rows, valid).sum().backward()
    assert logits.grad is not None
    assert not logits.grad[~valid].any()
    assert logits.grad[valid].all()


def test_heads_weigh_less_and_less() -> None:
    assert float(weighted_sum(torch.tensor([1.0, 10.0, 100.0]), 0.8)) == pytest.approx(0.8 + 6.4 + 51.2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_an_error(value: float) -> None:
    with pytest.raises(TrainingError, match="--learning-rate"):
        weighted_sum(torch.tensor([1.0, value]), 0.8)
