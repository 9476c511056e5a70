"""`train` from the command line, from a model folder to heads that `generate` uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medusa_core import cli, cli_options, cli_train, hub
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.events import Progress
from medusa_core.tiny import save_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny-llama")


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_train_then_generate(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub, "default_cache", lambda profile=None: tmp_path / "cache" / "models")
    common = ("--model", model, "--dtype", "fp32", "--device", "cpu")
    heads = tmp_path / "heads"
    train = ("train", *common, "--tokens", 5000, "--epochs", 2, "--out", heads)
    assert run(*train) == 0
    out = capsys.readouterr().out
    assert "5,000 of 5,000 tokens" in out
    assert "loss" in out
    assert "top-1/top-5" in out
    assert "Expected tokens per step" in out
    assert "Draft vocabulary: 264 tokens, 100.0%" in out
    assert f"--heads {heads}" in out
    (data,) = (tmp_path / "cache" / "training").iterdir()
    assert data.name.startswith("tiny-llama-")
    shards = sorted((data / "replies").glob("*.safetensors"))
    assert run("generate", *common, "--heads", heads, "--drafter", "medusa", "--prompt", "Hi", "--max-new-tokens", 9,
               "--json", tmp_path / "log") == 0  # fmt: skip
    finished = json.loads((tmp_path / "log").read_text(encoding="utf-8").splitlines()[-1])
    assert finished["tokens"] == 9
    assert run(*train, "--hard-labels", "--output", "own") == 0, "heads are replaced, replies are not written anew"
    assert sorted((data / "replies").glob("*.safetensors")) == shards
    config = json.loads((heads / "config.json").read_text(encoding="utf-8"))
    assert config["shared_output"] is False
    assert config["training"]["training"]["soft_labels"] is False
    assert (config["shared_output"], config["one_output"]) == (False, False)
    for kind, outputs in (("rooted", (False, True)), ("medusa", (True, False))):
        assert run(*train, "--kind", kind) == 0
        config = json.loads((heads / "config.json").read_text(encoding="utf-8"))
        assert (config["shared_output"], config["one_output"]) == outputs
    assert run("generate", *common, "--heads", heads, "--prompt", "Hi", "--max-new-tokens", 9) == 0


def test_help_names_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        run("train", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    for option, config, name in cli_train._OPTIONS:
        assert option in shown
        comment = cli_options.field_help(config, name)
        assert comment, f"{name} has no comment to be its help"
        assert comment.replace("%%", "%").split()[0] in shown
    for default in ("400000", "0.25", "0,0.7", "(default: 64)", "8192", "0.003"):
        assert default in shown


def test_options_reach_the_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    options = cli._parser().parse_args(
        "train --out o --tokens 7 --heads 3 --layers 2 --draft-vocab 0 --epochs 9 --batch 11 --learning-rate 0.5 "
        "--accumulate 2 --self-written 1 --from-file 0.1 --multi-turn 0.2 --temperatures 0.1,0.2 --places 4 "
        "--seed 6".split()
    )
    data = DistillConfig(**cli_train._values(options, DistillConfig))
    assert (data.from_file, data.multi_turn) == (0.1, 0.2)
    assert (data.tokens, data.self_written, data.temperatures, data.places) == (7, 1.0, (0.1, 0.2), 4)
    config = TrainConfig(**cli_train._values(options, TrainConfig))
    assert (config.num_heads, config.num_layers, config.draft_vocab_size, config.epochs) == (3, 2, 0, 9)
    assert (config.batch_positions, config.learning_rate, config.seed) == (11, 0.5, 6)


def test_a_folder_of_something_else_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keep.txt").write_text("mine", encoding="utf-8")
    assert run("train", "--model", model, "--out", tmp_path) == 1
    assert "holds no heads, so it is not overwritten" in capsys.readouterr().err
    assert run("train", "--model", model, "--out", tmp_path / "keep.txt" / "heads") == 1
    assert "cannot be written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["keep.txt"]


def test_values_out_of_range_are_said_in_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "--model", model, "--out", tmp_path / "h", "--heads", 99) == 1
    assert "num_heads is 99" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run("train", "--out", tmp_path / "h", "--temperatures", "warm")


def test_an_interruption_says_how_to_go_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_train, "_progress_line", interrupt)
    arguments = ("train", "--model", model, "--out", tmp_path / "h", "--data", tmp_path / "d", "--dtype", "fp32")
    assert run(*arguments) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not (tmp_path / "h").exists()


def test_time_left() -> None:
    assert cli_train._time_left(90, 1) == " · 1:30 left"
    assert cli_train._time_left(7260, 1) == " · 2:01:00 left"
    assert cli_train._time_left(10, 0) == cli_train._time_left(0, 5) == ""
    event = Progress("Writing", 400.0, 1000.0, "tokens")
    assert cli_train._progress_line(event, 50.0) == "Writing: 400 of 1,000 tokens · 50 tokens/s · 0:12 left"


def test_medusa2_then_generate(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--model", model, "--dtype", "fp32", "--device", "cpu")
    heads = tmp_path / "heads"
    assert run("train", *common, "--method", "medusa2", "--out", heads, "--data", tmp_path / "data", "--tokens", 1500,
               "--multi-turn", 0, "--self-written", 0, "--epochs", 1, "--joint-epochs", 1, "--joint-batch", 32,
               "--heads", 2, "--lora-rank", 2, "--lora-targets", "q_proj,v_proj", "--ramp", "linear") == 0  # fmt: skip
    assert "The model changed: " in capsys.readouterr().out
    config = json.loads((heads / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["joint"]["targets"] == ["q_proj", "v_proj"]
    assert run("generate", *common, "--heads", heads, "--prompt", "Hi", "--max-new-tokens", 5) == 0
    assert "as the heads' adapters change it" in capsys.readouterr().err
    assert run("train", *common, "--method", "medusa2", "--out", heads, "--lora-rank", 0) == 1
    assert "rank is 0" in capsys.readouterr().err
