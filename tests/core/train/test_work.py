"""Where a training is kept, and how it is found again after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import DistillConfig
from medusa_core.errors import TrainingError
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt
from medusa_core.train.pace import Pace
from medusa_core.train.room import exclusive
from medusa_core.train.shards import Reply, write_shard
from medusa_core.train.work import (
    NEW_HEADS,
    Session,
    Written,
    begin,
    cancel,
    data_folder,
    end,
    noting,
    unfinished,
    written,
)

PROMPT = FilePrompt((ChatMessage(role="user", content="Wie weit? ☃"),))


def test_a_session_is_found_by_its_model_alone(tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path) -> None:
    spec, other = tiny_backbone().spec, tiny_backbone("qwen2").spec
    folder = data_folder(tmp_path, spec, DistillConfig(), [PROMPT])
    assert unfinished(tmp_path, spec) is None
    begin(Session(folder, 5000, (PROMPT,)))
    assert unfinished(tmp_path, spec) == Session(folder, 5000, (PROMPT,))
    assert unfinished(tmp_path, other) is None
    end(folder)
    assert unfinished(tmp_path, spec) is None
    assert folder.is_dir()  # its replies stay, for a longer training


def test_prompts_and_recipe_choose_the_folder_and_tokens_do_not(
    tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path
) -> None:
    spec = tiny_backbone().spec
    usual = data_folder(tmp_path, spec, DistillConfig(), [])
    assert data_folder(tmp_path, spec, DistillConfig(tokens=7), []) == usual
    assert data_folder(tmp_path, spec, DistillConfig(seed=9), []) != usual
    assert data_folder(tmp_path, spec, DistillConfig(), [PROMPT]) != usual


def test_a_damaged_session_is_no_session(tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path) -> None:
    spec = tiny_backbone().spec
    folder = data_folder(tmp_path, spec, DistillConfig(), [])
    begin(Session(folder, 5000))
    (folder / "session.json").write_text("{")
    assert unfinished(tmp_path, spec) is None


def test_pace_counts_from_the_first_report_of_a_stage() -> None:
    times = iter([0.0, 2.0, 10.0, 11.0])
    pace = Pace(lambda: next(times))
    assert [pace.rate("a", 100), pace.rate("a", 120), pace.rate("b", 5), pace.rate("b", 8)] == [0, 10, 0, 3]


def write(work: Path, job: int, tokens: int = 10) -> Path:
    return write_shard(work / "replies", [Reply(job, 0.0, [1], [2] * tokens, torch.zeros(tokens, 4).bfloat16())])


def checkpoint(work: Path, name: str) -> Path:
    (work / name).mkdir(parents=True)
    (work / name / "training.pt").write_bytes(b"x" * 1000)
    return work / name


def test_cancelled_it_takes_what_it_wrote_itself_and_nothing_else(tmp_path: Path) -> None:
    """Hours of another training with the same recipe must not go with it: finished, or from the command line."""
    work = tmp_path / "work"
    theirs = write(work, 0)
    with noting(work):
        begin(Session(work, 5000, (PROMPT,)))
        mine = write(work, 2, tokens=30)
        run = checkpoint(work, "run-mine")
        assert written(work, running=True).tokens == 30
    between = write(work, 4)  # by the command line, while the app's training is paused
    with noting(work):
        begin(Session(work, 5000, (PROMPT,)))
        again = write(work, 6, tokens=5)
    (work / NEW_HEADS).mkdir()
    found = written(work)
    assert (found.tokens, found.others) == (35, True)
    assert found.size == sum(path.stat().st_size for path in (mine, again, run / "training.pt"))
    assert cancel(work) == found
    assert sorted((work / "replies").iterdir()) == [theirs, between]
    assert sorted(path.name for path in work.iterdir()) == ["replies", "training.lock"]


def test_replies_that_another_training_learns_from_stay(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with noting(work):
        begin(Session(work, 5000))
        mine, run = write(work, 0), checkpoint(work, "run-mine")
    theirs = checkpoint(work, "run-theirs")
    assert written(work) == Written(0, 1000, others=True)
    cancel(work)
    assert mine.exists()
    assert theirs.exists()
    assert not run.exists()
    assert not (work / "session.json").exists()


def test_with_nobody_elses_replies_the_folder_goes_and_never_under_another_training(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with noting(work):
        begin(Session(work, 5000))
        mine = write(work, 0)
    with exclusive(work), pytest.raises(TrainingError, match="Another training"):
        cancel(work)
    assert mine.exists()
    cancel(work)
    assert not work.exists()
    assert cancel(work) == Written(0, 0, others=False)
    assert not work.exists()


def test_what_a_killed_training_wrote_may_be_another_ones(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with noting(work):
        begin(Session(work, 5000))
        write(work, 0)
    killed = noting(work)
    killed.__enter__()
    unknown = write(work, 2)
    (work / "made.json").write_bytes(left := (work / "made.json").read_bytes())
    killed.__exit__(None, None, None)
    (work / "made.json").write_bytes(left)  # as a kill leaves it
    cancel(work)
    assert list((work / "replies").iterdir()) == [unknown]


def test_a_finished_training_leaves_its_replies_to_all(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with noting(work):
        begin(Session(work, 5000))
        kept = write(work, 0)
        end(work)
    with noting(work):
        begin(Session(work, 9000))
        write(work, 2)
    cancel(work)
    assert list((work / "replies").iterdir()) == [kept]


def test_heads_that_are_only_to_be_measured_are_not_trained_again(
    tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path
) -> None:
    spec = tiny_backbone().spec
    session = Session(data_folder(tmp_path, spec, DistillConfig(), []), 5000)
    assert begin(session) == session
    (session.work / NEW_HEADS).mkdir()
    done = replace(session, trained=True)
    begin(done)
    assert begin(session) == done
    assert unfinished(tmp_path, spec) == done
    assert not begin(replace(session, tokens=6000)).trained
