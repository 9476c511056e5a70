"""A GGUF file becomes a model folder or nothing at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from medusa_core import fit
from medusa_core.errors import DiskFull, ModelNotFound, ModelUnsupported, OutOfMemory
from medusa_core.events import Progress
from medusa_core.hub import gguf as room
from medusa_core.hub.gguf_header import GgufSizes, gguf_sizes
from tests.core.hub.conftest import tiny_llama, write_gguf


def drain(operation: Generator[Progress, None, Path]) -> tuple[list[Progress], Path]:
    events = []
    while True:
        try:
            events.append(next(operation))
        except StopIteration as finished:
            return events, finished.value


@pytest.mark.parametrize("tied", [True, False])
def test_converted_model_has_the_weights_of_the_gguf_file(tmp_path: Path, make_gguf: Any, tied: bool) -> None:
    original, gguf = make_gguf(tied)
    folder = tmp_path / "cache" / "tiny"
    _, result = drain(room.convert_gguf(gguf, folder))
    assert result == folder
    assert ("lm_head.weight" in load_file(folder / "model.safetensors")) is not tied
    converted = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert {name for name, _ in converted.named_parameters()} == {name for name, _ in original.named_parameters()}
    for name, weight in original.state_dict().items():
        assert torch.equal(converted.state_dict()[name], weight), name


def test_converted_folder_describes_itself(tmp_path: Path, tiny_gguf: Path) -> None:
    _, folder = drain(room.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "bfloat16"
    assert config["max_position_embeddings"] == 128
    assert config["eos_token_id"] == 2
    assert "quantization_config" not in config
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.model_max_length == 128
    assert tokenizer.decode(tokenizer("cab", add_special_tokens=False).input_ids) == "cab"
    assert "tiny.F32.gguf" in (folder / "README.md").read_text()


def test_progress_rises_to_the_end(tmp_path: Path, tiny_gguf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events, _ = drain(room.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    done = [event.done for event in events]
    assert len(done) >= 4
    assert done == sorted(set(done))
    assert events[-1].done == events[-1].total
    assert capfd.readouterr() == ("", "")


def test_reading_the_weights_says_how_far_it_has_come(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, read = threading.Event(), room._read_model

    def halfway(gguf: Path, config: Any, bar: Any) -> Any:
        bar.write("Converting and de-quantizing GGUF tensors...:  50%|#####     | 136/272 [00:03<00:03]")
        assert seen.wait(60)
        return read(gguf, config, bar)

    monkeypatch.setattr(room, "_read_model", halfway)
    conversion = room.convert_gguf(tiny_gguf, tmp_path / "tiny")
    done = []
    for event in conversion:
        done.append(event.done)
        if len(done) == 4:
            seen.set()
    assert done[2] < done[3] < done[-2]  # between the weights and the writing
    assert done[3] == (room._BAR_FROM + room._WRITE_FROM) / 2


@pytest.mark.parametrize("events_before", [1, 2, 3, 4])
def test_stopped_conversion_leaves_nothing(tmp_path: Path, tiny_gguf: Path, events_before: int) -> None:
    cache = tmp_path / "cache"
    conversion = room.convert_gguf(tiny_gguf, cache / "tiny")
    for _ in range(events_before):
        next(conversion)
    assert list(cache.iterdir())
    conversion.close()
    assert list(cache.iterdir()) == []


def test_killed_conversion_is_cleaned_up_but_a_living_one_is_not(tmp_path: Path, tiny_gguf: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    killed = tmp_path / f".tiny.partial-{gone.pid}-x"
    living = tmp_path / f".tiny.partial-{os.getppid()}-x"
    for folder in (killed, living):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half of it")
    _, folder = drain(room.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    assert not killed.exists()
    assert living.exists()
    assert load_file(folder / "model.safetensors")


def test_unfinished_folder_of_the_same_name_is_replaced(tmp_path: Path, tiny_gguf: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    _, folder = drain(room.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    assert load_file(folder / "model.safetensors")


def test_full_disk_is_seen_before_anything_is_written(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", _free(1000))
    with pytest.raises(DiskFull, match=r"Not enough room .* needed"):
        drain(room.convert_gguf(tiny_gguf, tmp_path / "cache" / "tiny"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_disk_that_fills_up_while_writing(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_up(*_: object, **__: object) -> None:
        monkeypatch.setattr(shutil, "disk_usage", _free(0))
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", fill_up)
    with pytest.raises(DiskFull, match="Not enough room"):
        drain(room.convert_gguf(tiny_gguf, tmp_path / "cache" / "tiny"))
    assert list((tmp_path / "cache").iterdir()) == []


def _free(size: int) -> Any:
    return lambda _: SimpleNamespace(free=size)


@pytest.mark.parametrize("early", [False, True])
def test_weights_are_held_in_16_bit_and_rounded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    exact = tiny_llama(tied=False)
    for weight in exact.parameters():
        weight.data += torch.randn_like(weight) * 1e-3  # bfloat16 does not hold these
    gguf = write_gguf(exact, tmp_path / "exact.F32.gguf")
    asked, load = [], AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(room, "_rounds_early", lambda _: early)
    monkeypatch.setattr(
        AutoModelForCausalLM,
        "from_pretrained",
        lambda *words, **options: asked.append(options["dtype"]) or load(*words, **options),
    )
    _, folder = drain(room.convert_gguf(gguf, tmp_path / "exact"))
    assert asked == [torch.float32 if early else torch.bfloat16]
    for name, weight in load_file(folder / "model.safetensors").items():
        assert torch.equal(weight, exact.state_dict()[name].to(torch.bfloat16)), name


def test_kinds_that_are_unpacked_in_the_precision_asked_for_are_known() -> None:
    assert room._rounds_early("qwen35")
    assert not room._rounds_early("llama")


def test_a_model_that_memory_has_no_room_for_is_refused_with_figures(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "free_bytes", lambda device: 3 * 2**30)
    monkeypatch.setattr(room, "gguf_sizes", lambda _: GgufSizes("llama", 7 * 10**9, 131_072_000))
    with pytest.raises(OutOfMemory, match=r"tiny\.F32\.gguf \(7\.00 billion.* about 14\.9 GiB .*3\.0 GiB are free"):
        drain(room.convert_gguf(tiny_gguf, tmp_path / "cache" / "tiny"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_header_counts_the_weights(tmp_path: Path, make_gguf: Any) -> None:
    model, gguf = make_gguf(False)
    numbers = [weight.numel() for weight in model.parameters()]
    assert gguf_sizes(gguf) == GgufSizes("llama", sum(numbers), max(numbers))
    for broken in (b"", b"GGML", b"GGUF" + bytes(200), gguf.read_bytes()[:300], b"GGUF\3\0\0\0" + b"\xff" * 99):
        (tmp_path / "broken.gguf").write_bytes(broken)
        assert gguf_sizes(tmp_path / "broken.gguf") is None
    assert gguf_sizes(tmp_path / "none.gguf") is None


def test_what_else_belongs_to_a_model_is_there_before_it_gets_its_name(tmp_path: Path, tiny_gguf: Path) -> None:
    folder = tmp_path / "cache" / "tiny"

    def finish(made: Path) -> Generator[Progress, None, None]:
        assert load_file(made / "model.safetensors")
        assert not folder.exists()
        yield Progress("finishing", 0, 1)
        (made / "note").write_text("mine")

    conversion = room.convert_gguf(tiny_gguf, folder, finish)
    for event in conversion:
        if event.stage == "finishing":
            break
    conversion.close()
    assert list(folder.parent.iterdir()) == []
    drain(room.convert_gguf(tiny_gguf, folder, finish))
    assert (folder / "note").read_text() == "mine"


def test_damaged_gguf_is_refused_in_one_sentence(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(ModelUnsupported, match=r"damaged\.gguf could not be read"):
        drain(room.convert_gguf(damaged, tmp_path / "cache" / "damaged"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_missing_gguf(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no GGUF file"):
        drain(room.convert_gguf(tmp_path / "none.gguf", tmp_path / "tiny"))


def test_default_model_answers_after_conversion(default_model_folder: Path) -> None:
    config = json.loads((default_model_folder / "config.json").read_text())
    assert (config["eos_token_id"], config["max_position_embeddings"]) == (2, 8192)
    assert "Apache License 2.0" in (default_model_folder / "README.md").read_text()
    tokenizer = AutoTokenizer.from_pretrained(default_model_folder)
    assert tokenizer.decode([config["eos_token_id"]]) == "<|im_end|>"
    model = AutoModelForCausalLM.from_pretrained(default_model_folder)
    assert model.dtype == torch.bfloat16
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=16, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0][prompt["input_ids"].shape[1] :])
