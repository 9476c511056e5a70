"""Medusa heads: K small networks on the last hidden state that guess the tokens after the next one.

Head k of state h_t: softmax(W2_k (SiLU(W1_k h_t + b_k) + h_t)), which predicts position t + k + 1 for k = 1 ... K
(Medusa, section 2.1.1); with several layers the residual block is repeated, each with weights of its own.
W1 and b start at zero and W2 at the model's output head, so an untrained head repeats the model's own next token.

Two savings, both optional: W2 can be the model's output head itself, shared and not stored; and a *draft vocabulary*
can restrict the guesses to the V' most useful token ids, because a full projection for each head costs about as much
as several layers of a small model. Knows nothing of decoding, training or files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from medusa_core.backbone.picking import best
from medusa_core.errors import CheckpointMismatch, ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsShape:
    """The sizes of a set of heads."""

    num_heads: int
    num_layers: int
    hidden_size: int
    vocab_size: int  # of the model
    draft_vocab_size: int  # V'; equals vocab_size where the guesses are not restricted
    shared_output: bool  # W2 is the model's output head
    one_output: bool = False  # all heads share one W2 of their own: a quarter of four heads' size and reading time

    def __post_init__(self) -> None:
        for name in ("num_heads", "hidden_size", "vocab_size", "draft_vocab_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_layers < 0:
            raise ConfigError(f"num_layers is {self.num_layers}; it must not be negative")
        if self.one_output and self.shared_output:
            raise ConfigError("heads share either the model's output head or one of their own, not both")
        if self.draft_vocab_size > self.vocab_size:
            raise ConfigError(f"the draft vocabulary of {self.draft_vocab_size} exceeds the model's {self.vocab_size}")


class MedusaHeads(nn.Module):
    """K heads as stacked tensors, so that all of them are one batched product. L layers, M states, V' guesses."""

    kind = "medusa"

    def __init__(self, shape: HeadsShape, output_weight: torch.Tensor, token_map: torch.Tensor | None = None) -> None:
        """`output_weight` (V, H) is the model's; `token_map` (V',) int64 lists the draft vocabulary's token ids.

        Raises CheckpointMismatch where the model's sizes are not the heads'.
        """
        super().__init__()
        self.shape = shape
        if tuple(output_weight.shape) != (shape.vocab_size, shape.hidden_size):
            raise CheckpointMismatch(
                f"The heads are for a model with vocabulary {shape.vocab_size} and hidden size {shape.hidden_size}; "
                f"this model has {output_weight.shape[0]} and {output_weight.shape[1]}."
            )
        if (token_map is None) != (shape.draft_vocab_size == shape.vocab_size):
            raise ConfigError("a draft vocabulary smaller than the model's needs a token_map, and only that does")
        if token_map is not None and tuple(token_map.shape) != (shape.draft_vocab_size,):
            raise ConfigError(
                f"token_map has shape {tuple(token_map.shape)}; the draft vocabulary has {shape.draft_vocab_size} ids"
            )
        k, layers, h = shape.num_heads, shape.num_layers, shape.hidden_size
        self.w1 = nn.Parameter(output_weight.new_zeros(layers, k, h, h))
        self.b1 = nn.Parameter(output_weight.new_zeros(layers, k, h))
        self.token_map: torch.Tensor | None
        self.register_buffer("token_map", None if token_map is None else token_map.to(output_weight.device))
        rows = output_weight if token_map is None else output_weight[self.token_map]
        self.w2: torch.Tensor
        if shape.shared_output:
            self.register_buffer("w2", rows.detach(), persistent=False)
        else:
            # A copy: the output head can be the embedding itself, which must not be trained through a head.
            self.w2 = nn.Parameter(rows.detach().clone().repeat(1 if shape.one_output else k, 1, 1))

    def forward(self, hidden: torch.Tensor, roots: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states (M, H) -> logits (K, M, V'). The paper's heads do not look at `roots` (M,)."""
        return self._project(self.before_output(hidden, roots))

    def before_output(self, hidden: torch.Tensor, roots: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states (M, H) -> what W2 projects (K, M, H)."""
        x = hidden.to(self.w1.dtype).expand(self.shape.num_heads, *hidden.shape)
        return self._blocks(x)

    def _blocks(self, x: torch.Tensor, first: int = 0) -> torch.Tensor:
        """The residual blocks from `first` on, (K, M, H) -> (K, M, H)."""
        for w1, b1 in zip(self.w1[first:], self.b1[first:], strict=True):
            x = x + F.silu(torch.baddbmm(b1[:, None], x, w1.transpose(1, 2)))
        return x

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        """W2: (K, M, H) -> (K, M, V')."""
        output = self.output(self.w2)
        return F.linear(x, output) if output.dim() == 2 else torch.bmm(x, output.transpose(1, 2))

    def likeliest(
        self, hidden: torch.Tensor, roots: torch.Tensor, scale: torch.Tensor, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What a draft asks, of one state (H,) and its root (1,); logits count times `scale` (K, 1).

        Returns probabilities (K, V'), and the places (K, count) of the largest, descending: good until the next call,
        which may write over them.
        """
        logits = self(hidden[None], roots)[:, 0].float() * scale
        return logits.softmax(-1), best(logits, count)[1]

    def output(self, models: torch.Tensor) -> torch.Tensor:
        """W2: (V', H) where all heads share one, which is `models` where it is the model's; else (K, V', H)."""
        if self.shape.shared_output:
            return models
        return self.w2[0] if self.shape.one_output else self.w2

    @property
    def device(self) -> torch.device:
        """Where they run."""
        return self.w1.device

    def token_ids(self, indices: torch.Tensor) -> torch.Tensor:
        """Indices into the draft vocabulary -> the model's token ids."""
        return indices if self.token_map is None else self.token_map[indices]
