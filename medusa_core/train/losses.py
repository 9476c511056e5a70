"""What a head is trained to say: the token that came, or the model's own distribution at its place.

Shapes: K heads, M positions, V' draft vocabulary. Knows nothing of optimizers or files.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from medusa_core.errors import TrainingError


def hard_loss(logits: torch.Tensor, labels: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of one head's logits (M, V') against labels (M,), over the `valid` (M,) positions."""
    count = valid.sum()
    if count == 0:
        return logits.sum() * 0.0
    losses = F.cross_entropy(logits, labels.masked_fill(~valid, -100), ignore_index=-100, reduction="sum")
    return losses / count


def soft_loss(logits: torch.Tensor, teacher: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of one head's logits (M, V') against probabilities (M, V'), over the `valid` positions."""
    count = valid.sum()
    if count == 0:
        return logits.sum() * 0.0
    losses = -(teacher * logits.log_softmax(-1)).sum(-1)
    return (losses * valid).sum() / count


def weighted_sum(losses: Sequence[torch.Tensor], head_weight: float) -> torch.Tensor:
    """The sum of head k's loss times head_weight ** k, k = 1 ... K (Medusa, section 2.2.1)."""
    total = torch.stack([head_weight**k * loss for k, loss in enumerate(losses, 1)]).sum()
    if not bool(total.isfinite()):
        raise TrainingError(
            f"The loss became {total.item()}. Lower the learning rate (--learning-rate), or write the replies anew."
        )
    return total
