"""From names to a chat that is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.chat import Chat
from medusa_core.config import Device, ModelConfig
from medusa_core.errors import ConfigError, ModelNotFound
from medusa_core.opening import open_chat
from medusa_core.tiny import save_tiny_model


def opened(model: Path, heads: str, device: Device = "cpu") -> Chat:
    opening = open_chat(ModelConfig(model=str(model), heads=heads, dtype="fp32", device=device), model / "cache")
    while True:
        try:
            next(opening)
        except StopIteration as finished:
            chat: Chat = finished.value
            return chat


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "Tiny One")


def test_a_folder_without_heads(folder: Path) -> None:
    info = opened(folder, "none").info
    assert (info.name, info.dtype, info.device, info.context_size) == ("Tiny One", "fp32", "cpu", 256)
    assert (info.num_heads, info.heads_name, info.heads_problem) == (0, "none", "")


def test_heads_that_are_not_there_are_a_problem_said_not_an_error(folder: Path, tmp_path: Path) -> None:
    info = opened(folder, str(tmp_path / "nothing")).info
    assert (info.num_heads, info.heads_name) == (0, "none")
    assert str(tmp_path / "nothing") in info.heads_problem


def test_heads_of_an_empty_folder_are_a_problem_said(folder: Path, tmp_path: Path) -> None:
    assert "config.json is missing" in opened(folder, str(tmp_path)).info.heads_problem


def test_a_model_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="there is no such folder"):
        opened(tmp_path / "nothing", "none")


def test_a_gpu_that_is_not_there_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="No CUDA GPU"):
        opened(folder, "none", "cuda")
