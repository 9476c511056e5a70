"""Every family from nothing to heads in the formats of others, from the command line: replies stay the model's own.

Tiny models: llama, with a tied output head as SmolLM2 has it, mistral, qwen2, qwen3, smollm3, and gpt2, which runs
through transformers' own pass. And models that cannot verify guesses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core import cli, hub
from medusa_core.backbone import cost
from medusa_core.tiny import END_ID, save_tiny_model, tiny_tokenizer

COMMON = ("--dtype", "fp32", "--device", "cpu")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medusa_core.hub.default_cache", lambda profile=None: tmp_path / "cache" / "models")
    for name, value in (("_ROUNDS", 1), ("_LEAST_ROUNDS", 1), ("_BRIEF_SECONDS", 0.0)):
        monkeypatch.setattr(cost, name, value)  # how fast these models are is of no interest


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def save_other(folder: Path, family: str, **options: Any) -> Path:
    """A tiny model of a family that the lean pass does not know."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        family, vocab_size=264, bos_token_id=None, eos_token_id=END_ID, pad_token_id=END_ID, **options
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 0.3)
    model.generation_config.eos_token_id = END_ID
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def made(folder: Path, family: str) -> Path:
    if family == "gpt2":
        return save_other(folder, family, n_embd=64, n_layer=2, n_head=4, n_positions=256)
    return save_tiny_model(folder, family.removesuffix("-tied"), tied=family.endswith("-tied"))


def reply(model: Path, heads: object, log: Path, drafter: str = "medusa") -> tuple[list[int], int]:
    """The tokens of a greedy reply and the steps it took, with trees whose size does not depend on the machine."""
    assert run("generate", "--model", model, *COMMON, "--heads", heads, "--drafter", drafter, "--prompt", "Hi",
               "--nodes", 6, "--max-new-tokens", 10, "--json", log) == 0  # fmt: skip
    finished = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    return finished["token_ids"], finished["steps"]


