"""Self-written replies on disk: small safetensors files, each written whole or not at all.

A shard holds R replies. Of each: its tokens, and beside every token the hidden state (H,) it was chosen from, which is
what heads are trained on. Knows nothing of how replies are written or used.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from medusa_core.errors import DiskFull, TrainingError

_PATTERN = "replies-*.safetensors"


@dataclass(slots=True)
class Reply:
    """One self-written reply of n tokens, the stop token included where the model wrote one."""

    job: int  # number of the prompt in the plan: what has been answered is not asked again
    temperature: float
    prompt_ids: list[int]
    token_ids: list[int]
    hidden: torch.Tensor  # (n, H): row j is the state that token j was chosen from


@dataclass(frozen=True, slots=True)
class ReplySize:
    """What a shard's header says of one reply."""

    job: int
    tokens: int


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """A reply's tokens without its hidden states."""

    job: int
    prompt_ids: list[int]
    token_ids: list[int]


def write_shard(folder: Path, replies: Sequence[Reply], rank: int = 0) -> Path:
    """Write a shard under the next free number of writer `rank`. Raises DiskFull with nothing half-written."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = folder.glob(f"replies-*-{rank:02d}.safetensors")
    number = 1 + max((int(path.stem.split("-")[1]) for path in mine), default=-1)
    target = folder / f"replies-{number:06d}-{rank:02d}.safetensors"
    tensors = {
        "tokens": torch.tensor([token for reply in replies for token in reply.token_ids], dtype=torch.int32),
        "prompts": torch.tensor([token for reply in replies for token in reply.prompt_ids], dtype=torch.int32),
        "hidden": torch.cat([reply.hidden for reply in replies]).contiguous(),
    }
    index = [
        {
            "job": reply.job,
            "temperature": reply.temperature,
            "prompt": len(reply.prompt_ids),
            "tokens": len(reply.token_ids),
        }
        for reply in replies
    ]
    part = target.with_suffix(".part")
    try:
        save_file(tensors, part, metadata={"replies": json.dumps(index)})
        os.replace(part, target)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
            raise DiskFull(f"The disk that holds {folder} is full; free some space and start again.") from error
        raise
    return target


def read_shards(folder: Path) -> Iterator[Reply]:
    """Every reply in the order written. Raises TrainingError naming the file where one is damaged."""
    for path in sorted(folder.glob(_PATTERN)):
        yield from _read(path)


def reply_sizes(folder: Path) -> list[ReplySize]:
    """Every reply in the order written, from the shards' headers alone."""
    return [size for path in sorted(folder.glob(_PATTERN)) for size in shard_sizes(path)]


def shard_sizes(path: Path) -> list[ReplySize]:
    """The replies of one shard, from its header alone."""
    return [ReplySize(entry["job"], entry["tokens"]) for entry in _index(path)]


def written_replies(folder: Path) -> list[WrittenReply]:
    """Every reply in the order written, without the hidden states."""
    replies: list[WrittenReply] = []
    for path in sorted(folder.glob(_PATTERN)):
        index = _index(path)
        with _naming_damage(path), safe_open(path, framework="pt") as file:
            tokens, prompts = file.get_tensor("tokens").tolist(), file.get_tensor("prompts").tolist()
        token_at = prompt_at = 0
        for entry in index:
            token_end, prompt_end = token_at + entry["tokens"], prompt_at + entry["prompt"]
            replies.append(WrittenReply(entry["job"], prompts[prompt_at:prompt_end], tokens[token_at:token_end]))
            token_at, prompt_at = token_end, prompt_end
    return replies


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path} is damaged ({error}); delete it and start again, the rest is kept.") from error


def _index(path: Path) -> list[dict[str, int]]:
    with _naming_damage(path), safe_open(path, framework="pt") as file:
        index: list[dict[str, int]] = json.loads(file.metadata()["replies"])
    return index


def _read(path: Path) -> Iterator[Reply]:
    index = _index(path)
    with _naming_damage(path), safe_open(path, framework="pt") as file:
        tokens, prompts = file.get_tensor("tokens").tolist(), file.get_tensor("prompts").tolist()
        hidden = file.get_tensor("hidden")
    token_at = prompt_at = 0
    for entry in index:
        token_end, prompt_end = token_at + entry["tokens"], prompt_at + entry["prompt"]
        yield Reply(
            job=entry["job"],
            temperature=entry["temperature"],
            prompt_ids=prompts[prompt_at:prompt_end],
            token_ids=tokens[token_at:token_end],
            hidden=hidden[token_at:token_end],
        )
        token_at, prompt_at = token_end, prompt_end
