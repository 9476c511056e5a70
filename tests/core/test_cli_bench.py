"""`bench` from the command line: its table, its file, and what it does when something is missing or ends early."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from medusa_core import cli, hub
from medusa_core.backbone import cost
from medusa_core.backbone.load import load_backbone
from medusa_core.bench.own import EngineSystem
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, save_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.tiny import save_tiny_model
from medusa_core.tree import RankedTree, Tree


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", seed=5)


@pytest.fixture(scope="module")
def heads(model: Path) -> Path:
    work = load_backbone(model, "fp32", "cpu")
    while True:
        try:
            next(work)
        except StopIteration as stop:
            backbone = stop.value[0]
            break
    spec = backbone.spec
    sizes = {"hidden_size": spec.hidden_size, "vocab_size": spec.vocab_size, "draft_vocab_size": spec.vocab_size}
    shape = HeadsShape(num_heads=2, num_layers=1, shared_output=True, **sizes)
    base = BaseModel(name=spec.name, family=spec.family, fingerprint=spec.fingerprint)
    tree = RankedTree(Tree((0, 0, 0, 1)), (0, 0, 1, 0))
    save_heads(model.parent / "heads", HeadsCheckpoint(MedusaHeads(shape, backbone.output_weight), tree, base))
    return model.parent / "heads"


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hub, "default_cache", lambda profile=None: tmp_path / "cache" / "models")
    monkeypatch.setattr(cost, "_ROUNDS", 1)
    path = tmp_path / "prompts.jsonl"
    lines: list[dict[str, Any]] = [
        {"question_id": 81, "category": "writing", "turns": ["Hi", "More"]},
        {"id": "b", "prompt": "Ho"},
        {"prompt": "abc abc abc"},
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def bench(model: Path, prompts: Path, *more: object) -> int:
    common = ("--model", model, "--dtype", "fp32", "--device", "cpu", "--prompts", prompts, "--warm-up", 2)
    return cli.main([str(word) for word in ("bench", *common, "--max-new-tokens", 10, *more)])


def test_systems_beside_each_other(
    model: Path, heads: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    names = "ours,plain,medusa,transformers,transformers-lookup"
    assert bench(model, prompts, "--systems", names, "--heads", heads, "--runs", 2, "--json", path) == 0
    shown = capsys.readouterr().out
    for text in ("tokens/s (10-90%)", "times plain", "ours is ", "times as fast as transformers-lookup", str(path)):
        assert text in shown
    report = json.loads(path.read_text(encoding="utf-8"))
    assert list(report["systems"]) == names.split(",")
    assert report["complete"]
    for system in report["systems"].values():
        assert len(system["replies"]) == 6
        assert system["identical_to_plain"] == system["compared_with_plain"] == 6
        for name in ("tokens_per_second", "tokens_per_step", "time_to_first_token"):
            found = system[name]
            assert found["p10"] <= found["p25"] <= found["median"] <= found["p75"] <= found["p90"]
        first = system["replies"][0]
        assert (first["prompt"], first["category"], first["run"]) == ("81", "writing", 0)
        assert {"tokens", "steps", "seconds", "time_to_first_token", "looping", "identical_to_plain"} <= set(first)
    assert report["systems"]["plain"]["tokens_per_step"]["median"] == 1.0
    assert report["ratios"]["ours"]["transformers"]["all"]["count"] == 6
    assert report["machine"]["dtype"] == "fp32"
    assert {"cpu", "cores", "threads", "ram_bytes", "os", "python", "versions"} <= set(report["machine"])
    assert report["config"]["decoding"]["seed"] == 0
    assert report["config"]["prompts_count"] == 3


def test_llama_cpp_may_be_absent(
    model: Path,
    prompts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    path = tmp_path / "out.json"
    assert bench(model, prompts, "--systems", "plain,llama.cpp", "--limit", 1, "--json", path) == 0
    assert "note: llama.cpp is left out: the package" in capsys.readouterr().err
    report = json.loads(path.read_text(encoding="utf-8"))
    assert list(report["systems"]) == ["plain"]
    assert "llama-cpp-python" in report["notes"][0]
    assert bench(model, prompts, "--systems", "llama.cpp") == 1
    assert "Nothing is left to measure" in capsys.readouterr().err


def test_an_interruption_keeps_what_was_measured(
    model: Path,
    prompts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answered, answer = 0, EngineSystem.answer

    def interrupted(self: EngineSystem, prompt: Any, max_new_tokens: int) -> Any:
        nonlocal answered
        answered += 1
        if answered == 5:  # two to warm up, then the first prompt's two
            raise KeyboardInterrupt
        return answer(self, prompt, max_new_tokens)

    monkeypatch.setattr(EngineSystem, "answer", interrupted)
    path = tmp_path / "out.json"
    assert bench(model, prompts, "--heads", "none", "--json", path) == 130
    out, err = capsys.readouterr()
    assert "INCOMPLETE" in out
    assert "interrupted" in err
    report = json.loads(path.read_text(encoding="utf-8"))
    assert not report["complete"]
    assert [len(system["replies"]) for system in report["systems"].values()] == [1, 1]
    # Before anything was measured there are no figures, but a file that says so.
    answered = 4
    assert bench(model, prompts, "--heads", "none", "--json", path) == 130
    assert json.loads(path.read_text(encoding="utf-8"))["systems"]["plain"]["tokens_per_second"] is None


def test_ablations_and_their_plots(
    model: Path, heads: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ablation.json"
    assert bench(model, prompts, "--ablate", "--heads", heads, "--limit", 1, "--json", path) == 0
    shown = capsys.readouterr().out
    for text in ("tree:", "sparse", "dense", "heads:", "epsilon:", "mean log p", "drafter:", "recycling", "batch:"):
        assert text in shown
    report = json.loads(path.read_text(encoding="utf-8"))
    assert set(report["ablations"]) == {"tree", "heads", "epsilon", "drafter", "batch"}
    assert report["ablations"]["batch"]["gains"]
    plots = {plot.name for plot in tmp_path.glob("*.svg")}
    assert "ablation-tree-tokens_per_second.svg" in plots
    assert "ablation-epsilon-drift.svg" in plots
    assert "ablation-batch-gain.svg" in plots
    assert bench(model, prompts, "--ablate", "--heads", "none") == 1
    assert "Ablations need heads" in capsys.readouterr().err


def test_typical_acceptance_can_be_measured(model: Path, heads: Path, prompts: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    options = ("--accept", "typical", "--epsilon", 0.2, "--drafter", "medusa", "--heads", heads, "--limit", 1)
    assert bench(model, prompts, *options, "--json", path) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["config"]["acceptance"] == "TypicalAcceptance"
    assert report["config"]["decoding"]["acceptance"]["epsilon"] == 0.2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--systems", "ours,theirs"), "there is no system 'theirs'; systems are ours, plain"),
        (("--systems", ","), "systems are none"),
        (("--systems", "plain,plain"), "each of them once"),
        (("--runs", "0"), "runs is 0"),
        (("--max-new-tokens", "250", "--heads", "none"), "exceeds the model's context"),
        (("--prompts", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("--json", "nowhere/out.json"), "cannot be written: no such folder"),
        (("--heads", "nowhere"), "There are no heads"),
    ],
)
def test_what_is_wrong_is_said(
    model: Path, prompts: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(model, prompts, *options) == 1
    assert said in capsys.readouterr().err


def test_the_projects_own_prompts_are_the_default(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub, "default_cache", lambda profile=None: tmp_path / "cache" / "models")
    common = ("--model", str(model), "--dtype", "fp32", "--device", "cpu", "--heads", "none", "--warm-up", "2")
    assert cli.main(["bench", *common, "--limit", "1", "--max-new-tokens", "5", "--systems", "plain"]) == 0
    assert "prompts: 1, runs: 1" in capsys.readouterr().out
