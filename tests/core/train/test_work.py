"""Where a training is kept, and how it is found again after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import DistillConfig
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt
from medusa_core.train.pace import Pace
from medusa_core.train.work import Session, begin, data_folder, discard, end, unfinished

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
    assert discard(folder) > 0
    assert not folder.exists()


def test_pace_counts_from_the_first_report_of_a_stage() -> None:
    times = iter([0.0, 2.0, 10.0, 11.0])
    pace = Pace(lambda: next(times))
    assert [pace.rate("a", 100), pace.rate("a", 120), pace.rate("b", 5), pace.rate("b", 8)] == [0, 10, 0, 3]
