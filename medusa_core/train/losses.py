"""What a head is trained to say: the token that came, or the model's own distribution at its place.

Shapes: K heads, M positions, U distinct positions that are labels, V' draft vocabulary. Knows nothing of optimizers
or files.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from medusa_core.errors import TrainingError


def hard_loss(logits: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy by head (K,): logits (K, M, V') against labels (K, M), over the `valid` (K, M) positions."""
    masked = labels.masked_fill(~valid, -100).flatten()
    losses = F.cross_entropy(logits.flatten(0, 1), masked, ignore_index=-100, reduction="none")
    return losses.view_as(valid).sum(-1) / valid.sum(-1).clamp_min(1)


def soft_loss(logits: torch.Tensor, teacher: torch.Tensor, rows: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy by head (K,) against the model's own probabilities, over the `valid` (K, M) positions.

    The label of logits (K, M, V') at [k, m] is row `rows[k, m]` of `teacher` (U, V'), each row summing to 1.
    """
    losses: torch.Tensor = _SoftLoss.apply(logits, teacher, rows, valid)  # type: ignore[no-untyped-call]
    return losses


def weighted_sum(losses: torch.Tensor, head_weight: float) -> torch.Tensor:
    """The sum of head k's loss times head_weight ** k, k = 1 ... K (Medusa, section 2.2.1)."""
    weights = [head_weight**k for k in range(1, len(losses) + 1)]
    total = (losses * losses.new_tensor(weights)).sum()
    if not bool(total.isfinite()):
        raise TrainingError(
            f"The loss became {total.item()}. Lower the learning rate (--learning-rate), or write the replies anew."
        )
    return total


class _SoftLoss(torch.autograd.Function):
    """Cross entropy of logits z and probabilities p: logsumexp(z) - p . z, whose gradient is softmax(z) - p.

    Written by hand because a draft vocabulary makes these matrices the largest of the step: autograd would keep the
    logarithms, the products and the labels of every head for the way back, where one matrix is enough.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, teacher: torch.Tensor, rows: torch.Tensor, valid: torch.Tensor
    ) -> torch.Tensor:
        share = valid.to(logits.dtype) / valid.sum(-1, keepdim=True).clamp_min(1)  # (K, M)
        gradient = logits.softmax(-1)
        losses = []
        for k, z in enumerate(logits):
            # The largest probability is exp(max z - logsumexp z): no further pass over all exponentials.
            log_sum = z.amax(-1) - gradient[k].amax(-1).log()
            labels = teacher.index_select(0, rows[k])
            losses.append(((log_sum - torch.linalg.vecdot(labels, z)) * share[k]).sum())
            gradient[k].sub_(labels)
        ctx.save_for_backward(gradient, share)
        return torch.stack(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        gradient, share = ctx.saved_tensors
        return gradient.mul_((outer[:, None] * share)[..., None]), None, None, None
