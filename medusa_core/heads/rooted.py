"""Medusa heads that see the root: when a tree is drafted the token at t + 1 is known, and these heads look at it.

The first block reads the hidden state and the root's embedding, [h_t ; s E(x_t+1)], s scaling the embedding to the
hidden state's size: SiLU(W1_k h_t + Wr_k s E(x_t+1) + b_k) + h_t; all else is as in `medusa.py`, and so is the price:
one batched product a step. It is the first step of Hydra (Ankner et al., 2024), whose later heads also see the tokens
guessed before theirs. Not the paper's heads, which are trained and reported beside them.
Knows nothing of decoding, training or files.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from medusa_core.errors import CheckpointMismatch, ConfigError
from medusa_core.heads.medusa import HeadsShape, MedusaHeads


class RootedHeads(MedusaHeads):
    """K heads over M states and their roots; see `MedusaHeads` for the shapes."""

    kind = "rooted"

    def __init__(
        self,
        shape: HeadsShape,
        output_weight: torch.Tensor,
        embedding: torch.Tensor,
        token_map: torch.Tensor | None = None,
    ) -> None:
        """`embedding` (V, H) is the model's input embedding; it is read, never trained or saved."""
        super().__init__(shape, output_weight, token_map)
        if shape.num_layers < 1:
            raise ConfigError("heads that see the root read it in their first residual block; num_layers is 0")
        if embedding.shape[1] != shape.hidden_size:
            raise CheckpointMismatch(
                f"The heads read embeddings of size {shape.hidden_size}; this model's have {embedding.shape[1]}."
            )
        self.w_root = nn.Parameter(self.w1.new_zeros(shape.num_heads, shape.hidden_size, shape.hidden_size))
        self.root_scale: torch.Tensor
        self.register_buffer("root_scale", self.w1.new_ones(1))
        self.embedding: torch.Tensor
        self.register_buffer("embedding", embedding.detach(), persistent=False)

    def scale_roots(self, hidden: torch.Tensor) -> None:
        """Choose s, so that embeddings are as large as these hidden states (M, H): root mean squares agree."""
        size = hidden.float().square().mean().sqrt() / self.embedding.float().square().mean().sqrt()
        # As heads files hold it, so that training and decoding agree.
        self.root_scale.fill_(float(size.to(torch.bfloat16)))

    def before_output(self, hidden: torch.Tensor, roots: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states (M, H) and the tokens chosen from them (M,) -> what W2 projects (K, M, H)."""
        if roots is None:
            raise TypeError("heads that see the root need the root tokens")
        x = hidden.to(self.w1.dtype).expand(self.shape.num_heads, *hidden.shape)
        seen = (self.embedding[roots].to(self.w1.dtype) * self.root_scale).expand_as(x)
        first = torch.baddbmm(self.b1[0][:, None], x, self.w1[0].transpose(1, 2))
        x = x + F.silu(torch.baddbmm(first, seen, self.w_root.transpose(1, 2)))
        return self._blocks(x, first=1)
