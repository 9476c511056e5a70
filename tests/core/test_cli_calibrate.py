"""`calibrate` and `expect` from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from medusa_core import cli, hub
from medusa_core.backbone import cost
from medusa_core.backbone.load import load_backbone
from medusa_core.head_statistics import HeadStatistics
from medusa_core.heads.checkpoint import load_heads
from medusa_core.tiny import save_tiny_model, save_untrained_heads
from medusa_core.tree import ROOT_ONLY, RankedTree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hub, "default_cache", lambda profile=None: tmp_path / "cache" / "models")
    monkeypatch.setattr(cost, "_ROUNDS", 1)
    return save_tiny_model(tmp_path / "tiny-llama")


@pytest.fixture
def heads(model: Path, tmp_path: Path) -> Path:
    return save_untrained_heads(tmp_path / "heads", loaded(model), RankedTree(ROOT_ONLY, (0,)))


def loaded(model: Path):  # type: ignore[no-untyped-def]
    work = load_backbone(model, "fp32", "cpu")
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value[0]


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_from_heads_to_a_calibrated_copy(
    model: Path, heads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("calibrate", "--model", model, "--dtype", "fp32", "--device", "cpu", "--heads", heads, "--tokens", 3000)
    out = tmp_path / "calibrated"
    assert run(*common, "--nodes", 16, "--out", out, "--json", tmp_path / "report.json") == 0
    shown = capsys.readouterr().out
    for text in ("top-1", "top-10", "dense tree", "by ranks", "One pass of the model", "tokens/s", "Fastest:"):
        assert text in shown
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["steps"] >= 3000
    assert 0 < report["greedy_steps"] < report["steps"], "both kinds of replies"
    assert [row["draft_nodes"] for row in report["trees"]] == [4, 8, 16]
    assert all(row["counted"] >= row["dense"] for row in report["trees"])
    assert len(report["speeds"]) == 17
    checkpoint = load_heads(out, loaded(model))
    assert len(checkpoint.tree.tree) == 17
    assert checkpoint.statistics is not None
    assert checkpoint.statistics.together.steps == report["steps"]
    assert checkpoint.statistics.precision == "fp32"
    assert load_heads(heads, loaded(model)).statistics is None, "the heads themselves stay as they are"
    # The replies are there already; in place now, on half of them.
    assert run(*common[:-1], 1500) == 0
    assert load_heads(heads, loaded(model)).statistics is not None
    assert 1500 <= HeadStatistics.load(heads / "statistics.json").together.steps < 3000
    (cached,) = (tmp_path / "cache" / "calibration").iterdir()
    assert cached.name.startswith("tiny-llama-")
    tables = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "cache" / "costs").iterdir()]
    careful = [table for table in tables if "measured" not in table["key"]]  # loading a chat measures briefly
    assert len(careful) == 1, "one machine, measured once"
    assert run(*common, "--data", cached, "--out", tmp_path / "again") == 0


def test_what_cannot_be_calibrated_is_said(
    model: Path, heads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("calibrate", "--model", model, "--dtype", "fp32", "--device", "cpu")
    assert run("calibrate", "--heads", "default") == 1
    assert "come with the program and stay as they are. Name a folder" in capsys.readouterr().err
    assert run(*common, "--heads", "default") == 1
    assert f"none suit {model}; name the folder" in capsys.readouterr().err
    assert run(*common, "--heads", "none") == 1
    assert "names no heads" in capsys.readouterr().err
    assert run(*common, "--heads", heads, "--data", tmp_path / "nowhere") == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert run(*common, "--heads", heads, "--data", heads) == 1
    assert "There are no held-out replies" in capsys.readouterr().err
    assert run(*common, "--heads", heads, "--nodes", 0) == 1
    assert "nodes is 0" in capsys.readouterr().err
    (heads / "statistics.json").write_text("{", encoding="utf-8")
    assert run(*common, "--heads", heads) == 1
    assert "statistics.json: it is not JSON" in capsys.readouterr().err
    assert torch.get_num_threads() >= 1


def test_expect_the_four_head_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("expect", "--accuracies", "0.8,0.65,0.5,0.35", "--candidates", "1,3", "--overhead", 1.2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Tokens per pass: 2.671 (5 with perfect heads)"
    assert lines[1].endswith("2.23")  # 2.671 / 1.2
    assert [line.split()[1:] for line in lines if line.strip().startswith("3 ")] == [["50.0%", "87.5%"]]
    # Effective accuracies of three guesses: 0.992, 0.957125, 0.875, 0.725375.
    assert lines[-2].split()[-2:] == ["2.671", "4.375"]
    assert run("expect", "--accuracies", "1,1,1") == 0
    assert "Tokens per pass: 4.000 (4 with perfect heads)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--accuracies", "0.8,x"), "--accuracies is '0.8,x'"),
        (("--accuracies", ""), "--accuracies is ''"),
        (("--accuracies", "0.8,1.5"), "accuracy is 1.5; it must lie between 0"),
        (("--accuracies", "nan"), "accuracy is nan"),
        (("--accuracies", "0.8", "--candidates", "1.5"), "--candidates is '1.5'"),
        (("--accuracies", "0.8", "--candidates", "0"), "candidates is 0"),
        (("--accuracies", "0.8", "--overhead", "0"), "overhead is 0"),
    ],
)
def test_expect_says_what_is_wrong(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("expect", *arguments) == 1
    assert said in capsys.readouterr().err


def test_expect_starts_without_torch() -> None:
    code = (
        "import sys\nfrom medusa_core.cli import main\nmain(['expect', '--accuracies', '0.5'])\n"
        "assert not {'torch', 'transformers', 'numpy', 'numba'} & set(sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
