"""Medusa-2: train heads and LoRA adapters of their model together (Medusa, section 2.2.2).

Stage 1 trains the heads alone, as Medusa-1 does, unless it is left out; stage 2 runs the model over whole
conversations, prompts and self-written replies, and learns from the replies. The figures saved beside the heads are
those of the changed model on held-out replies, and how far it drifted from the original.
Knows nothing of command lines or of decoding.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.backbone.load import load_backbone, load_model
from medusa_core.calibrate.ranks import measure_fits
from medusa_core.config import Device, DistillConfig, Dtype, Medusa2Config, TrainConfig
from medusa_core.errors import ModelUnsupported, TrainingError
from medusa_core.events import Event, Progress
from medusa_core.heads.adapters import Adapters, adapters_of, merge_adapters
from medusa_core.heads.checkpoint import HeadsCheckpoint, load_heads, save_heads
from medusa_core.prompt_file import FilePrompt
from medusa_core.text import ChatText
from medusa_core.train import processes
from medusa_core.train.corpus import Corpus, held_out_jobs, load
from medusa_core.train.distill import distill
from medusa_core.train.joint import JointObjective, add_adapters
from medusa_core.train.loop import Batches, Evaluation, fit
from medusa_core.train.medusa1 import calibrated, new_heads, train_heads
from medusa_core.train.one_by_one import batched
from medusa_core.train.room import check_out, exclusive
from medusa_core.train.shards import WrittenReply, reply_sizes, written_replies

if TYPE_CHECKING:
    from accelerate import Accelerator

_BLOCK_LOGITS = 2**25


@dataclass(frozen=True, slots=True)
class Base:
    """Where the model lies that gets adapters, and in which precision it answers."""

    folder: Path
    precision: Dtype


@dataclass(frozen=True, slots=True)
class _Plan:
    """What stays the same through both stages."""

    backbone: Backbone
    base: Base
    work: Path
    data: DistillConfig
    config: TrainConfig
    joint: Medusa2Config


def train_jointly(
    backbone: Backbone,
    text: ChatText,
    base: Base,
    out: Path,
    work: Path,
    data: DistillConfig,
    config: TrainConfig,
    joint: Medusa2Config,
    file: Sequence[FilePrompt] = (),
) -> Generator[Event, None, HeadsCheckpoint]:
    """Write replies, train in two stages, calibrate a tree, save heads and adapters to `out`; returns what was saved.

    `backbone` is the model of `base`. A call that was killed goes on from `work`. Raises as
    `medusa1.train_heads`, and ModelUnsupported for a quantized model or one without the layers named.
    """
    if base.precision == "nf4":
        raise ModelUnsupported(
            f"{backbone.spec.name} is quantized to NF4, and adapters are trained in 16 or 32 bit. Choose --dtype bf16 "
            "or fp32 for training; the heads it makes can be used in NF4 as well."
        )
    plan = _Plan(backbone, base, work, data, config, joint)
    accelerator = processes.join(backbone.device, config.mixed_precision)
    if accelerator.is_main_process:
        check_out(out)
    if joint.warm_up:
        warm = work / f"warm-up-{_key(backbone, asdict(data), asdict(config))}"
        if not (warm / "config.json").exists():
            yield from train_heads(backbone, text, warm, work, data, config, file, precision=base.precision)
            accelerator = processes.join(backbone.device, config.mixed_precision)
    else:
        warm = None
        yield from _replies(plan, text, file, accelerator)
    with exclusive(work, accelerator.process_index):
        yield from _second_stage(plan, warm, out, accelerator)
    return load_heads(out, backbone)


def _replies(
    plan: _Plan, text: ChatText, file: Sequence[FilePrompt], accelerator: Accelerator
) -> Generator[Progress, None, None]:
    backbone, rank = plan.backbone, accelerator.process_index
    with exclusive(plan.work, rank):
        folder, ranks = plan.work / "replies", accelerator.num_processes
        writer, writing = batched(backbone, plan.data)
        for progress in distill(writer, text, folder, writing, file, rank=rank, ranks=ranks):
            if accelerator.is_main_process:
                yield progress
        accelerator.wait_for_everyone()


def _second_stage(plan: _Plan, warm: Path | None, out: Path, accelerator: Accelerator) -> Generator[Event, None, None]:
    backbone, config, joint = plan.backbone, plan.config, plan.joint
    training, held_out = _split(plan)
    learned, kept = load(plan.work / "replies", config.held_out)
    heads, coverage = new_heads(backbone, learned, config)
    if warm is not None:
        heads.load_state_dict(load_heads(warm, backbone).heads.state_dict())
    yield Progress("Loading the model for joint training", 0, 1)
    model = load_model(plan.base.folder, _held_in(accelerator), backbone.device)
    adapted = add_adapters(model, joint, backbone.spec.name, config.seed)
    objective = JointObjective(adapted, heads, training, config, joint)

    def evaluate() -> Evaluation:
        with accelerator.autocast():
            pieces = list(zip(objective.states(held_out), map(_token_tensor, held_out), strict=True))
        return measure_fits(heads, pieces, config.max_rank)

    settings = replace(
        config, epochs=joint.epochs, batch_positions=joint.batch_replies, learning_rate=joint.learning_rate
    )
    batches = Batches(len(training), joint.batch_replies, config.seed)
    run = plan.work / f"run-{_key(backbone, asdict(config), asdict(joint), [reply.token_ids for reply in training])}"
    loss = yield from fit(objective, evaluate, batches, settings, run, accelerator)
    if accelerator.is_main_process:
        adapters = adapters_of(adapted, backbone.spec.name)
        del objective, adapted, model
        yield Progress("Measuring the changed model on held-out replies", 0, 1)
        recipe = {
            "method": "medusa2",
            "data": {
                **asdict(plan.data),
                "training_tokens": sum(len(reply.token_ids) for reply in training),
                "held_out_tokens": sum(len(reply.token_ids) for reply in held_out),
            },
            "training": {**asdict(config), "mixed_precision": accelerator.mixed_precision},
            "joint": asdict(joint),
            "draft_vocabulary_coverage": round(coverage, 4),
            "loss": round(loss, 4),
        }
        states = yield from _changed_states(plan, adapters, held_out)
        recipe["drift"] = drift(backbone, *states, [_token_tensor(reply) for reply in held_out])
        corpus = Corpus([(r.token_ids, s) for r, s in zip(held_out, states[1], strict=True)], kept.temperatures)
        texts = [_token_tensor(reply) for reply in training]
        made = yield from calibrated(heads, corpus, backbone, config, recipe, texts)
        save_heads(out, replace(made, adapters=adapters))
        shutil.rmtree(run, ignore_errors=True)
    accelerator.wait_for_everyone()


def _held_in(accelerator: Accelerator) -> str:
    """Frozen weights in the precision of the products: converted once, not in every pass."""
    return "bf16" if accelerator.mixed_precision == "bf16" else "fp32"


def _split(plan: _Plan) -> tuple[list[WrittenReply], list[WrittenReply]]:
    """Replies to learn from and held-out ones, as `corpus.load` divides them."""
    folder = plan.work / "replies"
    kept = held_out_jobs(reply_sizes(folder), plan.config.held_out)
    parts: tuple[list[WrittenReply], list[WrittenReply]] = ([], [])
    size = plan.backbone.spec.vocab_size
    for reply in written_replies(folder):
        if max(reply.token_ids) >= size:
            raise TrainingError(
                f"The replies in {folder} hold token {max(reply.token_ids)}; {plan.backbone.spec.name} has a "
                f"vocabulary of {size}. They were written by another model: choose another folder for replies."
            )
        parts[reply.job in kept].append(reply)
    return parts


def _changed_states(
    plan: _Plan, adapters: Adapters, held_out: Sequence[WrittenReply]
) -> Generator[Event, None, tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """Held-out states of the original and of the model as it will answer: merged, in the precision of the chat."""
    device: Device = "cuda" if plan.backbone.device.type == "cuda" else "cpu"
    changed, _, _ = yield from load_backbone(
        plan.base.folder, plan.base.precision, device, lambda model, _: merge_adapters(adapters, model)
    )
    before, after = ([_read(model, reply) for reply in held_out] for model in (plan.backbone, changed))
    return before, after


@torch.inference_mode()
def _read(backbone: Backbone, reply: WrittenReply) -> torch.Tensor:
    """The states (n, H) that the reply's tokens are chosen from."""
    ids = torch.tensor([*reply.prompt_ids, *reply.token_ids[:-1]], device=backbone.device)
    positions = torch.arange(len(ids), device=ids.device)
    return backbone.forward(ids, positions, None, backbone.new_cache())[len(reply.prompt_ids) - 1 :].cpu()


