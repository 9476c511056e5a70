"""One tree-masked pass of the model: logits and hidden state of every node (Medusa, section 2.1.2).

Each node sees the cached context, its ancestors and itself; its position is the context's length plus its depth.
Knows nothing of who drafted the tree or of what will be accepted.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from medusa_core.backbone.base import Backbone
from medusa_core.backbone.picking import largest
from medusa_core.records import CandidateTree, Scores
from medusa_core.state import State
from medusa_core.transfer import Arriving, send, upload
from medusa_core.tree import SHAPES, SMALL, Tree

_LARGE_SHAPES = 16


def verify(backbone: Backbone, state: State, candidates: CandidateTree) -> Scores:
    """Score N nodes in one pass; their N rows are appended to the cache until `State.commit` keeps the path."""
    depths, mask = _tensors(candidates.tree, backbone.device)
    ids = candidates.token_ids
    token_ids = ids.tensor if isinstance(ids, Arriving) else upload(ids, backbone.device)
    hidden = backbone.forward(token_ids, state.cache.length + depths, mask, state.cache)
    logits = backbone.logits(hidden)
    return Scores(logits, hidden, largest(logits))


def _made(tree: Tree, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return upload(tree.depths, device), send(torch.from_numpy(np.array(tree.mask)), device)


# A calibrated tree is the same at every step, and small grown ones come again; large ones would fill memory.
_of_small, _of_large = lru_cache(maxsize=SHAPES)(_made), lru_cache(maxsize=_LARGE_SHAPES)(_made)


def _tensors(tree: Tree, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Depths (N,) and ancestor mask (N, N) on the device."""
    return (_of_small if len(tree) <= SMALL else _of_large)(tree, device)
