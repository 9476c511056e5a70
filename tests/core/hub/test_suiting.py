"""Which heads go with a model where nobody names any; and that the commands the program prints can be run."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medusa_core import cli
from medusa_core.backbone import cost
from medusa_core.hub.suiting import has_own_heads, heads_base, is_ours, suiting_heads
from medusa_core.tiny import save_tiny_model

COMMON = ("--dtype", "fp32", "--device", "cpu")


def heads(folder: Path, age: int = 0, **config: Any) -> Path:
    """A folder of heads that is so many seconds old."""
    folder.mkdir(parents=True)
    path = folder / "config.json"
    path.write_text(json.dumps({"medusa_num_heads": 2} | config), encoding="utf-8")
    os.utime(path, (1e9 - age, 1e9 - age))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "Tiny")


def test_the_default_model_has_those_that_are_shipped(model: Path, cache: Path) -> None:
    heads(cache.parent / "heads" / "x", base_model={"name": "SmolLM2-135M-Instruct"})
    assert suiting_heads(model, "SmolLM2-135M-Instruct", cache) == "default"


def test_those_trained_here_come_first_then_those_that_were_got(model: Path, cache: Path) -> None:
    assert suiting_heads(model, "Tiny", cache) == "none"
    heads(cache / "Maker" / "other", base_model_name_or_path="Someone/Other")
    assert suiting_heads(model, "Tiny", cache) == "none"
    heads(cache / "Maker" / "tiny-heads", base_model_name_or_path="Someone/Tiny")
    assert suiting_heads(model, "Tiny", cache) == "Maker/tiny-heads"
    paper = heads(
        cache.parent / "heads" / "Tiny-paper", kind="medusa", format="medusa-heads", base_model={"name": "Tiny"}
    )
    assert suiting_heads(model, "Tiny", cache) == str(paper)
    older = heads(cache.parent / "heads" / "b", 9, kind="rooted", format="medusa-heads", base_model={"name": "Tiny"})
    assert suiting_heads(model, "Tiny", cache) == str(older), "those that see the root guess better"
    newer = heads(cache.parent / "heads" / "a", 5, kind="rooted", format="medusa-heads", base_model={"name": "Tiny"})
    assert suiting_heads(model, "Tiny", cache) == str(newer)


def test_a_model_published_with_its_heads_brings_them(model: Path, cache: Path) -> None:
    assert not has_own_heads(model)
    weights = load_file(model / "model.safetensors")
    save_file(weights | {"medusa_head.0.0.linear.weight": torch.zeros(64, 64)}, model / "model.safetensors")
    assert has_own_heads(model)
    assert suiting_heads(model, "Tiny", cache) == str(model)


def test_whose_they_are_is_read_from_their_files_or_the_catalogue(tmp_path: Path) -> None:
    assert heads_base(heads(tmp_path / "a", base_model={"name": "Maker/A"})) == "A"
    assert heads_base(heads(tmp_path / "b"), "FasterDecoding/medusa-vicuna-7b-v1.3") == "vicuna-7b-v1.3"
    assert heads_base(heads(tmp_path / "c")) == ""
    (tmp_path / "c" / "config.json").write_text("[1")
    assert (heads_base(tmp_path / "c"), is_ours(tmp_path / "c"), has_own_heads(tmp_path / "c")) == ("", False, False)


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medusa_core.hub.default_cache", lambda profile=None: tmp_path / "models")
    for name, value in (("_ROUNDS", 1), ("_LEAST_ROUNDS", 1), ("_BRIEF_SECONDS", 0.0)):
        monkeypatch.setattr(cost, name, value)


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def printed(output: str) -> list[str]:
    """The arguments of the command that was printed last, to be run with a short reply."""
    command = output.strip().splitlines()[-1].partition("python -m medusa_core ")[2]
    return shlex.split(command.replace("--prompt ...", "--prompt Hi --max-new-tokens 3"))


@pytest.mark.usefixtures("quick")
def test_the_commands_that_are_printed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = save_tiny_model(tmp_path / "made" / "My tiny", seed=3)
    assert run("models", "import", source, "--name", "Tiny") == 0
    capsys.readouterr()
    assert run("generate", "--model", "Tiny", *COMMON, "--prompt", "Hi", "--max-new-tokens", 3) == 0
    lacking = capsys.readouterr().err
    assert "There are no heads for Tiny on this machine yet." in lacking
    assert printed(lacking)[:3] == ["train", "--model", "Tiny"]
    assert run("generate", "--model", "Tiny", *COMMON, "--drafter", "medusa", "--prompt", "Hi") == 1
    assert "There are no heads for Tiny" in capsys.readouterr().err
    few = ("--heads", 2, "--layers", 1, "--tokens", 300, "--epochs", 1, "--self-written", 0, "--multi-turn", 0)
    out = tmp_path / "heads" / "with a space"
    assert run(*printed(lacking), *COMMON, *few, "--batch", 256, "--out", out) == 0
    command = printed(capsys.readouterr().out)
    assert run(*command, *COMMON) == 0
    assert "no heads" not in capsys.readouterr().err
    assert run("generate", "--model", "Tiny", *COMMON, "--prompt", "Hi", "--max-new-tokens", 3) == 0
    assert "no heads" not in capsys.readouterr().err, "those trained here are found"
