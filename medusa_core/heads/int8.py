"""Heads in int8, for decoding on the CPU beside a model in int8: guesses need no more, and a step waits for them.

Reading their weights is most of what heads cost: with W2 of their own they are as large as several layers of a small
model. Knows nothing of decoding, training or files.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import nn
from torch.nn import functional as F

from medusa_core.backbone.base import Backbone, QuantizesLinears
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.heads.rooted import RootedHeads


def for_decoding(heads: MedusaHeads, backbone: Backbone) -> MedusaHeads:
    """The heads as they decode fastest beside this backbone: in int8 where it is, else as they are."""
    if not isinstance(backbone, QuantizesLinears) or heads.shape.hidden_size % 4:
        return heads
    return Int8Heads(heads, backbone)


class Int8Heads(MedusaHeads):
    """K heads of either kind, rounded; see `MedusaHeads` for the shapes. They cannot be trained or saved."""

    def __init__(self, heads: MedusaHeads, backbone: QuantizesLinears) -> None:
        nn.Module.__init__(self)
        self.kind, self.shape = heads.kind, heads.shape
        self.register_buffer("token_map", heads.token_map, persistent=False)
        self._roots, first = None, 0
        if heads.shape.num_layers:
            # All heads read the same state first: one product for all.
            self._first = backbone.linears(heads.w1[0].flatten(0, 1)[None], heads.b1[0].flatten()[None])
            first = 1
        if isinstance(heads, RootedHeads):
            self._roots = backbone.linears(heads.w_root.flatten(0, 1)[None])
            self._embedding, self._scale = heads.embedding, float(heads.root_scale)
        self._later = [backbone.linears(w1, b1) for w1, b1 in zip(heads.w1[first:], heads.b1[first:], strict=True)]
        output = heads.output(heads.w2)
        self._apart = output.dim() == 3
        self._w2 = backbone.linears(output if self._apart else output[None])

    @property
    def device(self) -> torch.device:
        """Where they run."""
        return torch.device("cpu")

    def before_output(self, hidden: torch.Tensor, roots: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states (M, H) and, for heads that see them, the tokens chosen from them -> what W2 projects."""
        k, x = self.shape.num_heads, hidden.float()
        if not self.shape.num_layers:
            return x.expand(k, *x.shape)
        sums = self._first(x[None])[0]
        if self._roots is not None:
            if roots is None:
                raise TypeError("heads that see the root need the root tokens")
            sums = sums + self._roots(self._embedding[roots].float()[None] * self._scale)[0]
        states: torch.Tensor = (F.silu(sums).unflatten(-1, (k, -1)) + x[:, None]).transpose(0, 1)
        for layer in self._later:
            states = states + F.silu(layer(states))
        return states

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        if self._apart:
            apart: torch.Tensor = self._w2(x)
            return apart
        together: torch.Tensor = self._w2(x.flatten(0, 1)[None])[0]
        return together.view(*x.shape[:2], -1)

    def state_dict(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Rounded weights are not to be taken for the heads themselves."""
        raise TypeError("int8 heads are for decoding only; save the heads they were made from")
