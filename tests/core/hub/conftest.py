"""A tiny GGUF file to convert, a tiny model, in a folder and on a fake Hub, and where the library goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from medusa_core.config import HubConfig
from medusa_core.hub.client import HubClient
from medusa_core.tiny import save_tiny_model
from tests.core.hub.fake_hub import FakeHub, Repo

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
def make_gguf(tmp_path: Path) -> Callable[[bool], tuple[LlamaForCausalLM, Path]]:
    """Makes a tiny model, with tied embeddings or not, and the GGUF file of it."""

    def make(tied: bool) -> tuple[LlamaForCausalLM, Path]:
        model = tiny_llama(tied)
        return model, write_gguf(model, tmp_path / "tiny.F32.gguf")

    return make


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    return write_gguf(tiny_llama(tied=True), tmp_path / "tiny.F32.gguf")


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on this machine; no proxy stands between, and no token of this machine's user is sent to it."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    hub = FakeHub()
    yield hub
    hub.close()


@pytest.fixture(scope="session")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a tiny model, with a card and things that nobody needs."""
    folder = save_tiny_model(tmp_path_factory.mktemp("hub") / "Tiny", seed=3)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    card = b"---\nlicense: apache-2.0\n---\n# Tiny\n"
    others = {"pytorch_model.bin": b"pickled", "onnx/model.onnx": b"no", "flax_model.msgpack": b"no"}
    return files | others | {"README.md": card}


@pytest.fixture
def source(tmp_path: Path, tiny_files: dict[str, bytes]) -> Path:
    """A model's folder somewhere, with things in it that nobody needs."""
    folder = tmp_path / "elsewhere" / "Tiny"
    for name, data in tiny_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def tiny_repo(fake_hub: FakeHub, tiny_files: dict[str, bytes]) -> Repo:
    """The tiny model on the fake Hub, as Maker/Tiny."""
    fake_hub.repos["Maker/Tiny"] = Repo(dict(tiny_files))
    return fake_hub.repos["Maker/Tiny"]


class Ticking:
    """Time as a test wants it: every look at the clock is a second later, and nobody waits."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, 0.0

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


@pytest.fixture
def ticking() -> Ticking:
    return Ticking()


@pytest.fixture
def client(fake_hub: FakeHub, ticking: Ticking) -> Iterator[HubClient]:
    """A client of the fake Hub that never really waits."""
    client = HubClient(HubConfig(endpoint=fake_hub.url), sleep=ticking.sleep, clock=ticking.clock)
    yield client
    client.close()
