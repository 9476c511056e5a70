"""The nouns of one decoding step, frozen. The only records that hold tensors; they never leave the engine.

Shapes: N nodes with the root, V vocabulary, H hidden, W kept of each row. Knows nothing of how a record is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from medusa_core.events import Source, Verdict
from medusa_core.tree import Tree


@dataclass(frozen=True, slots=True)
class CandidateTree:
    """What is guessed to come: the root (the model's own choice) and the drafted nodes."""

    tree: Tree
    token_ids: Sequence[int]  # N; on a GPU they may still be on their way, see `transfer.py`
    ranks: tuple[int, ...]  # N; among the guesses of the node's source, 0 for the root
    draft_probabilities: Sequence[float | None]  # N; None for the root
    sources: tuple[Source, ...]  # N
    note: str = ""  # one sentence for people where the drafter chose to guess nothing


@dataclass(frozen=True, slots=True)
class Largest:
    """The W largest logits of every row, descending."""

    values: torch.Tensor  # (N, W)
    token_ids: torch.Tensor  # (N, W)


@dataclass(frozen=True, slots=True)
class Scores:
    """What the model said of every node, from one pass."""

    logits: torch.Tensor  # (N, V): of the token after each node
    hidden: torch.Tensor  # (N, H)
    largest: Largest | None = None  # where one look at the logits serves all who ask: on the CPU


@dataclass(frozen=True, slots=True)
class Accepted:
    """The rule's decision."""

    path: tuple[int, ...]  # node indices, root first
    next_token: int  # the root of the next step: what the rule chose or drew at the path's end
    verdicts: Mapping[int, Verdict]  # every node that was tried: its parent passed
    model_probabilities: tuple[float, ...] | None = None  # N; p(node | parent), where somebody asked; the root's is 1
    stop_node: int | None = None  # the accepted stop token after the path's end: it ended the reply, no part of it
