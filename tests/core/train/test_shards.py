"""Shards of replies: whole or not there, and a damaged one is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from medusa_core.errors import DiskFull, TrainingError
from medusa_core.train import shards
from medusa_core.train.shards import Reply, read_shards, reply_sizes, write_shard, written_replies


def reply(job: int, tokens: list[int], prompt: list[int] | None = None) -> Reply:
    hidden = torch.arange(len(tokens) * 4, dtype=torch.bfloat16).view(-1, 4) + job
    return Reply(job, 0.7, prompt or [job, 1], tokens, hidden)


def test_replies_come_back_as_written(tmp_path: Path) -> None:
    write_shard(tmp_path, [reply(3, [5, 6, 7]), reply(1, [8])])
    write_shard(tmp_path, [reply(2, [9, 10], prompt=[4, 4, 4])])
    found = list(read_shards(tmp_path))
    assert [(r.job, r.temperature, r.prompt_ids, r.token_ids) for r in found] == [
        (3, 0.7, [3, 1], [5, 6, 7]),
        (1, 0.7, [1, 1], [8]),
        (2, 0.7, [4, 4, 4], [9, 10]),
    ]
    for r in found:
        assert torch.equal(r.hidden, reply(r.job, r.token_ids).hidden)
    assert [(size.job, size.tokens) for size in reply_sizes(tmp_path)] == [(3, 3), (1, 1), (2, 2)]
    written = [(r.job, r.prompt_ids, r.token_ids) for r in written_replies(tmp_path)]
    assert written == [(r.job, r.prompt_ids, r.token_ids) for r in found]


def test_several_writers_do_not_meet(tmp_path: Path) -> None:
    names = [write_shard(tmp_path, [reply(job, [job])], rank=job % 2).name for job in range(4)]
    assert len(set(names)) == 4
    assert sorted(r.job for r in read_shards(tmp_path)) == [0, 1, 2, 3]


def test_what_a_kill_left_half_written_is_not_read(tmp_path: Path) -> None:
    write_shard(tmp_path, [reply(0, [1])])
    (tmp_path / "replies-000001-00.part").write_bytes(b"half")
    assert len(list(read_shards(tmp_path))) == 1
    assert write_shard(tmp_path, [reply(1, [2])]).name == "replies-000001-00.safetensors"
    assert [r.job for r in read_shards(tmp_path)] == [0, 1]


@pytest.mark.parametrize("damage", ["cut", "garbage", "no index", "no tensor"])
def test_a_damaged_shard_is_named(tmp_path: Path, damage: str) -> None:
    write_shard(tmp_path, [reply(0, [1])])
    path = write_shard(tmp_path, [reply(1, [2, 3])])
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "garbage":
        path.write_bytes(b"not a shard at all")
    elif damage == "no index":
        save_file({"tokens": torch.tensor([1])}, path)
    else:
        save_file({"tokens": torch.tensor([1])}, path, metadata={"replies": '[{"job": 1, "tokens": 1, "prompt": 1}]'})
    with pytest.raises(TrainingError, match=r"replies-000001-00\.safetensors is damaged .* delete it and start again"):
        list(read_shards(tmp_path))
    with pytest.raises(TrainingError, match=r"replies-000001-00\.safetensors is damaged"):
        written_replies(tmp_path)


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), SafetensorError("I/O error: No space left on device (os error 28)")],
)
def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write_shard(tmp_path, [reply(0, [1])])

    def full(tensors: dict[str, torch.Tensor], path: Path, **_: Any) -> None:
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr(shards, "save_file", full)
    with pytest.raises(DiskFull, match="free some space"):
        write_shard(tmp_path, [reply(1, [2])])
    assert [path.name for path in tmp_path.iterdir()] == ["replies-000000-00.safetensors"]
