"""Which replies of a folder heads may be measured on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.errors import TrainingError
from medusa_core.train.corpus import held_out_jobs
from medusa_core.train.held_out import held_out_replies
from medusa_core.train.shards import Reply, reply_sizes, write_shard

TRAINING = {"data": {"seed": 5}, "training": {"held_out": 0.25}}


def fill(folder: Path, backbone: LeanBackbone, seed: int) -> None:
    for job in range(0, 40, 2):
        hidden = torch.full((3, backbone.spec.hidden_size), float(job))
        write_shard(folder, [Reply(job, 0.7 * (job % 4 > 0), [1], [job, job, 0], hidden)])
    owner = {"model": backbone.spec.fingerprint, "seed": seed}
    (folder / "replies.json").write_text(json.dumps(owner), encoding="utf-8")


def jobs(replies: list[tuple[torch.Tensor, torch.Tensor, float]]) -> list[int]:
    return [int(tokens[0]) for _, tokens, _ in replies]


def test_of_training_replies_only_those_held_out(backbone: LeanBackbone, tmp_path: Path) -> None:
    fill(tmp_path / "replies", backbone, seed=5)
    found = held_out_replies(tmp_path, backbone.spec, TRAINING, 1000)
    assert set(jobs(found)) == held_out_jobs(reply_sizes(tmp_path / "replies"), 0.25)
    assert 0 < len(found) < 20
    assert {temperature for _, _, temperature in found} <= {0.0, 0.7}
    assert all(float(hidden[0, 0]) == int(tokens[0]) for hidden, tokens, _ in found)


def test_of_other_replies_all_up_to_the_number_of_tokens(backbone: LeanBackbone, tmp_path: Path) -> None:
    fill(tmp_path, backbone, seed=6)
    assert len(held_out_replies(tmp_path, backbone.spec, TRAINING, 1000)) == 20
    assert len(held_out_replies(tmp_path, backbone.spec, TRAINING, 7)) == 3
    (tmp_path / "replies.json").unlink()
    assert len(held_out_replies(tmp_path, backbone.spec, {}, 1000)) == 20


def test_replies_of_another_model_are_refused(backbone: LeanBackbone, tmp_path: Path) -> None:
    fill(tmp_path, backbone, seed=6)
    with pytest.raises(TrainingError, match="replies of another model"):
        held_out_replies(tmp_path, replace(backbone.spec, fingerprint="f"), TRAINING, 1000)
    (tmp_path / "replies.json").write_text("{", encoding="utf-8")
    with pytest.raises(TrainingError, match="is damaged"):
        held_out_replies(tmp_path, backbone.spec, TRAINING, 1000)
    (tmp_path / "replies.json").unlink()
    with pytest.raises(TrainingError, match="states of size 64; tiny has 32"):
        held_out_replies(tmp_path, replace(backbone.spec, hidden_size=32), TRAINING, 1000)


def test_an_empty_folder_is_named(backbone: LeanBackbone, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=f"no held-out replies in {tmp_path}"):
        held_out_replies(tmp_path, backbone.spec, TRAINING, 1000)
