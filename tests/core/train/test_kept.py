"""Training data on this computer: what there is, and that it goes only when nobody uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from medusa_core.errors import TrainingError
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt
from medusa_core.train.kept import discard, kept_data
from medusa_core.train.room import exclusive
from medusa_core.train.shards import Reply, write_shard
from medusa_core.train.work import Session, begin


def write(folder: Path, tokens: int) -> Path:
    return write_shard(folder, [Reply(0, 0.0, [1], [2] * tokens, torch.zeros(tokens, 4).bfloat16())])


def test_all_of_it_is_found_with_what_there_is_to_know(tmp_path: Path) -> None:
    training = tmp_path / "training"
    assert kept_data(tmp_path) == []
    shard = write(training / "My-Model-0123abcd-11111111" / "replies", 30)
    owner = {"model": "0123abcd", "file": ""}
    (shard.parent / "replies.json").write_text(json.dumps(owner), encoding="utf-8")
    own = training / "Other-0123abcd-22222222"
    write(own / "replies", 5)
    begin(Session(own, 5000, (FilePrompt((ChatMessage(role="user", content="Hm?"),)),)))
    write(tmp_path / "calibration" / "Other-0123abcd-int8" / "seed-1", 7)
    (training / "something").mkdir()
    (training / "a-file-0-0").write_text("")
    found = {data.folder.name: data for data in kept_data(tmp_path)}
    assert len(found) == 3
    first = found["My-Model-0123abcd-11111111"]
    assert (first.model, first.tokens, first.own, first.paused, first.measuring) == (
        "My-Model",
        30,
        False,
        False,
        False,
    )
    assert first.size == shard.stat().st_size + len(json.dumps(owner))
    assert first.changed >= shard.stat().st_mtime
    second = found["Other-0123abcd-22222222"]
    assert (second.tokens, second.own, second.paused) == (5, True, True)
    measured = found["Other-0123abcd-int8"]
    assert (measured.model, measured.tokens, measured.measuring) == ("Other", 7, True)
    (shard.parent / "replies.json").write_text(json.dumps({**owner, "file": "digest"}), encoding="utf-8")
    assert all(data.own for data in kept_data(tmp_path) if data.model == "My-Model")


def test_a_damaged_file_does_not_hide_the_rest(tmp_path: Path) -> None:
    replies = tmp_path / "training" / "M-0-1" / "replies"
    write(replies, 30)
    (replies / "replies-000009-00.safetensors").write_bytes(b"no")
    (data,) = kept_data(tmp_path)
    assert data.tokens == 30


def test_it_goes_with_all_that_is_in_it_unless_it_is_in_use(tmp_path: Path) -> None:
    folder = tmp_path / "training" / "M-0-1"
    shard = write(folder / "replies", 30)
    (folder / "run-1").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with exclusive(folder), pytest.raises(TrainingError, match="Another training"):
        discard(folder)
    assert shard.exists()
    size = shard.stat().st_size
    assert discard(folder) >= size
    assert not folder.exists()
    assert (tmp_path / "elsewhere" / "precious").exists()
    assert discard(folder) == 0
