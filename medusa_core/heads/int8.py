"""Heads in int8, for decoding on the CPU beside a model in int8: guesses need no more, and a step waits for them.

Reading their weights is most of what heads cost: with W2 of their own they are as large as several layers of a small
model. Knows nothing of decoding, training or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import nn
from torch.nn import functional as F

from medusa_core.backbone.base import Backbone, QuantizesLinears
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads

if TYPE_CHECKING:
    from medusa_core.backbone.quantize import Int8Linears


def for_decoding(heads: MedusaHeads, backbone: Backbone) -> MedusaHeads:
    """The heads as they decode fastest beside this backbone: in int8 where it is, else as they are."""
    if not isinstance(backbone, QuantizesLinears) or heads.shape.hidden_size % 4:
        return heads
    return Int8Heads(heads, backbone)


class _Drafting:
    """`draft_kernel.py` over the layers of one set of heads."""

    def __init__(
        self,
        shape: HeadsShape,
        first: Int8Linears | None,
        roots: Int8Linears | None,
        later: Int8Linears | None,
        output: Int8Linears,
    ) -> None:
        # Here, because it needs numba, which is there where anything is in int8.
        from medusa_core.backbone.quantize import no_linears
        from medusa_core.heads import draft_kernel

        self._kernel, self._shape, self.build = draft_kernel, shape, draft_kernel.BUILD
        layers = [no_linears() if linears is None else linears.layers for linears in (first, roots, later, output)]
        self._weights = draft_kernel.Weights(*layers)
        self._make_room(1)
        self(torch.zeros(shape.hidden_size), None, torch.ones(shape.num_heads, 1), 1)  # compiled before the first reply

    def __call__(
        self, hidden: torch.Tensor, root: torch.Tensor | None, scale: torch.Tensor, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """State (H,), the root's embedding (H,) and scale (K, 1) -> probabilities (K, V') and places (K, count)."""
        count = min(count, self._shape.draft_vocab_size)
        if self._places.shape[1] != count:
            self._make_room(count)
        self._seen[0].copy_(hidden)
        if root is not None:
            self._seen[1].copy_(root)
        self._kernel.draft(self._weights, self._room, scale.view(-1).numpy(), torch.get_num_threads())
        return self._probabilities, self._places

    def _make_room(self, count: int) -> None:
        shape = self._shape
        room = self._kernel.new_room(shape.num_heads, shape.hidden_size, shape.draft_vocab_size, count)
        self._room, self._seen, self._places = room, torch.from_numpy(room.seen), torch.from_numpy(room.places)
        self._probabilities = torch.from_numpy(room.logits)[:, : shape.draft_vocab_size]


class Int8Heads(MedusaHeads):
    """K heads of either kind, rounded; see `MedusaHeads` for the shapes. They cannot be trained or saved."""

    def __init__(self, heads: MedusaHeads, backbone: QuantizesLinears) -> None:
        nn.Module.__init__(self)
        self.kind, self.shape = heads.kind, heads.shape
        self.register_buffer("token_map", heads.token_map, persistent=False)
        self._first = self._roots = self._later = None
        if heads.shape.num_layers:
            # All heads read the same state first: one product for all.
            self._first = backbone.linears(heads.w1[0].flatten(0, 1)[None], heads.b1[0].flatten()[None])
        if isinstance(heads, RootedHeads):
            self._roots = backbone.linears(heads.w_root.flatten(0, 1)[None])
            self._roots.layers.factors[:] *= float(heads.root_scale)
            self._embedding = heads.embedding
        if heads.shape.num_layers > 1:
            self._later = backbone.linears(heads.w1[1:].flatten(0, 1), heads.b1[1:].flatten(0, 1))
        output = heads.output(heads.w2)
        self._apart = output.dim() == 3
        self._w2 = backbone.linears(output if self._apart else output[None])
        self._drafting = _Drafting(self.shape, self._first, self._roots, self._later, self._w2)

    @property
    def device(self) -> torch.device:
        """Where they run."""
        return torch.device("cpu")

    @property
    def build(self) -> str:
        """Which kernel drafts: times that were measured of another do not hold."""
        return self._drafting.build

    def before_output(self, hidden: torch.Tensor, roots: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states (M, H) and, for heads that see them, the tokens chosen from them -> what W2 projects."""
        k, x = self.shape.num_heads, hidden.float()
        if self._first is None:
            return x.expand(k, *x.shape)
        sums = self._first(x[None])[0]
        if self._roots is not None:
            if roots is None:
                raise TypeError("heads that see the root need the root tokens")
            sums = sums + self._roots(self._embedding[roots].float()[None])[0]
        states: torch.Tensor = (F.silu(sums).unflatten(-1, (k, -1)) + x[:, None]).transpose(0, 1)
        for layer in range(1, self.shape.num_layers):
            assert self._later is not None
            states = states + F.silu(self._later(states, (layer - 1) * k))
        return states

    def likeliest(
        self, hidden: torch.Tensor, roots: torch.Tensor, scale: torch.Tensor, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `MedusaHeads`; in one kernel."""
        return self._drafting(hidden, None if self._roots is None else self._embedding[int(roots)], scale, count)

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        if self._apart:
            apart: torch.Tensor = self._w2(x)
            return apart
        together: torch.Tensor = self._w2(x.flatten(0, 1)[None])[0]
        return together.view(*x.shape[:2], -1)

    def state_dict(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Rounded weights are not to be taken for the heads themselves."""
        raise TypeError("int8 heads are for decoding only; save the heads they were made from")