@pytest.mark.parametrize("family", ["llama", "llama-tied", "mistral", "qwen2", "qwen3", "smollm3", "gpt2"])
def test_train_calibrate_generate_convert_generate(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = made(tmp_path / f"tiny-{family}", family)
    log, heads, calibrated = tmp_path / "log", tmp_path / "heads", tmp_path / "calibrated"
    train = ("train", "--model", model, *COMMON, "--kind", "medusa", "--heads", 2, "--layers", 1, "--tokens", 300,
             "--epochs", 1, "--self-written", 0, "--multi-turn", 0, "--batch", 256, "--out", heads)  # fmt: skip
    assert run(*train) == 0
    assert run("calibrate", "--model", model, *COMMON, "--heads", heads, "--tokens", 100, "--nodes", 6,
               "--out", calibrated) == 0  # fmt: skip
    plain, steps = reply(model, "none", log, "none")
    assert steps == len(plain)
    assert reply(model, calibrated, log)[0] == plain
    capsys.readouterr()
    for to in ("tgi", "vllm"):
        folder = tmp_path / to
        assert run("convert", calibrated, folder, "--to", to, "--model", model, "--drop", "pairs") == 0
        exported = reply(model, folder, log)
        assert exported[0] == plain
        assert "were read from the format of" in capsys.readouterr().err
    assert run("convert", tmp_path / "vllm", tmp_path / "back", "--to", "ours", "--model", model) == 0
    assert reply(model, tmp_path / "back", log) == exported, "the same heads, the same tree"


@pytest.mark.parametrize(("out", "by_file"), [(True, False), (False, True)])
def test_published_heads_are_calibrated(
    out: bool, by_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside them, or as a copy of our own; named by their folder or their file."""
    from safetensors.torch import save_file

    model, folder, log = made(tmp_path / "tiny", "llama"), tmp_path / "published", tmp_path / "log"
    folder.mkdir()
    blocks = {f"{k}.0.linear.weight": torch.zeros(64, 64) for k in range(2)}
    save_file(blocks | {f"{k}.0.linear.bias": torch.zeros(64) for k in range(2)}, folder / "medusa_lm_head.safetensors")
    heads = folder / "medusa_lm_head.safetensors" if by_file else folder
    plain = reply(model, "none", log, "none")[0]
    assert reply(model, heads, log)[0] == plain
    assert "a usual tree is used until they are calibrated" in capsys.readouterr().err
    place = tmp_path / "copy" if out else folder
    options = ("--out", place) if out else ()
    assert run("calibrate", "--model", model, *COMMON, "--heads", heads, "--tokens", 100, *options) == 0
    assert {"tree.json", "statistics.json"} <= {path.name for path in place.iterdir()}
    assert (place / "heads.safetensors").exists() is out
    assert (folder / "tree.json").exists() is not out
    capsys.readouterr()
    assert reply(model, place if out else heads, log)[0] == plain
    assert "calibrate" not in capsys.readouterr().err
    assert run("generate", "--model", model, "--dtype", "bf16", "--device", "cpu", "--heads", place, "--prompt", "Hi",
               "--max-new-tokens", 2) == 0  # fmt: skip
    assert "were measured in fp32 and the model runs in bf16: they work" in capsys.readouterr().err


@pytest.mark.parametrize("heads", ["default", "none"])
def test_models_that_cannot_forget_answer_without_drafting_and_say_why(
    heads: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_other(tmp_path / "tiny-mamba", "mamba", hidden_size=64, num_hidden_layers=2, state_size=8)
    tokens, steps = reply(model, heads, tmp_path / "log", "auto")
    assert steps == len(tokens)
    said = capsys.readouterr().err
    assert "tiny-mamba answers without drafting, a token a step: its layers of kind linear_attention" in said
    assert run("train", "--model", model, *COMMON, "--tokens", 100, "--out", tmp_path / "heads") == 1
    assert "Heads for tiny-mamba would be of no use" in capsys.readouterr().err
    assert not (tmp_path / "heads").exists()


def test_convert_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert run("convert", "default", tmp_path / "vllm", "--to", "vllm") == 1
    assert "heads of kind rooted" in capsys.readouterr().err
    assert run("convert", "none", tmp_path / "vllm", "--to", "vllm") == 1
    assert "SRC is none" in capsys.readouterr().err
    assert run("convert", "paper", tmp_path / "vllm", "--to", "vllm", "--drop", "pairs", "--json", report) == 0
    shown = capsys.readouterr().out
    assert "Medusa Chat: 4 heads" in shown
    assert "-> vLLM: 4 heads" in shown
    assert "left out: pairs" in shown
    data = json.loads(report.read_text(encoding="utf-8"))
    assert (data["to"], data["dropped"], data["base"]) == ("vllm", ["pairs"], hub.DEFAULT_MODEL_NAME)
    assert run("convert", "paper", tmp_path / "again", "--to", "vllm", "--drop", "pairs", "--json") == 0
    assert json.loads(capsys.readouterr().out) == data | {"folder": str(tmp_path / "again")}
    assert run("convert", "paper", tmp_path / "again", "--to", "vllm", "--drop", "pairs") == 1
    assert "is there already and is not overwritten" in capsys.readouterr().err


def test_a_whole_model_is_model_and_heads_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Medusa-2 as it is published: the heads' weights and numbers lie among the model's."""
    from safetensors.torch import load_file, save_file

    plain = made(tmp_path / "plain", "llama")
    folder, log = made(tmp_path / "whole", "llama"), tmp_path / "log"
    tensors = load_file(folder / "model.safetensors")
    for head in range(2):
        tensors[f"medusa_head.{head}.0.linear.weight"] = torch.zeros(64, 64)
        tensors[f"medusa_head.{head}.0.linear.bias"] = torch.zeros(64)
        tensors[f"medusa_head.{head}.1.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"medusa_num_heads": 5}), encoding="utf-8")
    expected, _ = reply(plain, "none", log, "none")
    assert reply(folder, folder, log)[0] == expected
    assert "the format of Medusa-2 full model" in capsys.readouterr().err
    assert run("convert", folder, tmp_path / "ours", "--to", "ours", "--model", folder) == 0
    assert reply(folder, tmp_path / "ours", log)[0] == expected
    assert (tmp_path / "ours" / "heads.safetensors").stat().st_size < 200_000, "the heads, not the model"
