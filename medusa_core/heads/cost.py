"""What a step costs with a set of heads: passes of the model, as `backbone/cost.py` times them, and one draft.

Knows nothing of trees or decoding.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.backbone.cost import CostTable, brief_costs, cost_key, costs
from medusa_core.events import Progress
from medusa_core.heads.int8 import Int8Heads
from medusa_core.heads.medusa import MedusaHeads

_GUESSES = 10  # of every head: as many as are asked for while decoding


def heads_costs(
    backbone: Backbone, heads: MedusaHeads, precision: str, folder: Path
) -> Generator[Progress, None, CostTable]:
    """The costs on this machine: from the cache `folder` where they are there, else measured, in seconds.

    `precision` is what the model was loaded in, as `ModelInfo.dtype` says it.
    """
    key = cost_key(backbone, precision, _described(heads))
    return (yield from costs(backbone, partial(_draft, heads), key, folder))


def brief_heads_costs(
    backbone: Backbone, heads: MedusaHeads | None, precision: str, folder: Path
) -> Generator[Progress, None, CostTable]:
    """The same within about a second, rougher where nothing better is kept; also without heads."""
    key = cost_key(backbone, precision, "none" if heads is None else _described(heads))
    draft = None if heads is None else partial(_draft, heads)
    return (yield from brief_costs(backbone, draft, key, folder))


def _draft(heads: MedusaHeads, hidden: torch.Tensor) -> object:
    roots = torch.zeros(1, dtype=torch.long, device=hidden.device)
    scale = torch.ones(heads.shape.num_heads, 1, device=hidden.device)
    probabilities, places = heads.likeliest(hidden, roots, scale, min(_GUESSES, heads.shape.draft_vocab_size))
    return heads.token_ids(places).tolist(), probabilities.gather(1, places).tolist()


def _described(heads: MedusaHeads) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in asdict(heads.shape).items())
    return f"{heads.kind}: {sizes}{f', {heads.build}' if isinstance(heads, Int8Heads) else ''}"
