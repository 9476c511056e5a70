"""Medusa-1: train heads on a frozen model, from nothing but the model (Medusa, sections 2.2.1 and 2.3.2).

The model writes replies (`distill.py`); the hidden states kept beside every token are all that training needs, so the
model itself is not run again. The weights of the loss are 0.8^k; the labels are the tokens that came, or the model's
own distribution there, which the stored states give: head k at t learns softmax(output head . h_t+k).
Knows nothing of command lines or of decoding.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.calibrate.ranks import calibrated_tree, expected_by_size, head_fits, observe_ranks
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.errors import ModelUnsupported, TrainingError
from medusa_core.events import Event, HeadFit
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, save_heads
from medusa_core.heads.kinds import build_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads
from medusa_core.text import ChatText
from medusa_core.train.corpus import Corpus, draft_vocabulary, load
from medusa_core.train.distill import distill
from medusa_core.train.loop import fit
from medusa_core.train.losses import hard_loss, soft_loss, weighted_sum
from medusa_core.train.room import check_out

_SCALE_STATES = 4096  # hidden states whose size embeddings are scaled to


def train_heads(
    backbone: Backbone, text: ChatText, out: Path, work: Path, data: DistillConfig, config: TrainConfig
) -> Generator[Event, None, HeadsCheckpoint]:
    """Write replies, train, calibrate a tree, save to `out`; returns what was saved.

    `work` holds replies and checkpoints: a call that was killed goes on from there. Raises TrainingError, DiskFull,
    OutOfMemory, NoChatTemplate, ConfigError where `out` cannot be written or holds something else, or
    ModelUnsupported for a model that the lean pass cannot run.
    """
    if not isinstance(backbone, LeanBackbone):
        raise ModelUnsupported(
            f"{backbone.spec.name} ({backbone.spec.family}) cannot write its own training data yet: that needs a "
            "Llama-family model (llama, mistral, qwen2, qwen3, smollm3)."
        )
    check_out(out)
    replies = work / "replies"
    yield from distill(backbone, text, replies, data)
    training, held_out = load(replies, config.held_out)
    _check_labels(training, config.num_heads)
    heads, coverage = new_heads(backbone, training, config)
    objective = _Objective(heads, training, backbone.output_weight, config)

    def evaluate() -> tuple[HeadFit, ...]:
        return head_fits(observe_ranks(heads, held_out.pieces(), config.max_rank), config.num_heads)

    run = work / f"run-{_run_key(training, backbone, config)}"
    loss = yield from fit(heads, objective, evaluate, len(training.tokens), config, run)
    observed = observe_ranks(heads, held_out.pieces(), config.max_rank)
    tree, counts = calibrated_tree(observed, config.tree_nodes, config.max_rank)
    record = {
        "data": {**asdict(data), "training_tokens": len(training.tokens), "held_out_tokens": len(held_out.tokens)},
        "training": asdict(config),
        "draft_vocabulary_coverage": round(coverage, 4),
        "loss": round(loss, 4),
        "held_out": [
            {"top1": round(fit.top1, 4), "top5": round(fit.top5, 4)} for fit in head_fits(observed, config.num_heads)
        ],
        "expected_tokens_per_step": expected_by_size(tree, counts, len(observed)),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    checkpoint = HeadsCheckpoint(heads, tree, _base(backbone), record)
    save_heads(out, checkpoint)
    shutil.rmtree(run, ignore_errors=True)
    return checkpoint


def _check_labels(training: Corpus, num_heads: int) -> None:
    longest = int(training.left.max())
    if longest < num_heads:
        raise TrainingError(
            f"The longest training reply has {longest + 1} tokens, so head {num_heads} has no token to learn. "
            "Let the model write more tokens (--tokens), or train fewer heads (--heads)."
        )


def _run_key(training: Corpus, backbone: Backbone, config: TrainConfig) -> str:
    """One name for the same options over the same replies: another training never meets this one's checkpoints."""
    digest = hashlib.sha256(json.dumps([asdict(config), backbone.spec.fingerprint], sort_keys=True).encode())
    digest.update(training.tokens.numpy().tobytes())
    return digest.hexdigest()[:12]


def new_heads(backbone: Backbone, corpus: Corpus, config: TrainConfig) -> tuple[MedusaHeads, float]:
    """Untrained heads for the backbone, and the share of the corpus that their draft vocabulary covers."""
    spec = backbone.spec
    token_map, coverage = draft_vocabulary(corpus, config.draft_vocab_size, spec.vocab_size)
    shape = HeadsShape(
        num_heads=config.num_heads,
        num_layers=config.num_layers,
        hidden_size=spec.hidden_size,
        vocab_size=spec.vocab_size,
        draft_vocab_size=spec.vocab_size if token_map is None else len(token_map),
        shared_output=config.shared_output,
    )
    # Adam needs 32-bit weights, whatever the model runs in.
    heads = build_heads(
        config.kind, shape, backbone.output_weight.float(), backbone.embedding_weight.float(), token_map
    )
    if isinstance(heads, RootedHeads):
        heads.scale_roots(corpus.hidden[:_SCALE_STATES])
    return heads, coverage


class _Objective:
    """The loss of a batch of positions."""

    def __init__(self, heads: MedusaHeads, corpus: Corpus, output_weight: torch.Tensor, config: TrainConfig) -> None:
        self._heads, self._corpus, self._config = heads, corpus, config
        vocab_size = heads.shape.vocab_size
        if heads.token_map is None:
            self._rows = output_weight.float()
            self._index = torch.arange(vocab_size)
        else:
            self._rows = output_weight[heads.token_map].float()
            self._index = torch.full((vocab_size,), -1)  # -1: outside the draft vocabulary
            self._index[heads.token_map.cpu()] = torch.arange(len(heads.token_map))

    def __call__(self, positions: torch.Tensor) -> torch.Tensor:
        """The weighted loss over the positions (M,) of a batch."""
        device = self._rows.device
        hidden, roots = self._corpus.hidden[positions], self._corpus.tokens[positions]
        logits = self._heads(hidden.float().to(device), roots.to(device))
        ahead = [self._corpus.ahead(positions, k) for k in range(1, self._config.num_heads + 1)]
        targets = torch.stack([target for target, _ in ahead])  # (K, M)
        valid = torch.stack([known for _, known in ahead]).to(device)
        if self._config.soft_labels:
            losses = self._soft(logits, targets, valid)
        else:
            labels = self._index[self._corpus.tokens[targets]].to(device)
            losses = hard_loss(logits, labels.clamp_min(0), valid & (labels >= 0))
        return weighted_sum(losses, self._config.head_weight)

    def _soft(self, logits: torch.Tensor, targets: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        # Head 2 at t and head 1 at t + 1 share a label: each distinct one is computed once.
        distinct, rows = targets.unique(return_inverse=True)
        with torch.no_grad():
            states = self._corpus.hidden[distinct].float().to(logits.device)
            teacher = torch.nn.functional.linear(states, self._rows).softmax(-1)
        return soft_loss(logits, teacher, rows.to(logits.device), valid)


def _base(backbone: Backbone) -> BaseModel:
    spec = backbone.spec
    return BaseModel(name=spec.name, family=spec.family, fingerprint=spec.fingerprint)


def describe(checkpoint: HeadsCheckpoint) -> dict[str, Any]:
    """The figures saved beside the heads."""
    return dict(checkpoint.training)
