"""`models` on the command line: what it prints, as text and as JSON, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from medusa_core import cli, cli_models, fit, hub
from medusa_core.hub.manifest import read_manifest


class Line:
    """Runs `models` commands on one library."""

    def __init__(self, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cache, self._capsys = cache, capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        assert cli.main(["models", *words, "--cache", str(self.cache)]) == status
        out, err = self._capsys.readouterr()
        return out if status == 0 else out + err

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status))


@pytest.fixture
def line(fake_hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.url)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("medusa_core.hub.client.saved_token", lambda: "")
    return Line(tmp_path / "models", capsys)


def test_from_the_hub_to_a_reply_and_away(line: Line, tiny_repo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no models" in line("list")
    assert "generate --model Maker/Tiny --prompt" in line("get", "Maker/Tiny")
    listed = line("list")
    assert "Maker/Tiny" in listed
    assert "apache-2.0" in listed
    assert "never" in listed
    options = ["--heads", "none", "--drafter", "none", "--dtype", "fp32", "--device", "cpu", "--max-new-tokens", "3"]
    common = ["generate", "--prompt", "Hi", "--model", "Maker/Tiny", "--cache", str(line.cache)]
    assert cli.main([*common, *options]) == 0
    capsys.readouterr()
    assert "never" not in line("list")
    assert "Maker/Tiny: whole (7 files as they arrived" in line("check")
    assert "Removed Maker/Tiny: 0." in line("remove", "Maker/Tiny")
    assert cli.main([*common, *options]) == 1
    assert "models get Maker/Tiny" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Maker/Tiny@refs/pr/1", "{url}/Maker/Tiny/tree/refs%2Fpr%2F1"])
def test_a_revision_may_stand_in_the_name_or_in_a_pages_address(
    line: Line, fake_hub: Any, tiny_repo: Any, name: str
) -> None:
    fake_hub.faults["model.safetensors"] = [("status", 404, {"X-Error-Code": "EntryNotFound"})]
    line("get", name.format(url=fake_hub.url), status=1)
    assert fake_hub.requests[0][1] == "api/models/Maker/Tiny/revision/refs/pr/1"
    assert "models get Maker/Tiny@refs/pr/1\n" in line("list")
    got = line.json("get", name.format(url=fake_hub.url))
    manifest = read_manifest(Path(got["folder"]))
    assert manifest is not None
    assert (got["name"], manifest.revision) == ("Maker/Tiny", "refs/pr/1")
    line("get", "Maker/Tiny@v9", "--revision", "main")
    assert "has no revision 'v9'" in line("get", "Maker/Tiny@v9", status=1)


def test_a_pages_address_names_the_file(line: Line, fake_hub: Any, tiny_repo: Any, tiny_gguf: Path) -> None:
    tiny_repo.files = {"Q4/tiny.F32.gguf": tiny_gguf.read_bytes()}
    got = line.json("get", f"{fake_hub.url}/Maker/Tiny/blob/main/Q4/tiny.F32.gguf", "--anyway")
    assert (got["name"], got["origin"]) == ("Maker/tiny.F32", "Maker/Tiny/Q4/tiny.F32.gguf")


def test_what_to_type_is_said_here_alone(line: Line, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path) -> None:
    tiny_repo.files = {"a.gguf": b"one", "b.gguf": b"two"}
    assert "choose one of them: a.gguf, b.gguf. (--file names it.)" in line("get", "Maker/Tiny", status=1)
    line("import", str(tiny_gguf), "--name", "mine")
    assert "choose another name. (--name gives one.)" in line("import", str(tiny_gguf), "--name", "mine", status=1)


def test_everything_as_json(line: Line, tiny_repo: Any, tmp_path: Path) -> None:
    got = line.json("get", "Maker/Tiny")
    assert (got["name"], got["kind"], got["source"], got["dtype"]) == ("Maker/Tiny", "model", "hub", "fp32")
    copied = line.json("import", got["folder"], "--name", "copy")
    assert (copied["name"], copied["source"]) == ("copy", "folder")
    listed = line.json("list")
    assert [entry["name"] for entry in listed["models"]] == ["copy", "Maker/Tiny"]
    assert listed["unfinished"] == []
    reports = line.json("check")
    assert [(report["name"], report["whole"]) for report in reports] == [("copy", True), ("Maker/Tiny", True)]
    assert line.json("remove", "copy") == {"name": "copy", "freed": copied["size"]}


def test_a_damaged_model_is_told_and_the_status_says_so(line: Line, tiny_repo: Any) -> None:
    line("get", "Maker/Tiny")
    (line.cache / "Maker" / "Tiny" / "tokenizer.json").unlink()
    said = line("check", "Maker/Tiny", status=1)
    assert "Maker/Tiny: damaged" in said
    assert "  tokenizer.json is missing" in said
    assert line.json("check", status=1)[0]["whole"] is False


def test_a_broken_off_download_is_listed_and_goes_on(line: Line, fake_hub: Any, tiny_repo: Any) -> None:
    fake_hub.faults["model.safetensors"] = [("cut", 5000), ("status", 404, {"X-Error-Code": "EntryNotFound"})]
    # The one wait between the two is real and lasts a second.
    assert "no file 'model.safetensors'" in line("get", "Maker/Tiny", status=1)
    assert "go on with\n  python -m medusa_core models get Maker/Tiny\n" in line("list")
    waiting = line.json("list")["unfinished"][0]
    assert waiting["repo"] == "Maker/Tiny"
    assert 5000 < waiting["done"] < waiting["total"]
    line("get", "Maker/Tiny")
    assert line.json("list")["unfinished"] == []


def test_what_does_not_fit_is_not_downloaded_but_on_demand(
    line: Line, fake_hub: Any, tiny_repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "_CGROUP", Path("/nowhere"))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=100 * 2**20))
    said = line("get", "Maker/Tiny", "--device", "cpu", status=1)
    assert "Maker/Tiny needs about 0.4 GiB in" in said
    assert "for 256 tokens of conversation" in said
    assert "--anyway downloads it nevertheless" in said
    assert "model.safetensors" not in fake_hub.served
    line("get", "Maker/Tiny", "--anyway")
    catalogue = line.json("catalogue", "--device", "cpu")
    assert {entry["fits"] for entry in catalogue} == {""}


def test_the_catalogue(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "_CGROUP", Path("/nowhere"))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 * 10**9))
    heads = line.cache.parent / "heads" / "mine"
    heads.mkdir(parents=True)
    (heads / "config.json").write_text('{"base_model": {"name": "Qwen3-0.6B"}}')
    rows = {row["model"]: row for row in line.json("catalogue", "--device", "cpu", "--dtype", "bf16")}
    assert rows["HuggingFaceTB/SmolLM2-360M-Instruct"]["fits"] == "bf16"
    assert rows["mistralai/Mixtral-8x7B-Instruct-v0.1"]["fits"] == ""
    states = {name: rows[name]["heads_state"] for name in ("default", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B")}
    assert states == {"default": "included", "Qwen/Qwen3-0.6B": "trained here", "Qwen/Qwen3-1.7B": "none yet"}
    printed = line("catalogue", "--device", "cpu", "--dtype", "bf16")
    assert "heads for google/gemma-7b-it: text-generation-inference/gemma-7b-it-medusa (tgi-v1)" in printed


def test_published_heads_say_how_to_use_them(line: Line, tiny_repo: Any) -> None:
    tiny_repo.files = {"config.json": b'{"medusa_num_heads": 2}', "medusa_lm_head.pt": b"pickled"}
    assert "generate --heads Maker/Tiny" in line("get", "Maker/Tiny")
    assert line.json("list")["models"][0]["kind"] == "heads"


def test_heads_trained_here_are_listed_checked_and_removed(line: Line, tiny_repo: Any) -> None:
    line("get", "Maker/Tiny")
    mine = line.cache.parent / "heads" / "Tiny"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text('{"format": "medusa-heads", "base_model": {"name": "Tiny"}}')
    save_file({"w1": torch.ones(2, 2)}, mine / "heads.safetensors")
    assert re.search(r"^heads/Tiny +heads, trained here ", line("list"), re.MULTILINE)
    listed = line.json("list")["models"]
    kinds = [(entry["name"], entry["kind"], entry["trained_here"]) for entry in listed]
    assert kinds == [("Maker/Tiny", "model", False), ("heads/Tiny", "heads", True)]
    assert [report["name"] for report in line.json("check")] == ["Maker/Tiny", "heads/Tiny"]
    assert "heads/Tiny: whole (no checksums to compare with, 1 tensors)" in line("check", "heads/Tiny")
    assert hub.heads_folder("heads/Tiny", line.cache) == mine
    (mine / "heads.safetensors").write_bytes(b"short")
    assert line.json("check", "heads/Tiny", status=1)[0]["whole"] is False
    assert "Removed heads/Tiny" in line("remove", "heads/Tiny")
    assert not mine.exists()
    assert (line.cache / "Maker" / "Tiny").is_dir()
    assert "no 'heads/Tiny' in the library" in line("remove", "heads/Tiny", status=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "nonsense"], "no name of a model on the Hub"),
        (["get", "Maker/None"], "no such model, or it is private"),
        (["get", "Maker/Tiny", "--context", "-1"], "context is -1"),
        (["import", "/nowhere"], "neither a folder nor a file"),
        (["remove", "../x"], "no name of a model in the library"),
        (["remove", "x"], "There is no 'x' in the library"),
        (["check", "x"], "There is no 'x' in the library"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(line: Line, words: list[str], message: str) -> None:
    said = line(*words, status=1)
    assert message in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_the_hub_is_as_the_environment_names_it(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medusa_core.hub.client.saved_token", lambda: "hf_mine")
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    config = cli_models.hub_config()
    assert (config.endpoint, config.token, config.offline) == ("https://mirror.example", "hf_mine", False)
    monkeypatch.setenv("HF_ENDPOINT", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = cli_models.hub_config()
    assert (config.endpoint, config.token, config.offline) == ("https://huggingface.co", "", True)
    assert "Offline mode" in line("get", "Maker/Tiny", status=1)
