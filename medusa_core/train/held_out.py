"""Replies that a set of heads was not trained on: new ones that the model writes, or the held-out ones of a folder.

Knows nothing of what is measured on them.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.errors import TrainingError
from medusa_core.events import Progress
from medusa_core.text import ChatText
from medusa_core.train.corpus import held_out_jobs
from medusa_core.train.distill import distill
from medusa_core.train.one_by_one import batched
from medusa_core.train.shards import read_shards, reply_sizes

HeldOutReply = tuple[torch.Tensor, torch.Tensor, float]  # hidden (n, H), tokens (n,), temperature it was written at


def write_replies(
    backbone: Backbone, text: ChatText, folder: Path, training: Mapping[str, Any], tokens: int
) -> Generator[Progress, None, None]:
    """Let the model write `tokens` reply tokens from another seed than that of the heads' training, which `training`
    records; what an earlier call wrote counts.
    """
    writer, config = batched(backbone, DistillConfig(tokens=tokens, seed=_training_seed(training) + 1))
    yield from distill(writer, text, folder / f"seed-{config.seed}", config)


def held_out_replies(folder: Path, spec: BackboneSpec, training: Mapping[str, Any], tokens: int) -> list[HeldOutReply]:
    """Replies of a folder, until they have `tokens` tokens; its subfolders are looked into, as `train` makes them.

    Where the heads were trained on the folder, only what was held out then. States stay in their files until they are
    used. Raises TrainingError where there are none, or they are another model's.
    """
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    found: list[HeldOutReply] = []
    count = 0
    for place in places:
        kept = _kept(place, spec, training)
        for reply in read_shards(place):
            if (kept is None or reply.job in kept) and count < tokens:
                found.append((reply.hidden, torch.tensor(reply.token_ids), reply.temperature))
                count += len(reply.token_ids)
    if not found:
        raise TrainingError(f"There are no held-out replies in {folder}. Name a folder of training data.")
    if found[0][0].shape[1] != spec.hidden_size:
        raise TrainingError(
            f"The replies in {folder} hold states of size {found[0][0].shape[1]}; {spec.name} has {spec.hidden_size}. "
            "They were written by another model."
        )
    return found


def _kept(folder: Path, spec: BackboneSpec, training: Mapping[str, Any]) -> set[int] | None:
    """The jobs that were held out where the heads were trained on this folder; None: all of them."""
    try:
        owner: Any = json.loads((folder / "replies.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None  # shards without a name on them
    except ValueError as error:
        raise TrainingError(
            f"{folder / 'replies.json'} is damaged ({error}); choose another folder of replies."
        ) from error
    if owner.get("model") != spec.fingerprint:
        raise TrainingError(
            f"{folder} holds replies of another model (fingerprint {owner.get('model')}; {spec.name} has "
            f"{spec.fingerprint}). Choose another folder of replies."
        )
    if owner.get("seed") != _training_seed(training):
        return None
    share = training.get("training", {}).get("held_out", TrainConfig().held_out)
    return held_out_jobs(reply_sizes(folder), share)


def _training_seed(training: Mapping[str, Any]) -> int:
    seed = training.get("data", {}).get("seed")
    return seed if isinstance(seed, int) else DistillConfig().seed
