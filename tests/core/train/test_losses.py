"""The losses against their plain definitions, and their gradients against those of autograd."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch.nn import functional as F

from medusa_core.train.losses import hard_loss, head_weights, soft_loss, teacher_probabilities

K, M, U, H, V = 3, 5, 6, 4, 7


def case(*, own: bool = False, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    valid = torch.rand(K, M, generator=generator) < 0.7
    output = torch.randn(*((K, V, H) if own else (V, H)), generator=generator, dtype=dtype) * scale
    return {
        "states": torch.randn(K, M, H, generator=generator, dtype=dtype).requires_grad_(),
        "output": output.requires_grad_(own),
        "teacher": torch.randn(U, V, generator=generator, dtype=dtype).softmax(-1),
        "rows": torch.randint(U, (K, M), generator=generator),
        "weights": head_weights(valid, valid.sum(-1), 0.8).to(dtype),
    }


def plain(case: dict[str, torch.Tensor], *, soft: bool) -> torch.Tensor:
    logits = case["states"] @ case["output"].mT
    labels = case["teacher"][case["rows"]] if soft else F.one_hot(case["rows"], V)
    return (-(labels * logits.log_softmax(-1)).sum(-1) * case["weights"]).sum()


def loss(case: dict[str, torch.Tensor], *, soft: bool) -> torch.Tensor:
    if soft:
        return soft_loss(case["states"], case["output"], case["teacher"], case["rows"], case["weights"])
    return hard_loss(case["states"], case["output"], case["rows"], case["weights"])


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("outer", [1.0, 2.5])
def test_losses_and_gradients_are_those_of_the_definition(soft: bool, own: bool, outer: float) -> None:
    mine, theirs = case(own=own), case(own=own)
    value, expected = loss(mine, soft=soft), plain(theirs, soft=soft)
    torch.testing.assert_close(value, expected)
    (outer * value).backward()
    (outer * expected).backward()
    torch.testing.assert_close(mine["states"].grad, theirs["states"].grad)
    assert (mine["output"].grad is not None) is own
    if own:
        torch.testing.assert_close(mine["output"].grad, theirs["output"].grad)


def test_a_shared_output_layer_can_be_trained_too() -> None:
    mine, theirs = case(), case()
    for one in (mine, theirs):
        one["output"].requires_grad_()
    loss(mine, soft=True).backward()
    plain(theirs, soft=True).backward()
    torch.testing.assert_close(mine["output"].grad, theirs["output"].grad)


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_bf16_products_stay_near(soft: bool, own: bool) -> None:
    """16-bit products: the loss within 1 % of that in 32 bit, gradients within 3 % of their length."""
    mine, theirs = (case(own=own, dtype=torch.float32, scale=3.0) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(mine, soft=soft)
    expected = plain(theirs, soft=soft)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected.item(), rel=0.01)
    assert value.item() != expected.item(), "nothing ran in 16 bit"
    value.backward()
    expected.backward()
    for name in ("states", "output") if own else ("states",):
        found, wanted = mine[name].grad, theirs[name].grad
        assert found is not None
        assert wanted is not None
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < 0.03 * wanted.norm()


@pytest.mark.parametrize("rows_at_once", [1, 2, 100])
def test_blocks_do_not_change_a_loss(monkeypatch: pytest.MonkeyPatch, rows_at_once: int) -> None:
    expected = loss(case(), soft=True)
    monkeypatch.setattr("medusa_core.train.losses._BLOCK_LOGITS", rows_at_once * V)
    torch.testing.assert_close(loss(case(), soft=True), expected)


@pytest.mark.parametrize("soft", [True, False])
def test_a_label_of_no_weight_has_no_gradient(soft: bool) -> None:
    one = case()
    one["weights"][1] = 0
    loss(one, soft=soft).backward()
    grad = one["states"].grad
    assert grad is not None
    assert not grad[one["weights"] == 0].any()
    assert grad[one["weights"] != 0].any(-1).all()


@pytest.mark.parametrize("half", [True, False])
def test_the_teacher_is_the_models_own_distribution(half: bool) -> None:
    one = case(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16) if half else nullcontext():
        found = teacher_probabilities(one["states"][0], one["output"])
    expected = (one["states"][0] @ one["output"].T).softmax(-1)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    torch.testing.assert_close(found.sum(-1), torch.ones(M))
    torch.testing.assert_close(found, expected.detach(), rtol=0.05 if half else 1e-5, atol=1e-3 if half else 1e-6)


def test_heads_weigh_less_and_less_and_share_the_labels_of_the_whole_batch() -> None:
    valid = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    weights = head_weights(valid, torch.tensor([4, 2, 0]), 0.8)
    expected = torch.tensor([[0.2, 0.2, 0], [0.32, 0, 0], [0, 0, 0]])
    torch.testing.assert_close(weights, expected)
