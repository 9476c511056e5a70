"""From names to a chat that is ready."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from medusa_core import fit
from medusa_core.chat import Chat
from medusa_core.config import Device, ModelConfig
from medusa_core.errors import ConfigError, DoesNotFit, ModelNotFound, ModelUnsupported
from medusa_core.hub.library import LAST_USED
from medusa_core.opening import open_chat
from medusa_core.tiny import save_tiny_model, tiny_tokenizer


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


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the free memory."""
    monkeypatch.setattr(fit, "_CGROUP", Path("/nowhere"))

    def set_free(size: int) -> None:
        monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=size))

    return set_free


def opened_in(cache: Path, config: ModelConfig) -> Chat:
    opening = open_chat(config, cache)
    while True:
        try:
            next(opening)
        except StopIteration as finished:
            chat: Chat = finished.value
            return chat


def test_heads_and_conversation_count_before_loading(folder: Path, tmp_path: Path, free: Any) -> None:
    sizes = fit.folder_sizes(folder)
    heads = tmp_path / "heads"
    heads.mkdir()
    (heads / "heads.safetensors").write_bytes(bytes(3_000_000))
    need = fit.needed(sizes, "fp32", "cpu", context=256, heads_bytes=3_000_000)
    free(need.total - 1)
    with pytest.raises(DoesNotFit, match=r"Tiny One needs about .*3 MiB for the heads.*for 256 tokens of conversation"):
        opened(folder, str(heads))
    free(need.total)
    assert "config.json" in opened(folder, str(heads)).info.heads_problem


def test_a_shorter_conversation_needs_less(folder: Path, tmp_path: Path, free: Any) -> None:
    free(fit.needed(fit.folder_sizes(folder), "fp32", "cpu", context=16).total)
    config = ModelConfig(model=str(folder), heads="none", dtype="fp32", device="cpu")
    with pytest.raises(DoesNotFit):
        opened_in(tmp_path, config)
    short = ModelConfig(model=str(folder), heads="none", dtype="fp32", device="cpu", context=16)
    assert opened_in(tmp_path, short).info.dtype == "fp32"


def test_auto_takes_a_smaller_precision_where_memory_is_short(
    folder: Path, tmp_path: Path, free: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "medusa_core.backbone.precision.choose_dtype", lambda dtype, place: "fp32" if dtype == "auto" else dtype
    )
    config = ModelConfig(model=str(folder), heads="none", device="cpu")
    sizes = fit.folder_sizes(folder)
    free(fit.needed(sizes, "fp32", "cpu", context=256).total)
    assert opened_in(tmp_path, config).info.dtype == "fp32"
    free(fit.needed(sizes, "fp32", "cpu", context=256).total - 1)
    assert opened_in(tmp_path, config).info.dtype == "bf16"


def test_a_model_without_template_gets_the_catalogues(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "vicuna-7b-v1.5")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    (folder / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(folder)
    chat = opened(folder, "none")
    prompt = chat.text.decode(chat.text.prompt_ids([{"role": "user", "content": "Hi"}]))
    assert prompt.endswith("polite answers to the user's questions. USER: Hi ASSISTANT:")
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    assert not opened(other, "none").text.has_template


def test_loading_a_model_of_the_library_is_remembered(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "Maker" / "Tiny")
    opened_in(tmp_path, ModelConfig(model="Maker/Tiny", heads="none", dtype="fp32", device="cpu"))
    assert (tmp_path / "Maker" / "Tiny" / LAST_USED).is_file()
    assert not (folder / LAST_USED).exists()


class Program:
    """What a pickled file could hold in place of numbers."""

    def __reduce__(self) -> Any:
        return (print, ("running",))


def test_pickled_weights_are_read_without_running_what_is_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_tiny_model(tmp_path / "pickled")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert opened(folder, "none").info.parameters == sum(tensor.numel() for tensor in weights.values())
    torch.save(weights | {"more": Program()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelUnsupported, match=r"hold more than numbers.*as \*\.safetensors"):
        opened(folder, "none")
    assert "running" not in capsys.readouterr().out
