"""The kinds of heads by the name that files and options call them. Knows nothing of how they are trained or used."""

from __future__ import annotations

import torch

from medusa_core.errors import ConfigError
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads

KINDS = (MedusaHeads.kind, RootedHeads.kind)


def build_heads(
    kind: str,
    shape: HeadsShape,
    output_weight: torch.Tensor,
    embedding: torch.Tensor,
    token_map: torch.Tensor | None,
) -> MedusaHeads:
    """Untrained heads over a model's output weight (V, H) and input embedding (V, H)."""
    if kind == MedusaHeads.kind:
        return MedusaHeads(shape, output_weight, token_map)
    if kind == RootedHeads.kind:
        return RootedHeads(shape, output_weight, embedding, token_map)
    raise ConfigError(f"there is no kind of heads called {kind!r}; it must be one of {', '.join(KINDS)}")
