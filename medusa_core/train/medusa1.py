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
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.calibrate.ranks import measure_fits
from medusa_core.calibrate.statistics import DTYPE_NAMES, measure_heads
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.errors import TrainingError
from medusa_core.events import Event, Progress
from medusa_core.head_statistics import expected_by_size
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, load_heads, save_heads
from medusa_core.heads.kinds import build_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.pairs import count_pairs, fit_strengths
from medusa_core.heads.rooted import RootedHeads
from medusa_core.prompt_file import FilePrompt
from medusa_core.text import ChatText
from medusa_core.train import processes
from medusa_core.train.corpus import Corpus, draft_vocabulary, load
from medusa_core.train.distill import distill
from medusa_core.train.loop import Batches, Evaluation, Objective, fit
from medusa_core.train.losses import hard_loss, head_weights, product_dtype, soft_loss, teacher_probabilities
from medusa_core.train.one_by_one import batched
from medusa_core.train.room import check_out, exclusive

_SCALE_STATES = 4096  # hidden states whose size embeddings are scaled to
_NEIGHBOURS = 16  # positions that stay together: most of their labels are shared


def train_heads(
    backbone: Backbone,
    text: ChatText,
    out: Path,
    work: Path,
    data: DistillConfig,
    config: TrainConfig,
    file: Sequence[FilePrompt] = (),
    *,
    precision: str = "",
) -> Generator[Event, None, HeadsCheckpoint]:
    """Write replies, train, calibrate a tree, save to `out`; returns what was saved.

    `precision`: what the model was loaded in, for the statistics; "" for that of its hidden states.
    `work` holds replies and checkpoints: a call that was killed goes on from there. Raises TrainingError, DiskFull,
    OutOfMemory, NoChatTemplate, ConfigError where `out` cannot be written or holds something else, or
    ModelUnsupported for a model that cannot verify guesses.
    """
    accelerator = processes.join(backbone.device, config.mixed_precision)
    rank, ranks, replies = accelerator.process_index, accelerator.num_processes, work / "replies"
    if accelerator.is_main_process:
        check_out(out)
    with exclusive(work, rank):
        writer, writing = batched(backbone, data)
        for progress in distill(writer, text, replies, writing, file, rank=rank, ranks=ranks):
            if accelerator.is_main_process:
                yield progress
        accelerator.wait_for_everyone()
        training, held_out = load(replies, config.held_out)
        _check_corpus(training, backbone)
        heads, coverage = new_heads(backbone, training, config)
        objective = HeadsObjective(heads, training, backbone.output_weight, config)
        batches = Batches(len(training.tokens), config.batch_positions, config.seed, _NEIGHBOURS)

        def evaluate() -> Evaluation:
            return measure_fits(heads, held_out.pieces(), config.max_rank)

        run = work / f"run-{_run_key(training, backbone, config)}"
        loss = yield from fit(objective, evaluate, batches, config, run, accelerator)
        if accelerator.is_main_process:
            recipe = {
                "data": {
                    **asdict(data),
                    "training_tokens": len(training.tokens),
                    "held_out_tokens": len(held_out.tokens),
                },
                "training": {**asdict(config), "mixed_precision": accelerator.mixed_precision},
                "draft_vocabulary_coverage": round(coverage, 4),
                "loss": round(loss, 4),
            }
            texts = training.tokens_by_reply()
            save_heads(out, (yield from calibrated(heads, held_out, backbone, config, recipe, texts, precision)))
            shutil.rmtree(run, ignore_errors=True)
        accelerator.wait_for_everyone()
    return load_heads(out, backbone)


