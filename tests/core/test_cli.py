"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from medusa_core import cli
from medusa_core.tiny import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", seed=5)


def generate(folder: Path, *options: str, prompt: str = "Hi") -> int:
    common = ["--model", str(folder), "--dtype", "fp32", "--device", "cpu", "--max-new-tokens", "12"]
    return cli.main(["generate", "--prompt", prompt, *common, *options])


def test_the_log_ends_with_the_reply_and_its_figures(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    assert generate(folder, "--drafter", "none", "--json", str(log)) == 0
    events: list[dict[str, Any]] = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert events[0]["event"] == "prefilled"
    assert {event["event"] for event in events[1:-1]} == {"step"}
    last = events[-1]
    assert last["event"] == "finished"
    assert last["reason"] in ("stop", "length")
    assert last["token_ids"] == [token for event in events[1:-1] for token in event["token_ids"]]
    assert last["tokens"] == len(last["token_ids"]) == last["steps"]
    assert last["tokens_per_step"] == 1.0
    assert last["tokens_per_second"] > 0
    assert last["acceptance_per_head"] == []
    out, err = capsys.readouterr()
    assert out == last["text"] + "\n"
    assert f"{last['tokens']} tokens in {last['steps']} steps" in err


def test_the_prompt_can_come_from_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(folder, "--drafter", "none", prompt="Good day") == 0
    direct = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("Good day"))
    assert generate(folder, "--drafter", "none", prompt="-") == 0
    assert capsys.readouterr().out == direct
    assert generate(folder, "--drafter", "none", prompt="Bad day") == 0
    assert capsys.readouterr().out != direct


def test_a_system_message_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(folder, "--drafter", "none") == 0
    without = capsys.readouterr().out
    assert generate(folder, "--drafter", "none", "--system", "Rhyme.") == 0
    assert capsys.readouterr().out != without


def test_a_seed_gives_its_own_reply_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def reply(*options: str) -> str:
        assert generate(folder, "--drafter", "none", "--accept", "sampling", "--temperature", "1.5", *options) == 0
        return capsys.readouterr().out

    assert reply("--seed", "1") == reply("--seed", "1") != reply("--seed", "2")
    greedy = reply("--top-k", "1")
    assert reply("--top-p", "0") == reply("--min-p", "1") == reply("--temperature", "0") == greedy
    assert reply("--top-k", "1", "--repetition-penalty", "10") != greedy
    assert generate(folder, "--drafter", "none") == 0
    assert capsys.readouterr().out == greedy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--heads", "none", "--model", "/nowhere/at/all"], "/nowhere/at/all is not a model folder"),
        (["--heads", "/nowhere/heads"], "/nowhere/heads"),
        (["--heads", "none", "--max-new-tokens", "0"], "max_new_tokens is 0"),
        (["--heads", "none", "--accept", "typical", "--epsilon", "2"], "epsilon is 2.0"),
        (["--heads", "none", "--accept", "sampling", "--top-p", "1.5"], "top_p is 1.5"),
        (["--heads", "none", "--accept", "typical", "--temperature", "0"], "temperature is 0.0"),
        (["--heads", "none", "--nodes", "300"], "nodes is 300"),
        (["--heads", "none", "--json", "/nowhere/log.jsonl"], "/nowhere/log.jsonl"),
    ],
)
def test_an_error_is_one_line_and_status_1(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert generate(folder, *options) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_broken_heads_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{")
    assert generate(folder, "--heads", str(tmp_path)) == 1
    err = capsys.readouterr().err
    assert "config.json" in err
    assert "--heads none goes on without heads" in err


@pytest.mark.parametrize(
    "arguments",
    [[], ["nothing"], ["generate"], ["generate", "--prompt", "x", "--dtype", "int3"], ["generate", "--prompt"]],
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_an_interrupt_is_status_130(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "open_chat", interrupted)
    assert generate(folder, "--heads", "none") == 130
    assert capsys.readouterr().err == "interrupted\n"
