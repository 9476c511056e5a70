"""What a head is trained to say: the token that came, or the model's own distribution at its place.

The cross entropy of logits z = W2 x and probabilities p is logsumexp(z) - p . z, its gradient softmax(z) - p. Both are
computed here in one go, head by head, and only the gradients of x and W2 are kept: the logits of a draft vocabulary
are the largest matrices of a step. Products run in the precision of autocast, everything else in 32 bit.
Shapes: K heads, M positions, U distinct positions that are labels, H hidden, V' draft vocabulary. Knows nothing of
optimizers or files.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

_BLOCK_LOGITS = 2**19  # of one head at once: 2 MiB, which a processor's cache holds


def hard_loss(states: torch.Tensor, output: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The sum of weights (K, M) times the cross entropy against labels (K, M); a label of weight 0 is not looked at.

    Logits are states (K, M, H) times output (V', H), shared by the heads, or (K, V', H).
    """
    loss: torch.Tensor = _ProjectedLoss.apply(states, output, None, labels, weights)  # type: ignore[no-untyped-call]
    return loss


def soft_loss(
    states: torch.Tensor, output: torch.Tensor, teacher: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """As `hard_loss`, against probabilities: those of [k, m] are row `rows[k, m]` of `teacher` (U, V')."""
    loss: torch.Tensor = _ProjectedLoss.apply(states, output, teacher, rows, weights)  # type: ignore[no-untyped-call]
    return loss


def teacher_probabilities(states: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The model's own distribution over the draft vocabulary: states (U, H), output (V', H) -> (U, V') fp32."""
    with torch.no_grad():
        dtype = product_dtype(states)
        logits = (states.to(dtype) @ output.to(dtype).T).float()
        return torch.softmax(logits, -1, out=logits)


def head_weights(valid: torch.Tensor, counts: torch.Tensor, head_weight: float) -> torch.Tensor:
    """What each loss of head k counts: head_weight ** k (Medusa, section 2.2.1) over the head's labels in the batch.

    `valid` (K, M) says which losses there are, `counts` (K,) how many there are in the whole batch. k = 1 ... K.
    """
    powers = torch.tensor([head_weight**k for k in range(1, len(counts) + 1)], device=valid.device)
    return valid * (powers / counts.to(valid.device).clamp_min(1))[:, None]


def product_dtype(like: torch.Tensor) -> torch.dtype:
    """The precision of products: autocast's, else that of `like`, at least 32 bit."""
    kind = like.device.type
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return torch.promote_types(like.dtype, torch.float32)


class _ProjectedLoss(torch.autograd.Function):
    """The loss and, already on the way forth, the gradients of states and output."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        output: torch.Tensor,
        teacher: torch.Tensor | None,
        targets: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        dtype, own = product_dtype(states), output.dim() == 3
        shared = None if own else output.to(dtype)
        d_states = torch.empty_like(states)
        d_output = torch.empty_like(output) if ctx.needs_input_grad[1] else None
        total = torch.zeros((), dtype=torch.float64, device=states.device)
        with torch.autocast(states.device.type, enabled=False):
            for k, x in enumerate(states.to(dtype)):
                w2 = output[k].to(dtype) if shared is None else shared
                z = x @ w2.T
                total += _loss_to_gradient(z, teacher, targets[k], weights[k])
                d_states[k] = z @ w2
                if d_output is not None and own:
                    d_output[k] = z.T @ x
                elif d_output is not None:
                    d_output[...] = z.T @ x if k == 0 else d_output + z.T @ x
        ctx.save_for_backward(d_states, d_output)
        return total.to(torch.promote_types(states.dtype, torch.float32))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        d_states, d_output = ctx.saved_tensors
        if float(outer) != 1.0:  # a pass over matrices as large as W2, saved where there is one process
            d_states = d_states * outer
            d_output = None if d_output is None else d_output * outer
        return d_states, d_output, None, None, None


def _loss_to_gradient(
    z: torch.Tensor, teacher: torch.Tensor | None, targets: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """The weighted loss of one head's logits z (M, V'), which become its gradient in place."""
    block = max(_BLOCK_LOGITS // z.shape[1], 1) if z.device.type == "cpu" else len(z)
    losses = []
    for start in range(0, len(z), max(block, 1)):
        rows = slice(start, start + block)
        logits = z[rows].to(torch.promote_types(z.dtype, torch.float32))
        weight, target = weights[rows].to(logits.dtype), targets[rows]
        p = logits.softmax(-1)
        # The largest probability is exp(max z - logsumexp z): no further pass over all exponentials.
        log_sum = logits.amax(-1) - p.amax(-1).log()
        if teacher is None:
            meant = logits.gather(1, target[:, None])[:, 0]
            p.mul_(weight[:, None])
            p.scatter_add_(1, target[:, None], -weight[:, None])
        else:
            labels = teacher.index_select(0, target)
            meant = torch.linalg.vecdot(labels, logits)
            p.sub_(labels).mul_(weight[:, None])
        losses.append((weight * (log_sum - meant)).sum())
        z[rows] = p
    return torch.stack(losses).sum() if losses else weights.sum()