def calibrated(
    heads: MedusaHeads,
    held_out: Corpus,
    backbone: Backbone,
    config: TrainConfig,
    recipe: dict[str, Any],
    texts: Iterable[torch.Tensor],
    precision: str = "",
) -> Generator[Progress, None, HeadsCheckpoint]:
    """The heads with the tree that held-out replies call for, with their figures, and with the pairs in `texts`."""
    statistics = yield from measure_heads(
        heads,
        list(held_out.pieces()),
        held_out.temperatures,
        max_rank=config.max_rank,
        precision=precision or DTYPE_NAMES.get(backbone.dtype, str(backbone.dtype)),
    )
    both = statistics.together
    record = {
        **recipe,
        "held_out": [{"top1": round(top[0], 4), "top5": round(top[:5][-1], 4)} for top in both.top()],
        "expected_tokens_per_step": expected_by_size(both.expected(config.tree_nodes)),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    pairs = count_pairs(texts, heads.shape.vocab_size, heads.token_map, config.num_heads)
    pairs = replace(pairs, strengths=fit_strengths(pairs, heads, statistics.temperatures, held_out.pieces()))
    tree = both.tree(config.tree_nodes)
    return HeadsCheckpoint(heads, tree, _base(backbone), record, statistics=statistics, pairs=pairs)


def _check_corpus(training: Corpus, backbone: Backbone) -> None:
    spec, largest = backbone.spec, int(training.tokens.max())
    if largest >= spec.vocab_size or training.hidden_size != spec.hidden_size:
        raise TrainingError(
            f"The replies hold token {largest} and hidden states of size {training.hidden_size}; {spec.name} has a "
            f"vocabulary of {spec.vocab_size} and hidden size {spec.hidden_size}. They were written by another model: "
            "delete them, or choose another folder for the training data."
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
        shared_output=config.chosen_output == "model",
        one_output=config.chosen_output == "one",
    )
    # Adam needs 32-bit weights, whatever the model runs in.
    heads = build_heads(
        config.kind, shape, backbone.output_weight.float(), backbone.embedding_weight.float(), token_map
    )
    if isinstance(heads, RootedHeads):
        heads.scale_roots(corpus.states(torch.arange(min(_SCALE_STATES, len(corpus.tokens)))))
    return heads, coverage


class HeadsObjective(Objective):
    """The heads' loss over a batch of positions."""

    def __init__(self, heads: MedusaHeads, corpus: Corpus, output_weight: torch.Tensor, config: TrainConfig) -> None:
        """`output_weight` (V, H) is the model's, from which soft labels are made."""
        super().__init__()
        self.heads = heads
        self._corpus, self._config, self._output_weight = corpus, config, output_weight
        vocab_size = heads.shape.vocab_size
        self._index = torch.arange(vocab_size)
        self._rows = output_weight  # (V', H)
        if heads.token_map is not None:
            self._rows = output_weight[heads.token_map]
            self._index = torch.full((vocab_size,), -1)  # -1: outside the draft vocabulary
            self._index[heads.token_map.cpu()] = torch.arange(len(heads.token_map))

    def counts(self, items: torch.Tensor) -> torch.Tensor:
        """Positions that have a label, by head (K,)."""
        return self._targets(items.cpu())[1].sum(-1)

    def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """See `Objective`."""
        positions, device = items.cpu(), self._rows.device
        roots = self._corpus.tokens[positions].to(device)
        states = self.heads.before_output(self._corpus.states(positions).to(device).float(), roots)
        targets, valid = self._targets(positions)
        weights = head_weights(valid.to(device), counts, self._config.head_weight)
        rows = self._rows_in(product_dtype(states))
        output = self.heads.output(rows)
        if not self._config.soft_labels:
            return hard_loss(states, output, self._index[self._corpus.tokens[targets]].clamp_min(0).to(device), weights)
        # Head 2 at t and head 1 at t + 1 share a label: each distinct one is computed once.
        distinct, numbers = targets.unique(return_inverse=True)
        teacher = teacher_probabilities(self._corpus.states(distinct).to(device), rows)
        return soft_loss(states, output, teacher, numbers.to(device), weights)

    def frozen(self) -> dict[str, torch.Tensor]:
        """The heads' frozen tensors, and what they share with the model."""
        return {**super().frozen(), "the model's output head": self._output_weight}

    def _targets(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the label of each head at positions (M,) stands, and whether there is one: (K, M) each."""
        ahead = [self._corpus.ahead(positions, k) for k in range(1, self.heads.shape.num_heads + 1)]
        targets = torch.stack([target for target, _ in ahead])
        valid = torch.stack([known for _, known in ahead])
        if not self._config.soft_labels:
            valid &= self._index[self._corpus.tokens[targets]] >= 0
        return targets, valid

    def _rows_in(self, dtype: torch.dtype) -> torch.Tensor:
        """The output head's rows in the precision of the products; converted once."""
        if self._rows.dtype != dtype:
            self._rows = self._rows.to(dtype)
        return self._rows


def _base(backbone: Backbone) -> BaseModel:
    spec = backbone.spec
    return BaseModel(name=spec.name, family=spec.family, fingerprint=spec.fingerprint)


def describe(checkpoint: HeadsCheckpoint) -> dict[str, Any]:
    """The figures saved beside the heads."""
    return dict(checkpoint.training)