@torch.inference_mode()
def drift(
    backbone: Backbone, before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], tokens: Sequence[torch.Tensor]
) -> dict[str, float]:
    """How far the model moved: mean KL(original || changed) a token in nats, and the replies' perplexity in both.

    States (n, H) of the original and of the changed model, and the tokens (n,) that came, of every reply.
    """
    kl = own = changed = 0.0
    for first, second, came in _blocks(backbone, before, after, tokens):
        was, now = (
            backbone.logits(states.to(backbone.device, backbone.dtype)).float().log_softmax(-1)
            for states in (first, second)
        )
        kl += float((was.exp() * (was - now)).sum())
        picked = came.to(was.device)[:, None]
        own -= float(was.gather(1, picked).sum())
        changed -= float(now.gather(1, picked).sum())
    count = sum(len(came) for came in tokens)
    perplexity = [float(torch.tensor(total / count).exp()) for total in (own, changed)]
    return {
        "kl": round(kl / count, 6),
        "perplexity_before": round(perplexity[0], 4),
        "perplexity_after": round(perplexity[1], 4),
    }


def _blocks(
    backbone: Backbone, before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], tokens: Sequence[torch.Tensor]
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Parts of replies whose logits fit well into memory."""
    size = max(_BLOCK_LOGITS // backbone.spec.vocab_size, 1)
    for first, second, came in zip(before, after, tokens, strict=True):
        yield from zip(first.split(size), second.split(size), came.split(size), strict=True)


def _token_tensor(reply: WrittenReply) -> torch.Tensor:
    return torch.tensor(reply.token_ids)


def _key(backbone: Backbone, *parts: Any) -> str:
    """One name for the same options over the same replies."""
    described = json.dumps([backbone.spec.fingerprint, *parts], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:12]
