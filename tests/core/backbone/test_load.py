"""From a folder to a backbone: devices, precisions, what fits, what is refused."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM

from medusa_core.backbone import load as room
from medusa_core.backbone import precision as precisions
from medusa_core.backbone.base import Backbone
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import check_fit, fingerprint, load_backbone, make_spec
from medusa_core.backbone.precision import choose_device, choose_dtype
from medusa_core.config import Dtype
from medusa_core.errors import ConfigError, ModelUnsupported, OutOfMemory
from medusa_core.tiny import END_ID, save_tiny_model, tiny_model, tiny_tokenizer

CPU = torch.device("cpu")
Memory = namedtuple("Memory", "available")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(folder, tmp_path / "tiny"))


def loaded(folder: Path, dtype: Dtype) -> tuple[Backbone, frozenset[int], str]:
    loading = load_backbone(folder, dtype, "cpu")
    stages = []
    while True:
        try:
            stages.append(next(loading).done)
        except StopIteration as finished:
            assert stages == [0, 1, 2, 3]
            backbone, text, precision = finished.value
            return backbone, text.stop_ids, precision


@torch.inference_mode()
def logits(backbone: Backbone, tokens: list[int]) -> torch.Tensor:
    positions = torch.arange(len(tokens))
    return backbone.logits(backbone.forward(torch.tensor(tokens), positions, None, backbone.new_cache()))


@pytest.mark.parametrize(("dtype", "expected"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_folder_becomes_a_backbone(folder: Path, dtype: Dtype, expected: torch.dtype) -> None:
    backbone, stop_ids, precision = loaded(folder, dtype)
    assert isinstance(backbone, LeanBackbone)
    assert (backbone.dtype, precision, stop_ids) == (expected, dtype, frozenset({END_ID}))
    assert (backbone.spec.vocab_size, backbone.spec.context_size, backbone.spec.family) == (264, 256, "llama")
    assert backbone.spec.name == "tiny"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=expected)
    tokens = [1, 50, 100, 7]
    with torch.inference_mode():
        stock = model(input_ids=torch.tensor([tokens])).logits[0]
    tolerance = 1e-4 if dtype == "fp32" else 0.2
    torch.testing.assert_close(logits(backbone, tokens), stock, rtol=0, atol=tolerance)


def dequantized(folder: Path) -> LeanBackbone:
    """The folder's model with every 4-bit weight written out in fp32."""
    from bitsandbytes.functional import dequantize_4bit
    from bitsandbytes.nn import Linear4bit
    from transformers import BitsAndBytesConfig

    quantization = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, quantization_config=quantization, device_map={"": "cpu"}
    )
    plain = tiny_model("llama")
    for name, module in list(model.named_modules()):
        if isinstance(module, Linear4bit):
            target = plain.get_submodule(name)
            assert isinstance(target, nn.Linear)
            target.weight.data = dequantize_4bit(module.weight.data, module.weight.quant_state).float()
    return LeanBackbone(plain, make_spec(plain, tiny_tokenizer(), "tiny"), keep_model=True)


def test_nf4_equals_the_dequantized_weights(folder: Path) -> None:
    backbone, _, precision = loaded(folder, "nf4")
    assert precision == "nf4"
    assert isinstance(backbone, LeanBackbone)
    assert backbone.output_weight.dtype == torch.float32  # the output head is never quantized
    assert torch.equal(backbone.output_weight, load_file(folder / "model.safetensors")["lm_head.weight"])
    tokens = [1, 50, 100, 7, 200]
    exact = logits(loaded(folder, "fp32")[0], tokens)
    quantized = logits(backbone, tokens)
    torch.testing.assert_close(quantized, logits(dequantized(folder), tokens), rtol=0, atol=1e-3)
    assert (quantized - exact).abs().max() > 0.01  # it was quantized at all


def test_the_identity_is_the_same_in_every_precision_and_differs_between_models(folder: Path) -> None:
    prints = {loaded(folder, dtype)[0].spec.fingerprint for dtype in ("fp32", "bf16")}
    assert len(prints) == 1
    tokenizer = tiny_tokenizer()
    other = {fingerprint(tiny_model(family).config, tokenizer) for family in ("llama", "qwen2", "qwen3")}
    assert len(other) == 3
    assert prints < other
    tokenizer.add_tokens(["new"])
    assert fingerprint(tiny_model("llama").config, tokenizer) not in other


def test_a_sliding_window_limits_the_context() -> None:
    model = tiny_model("mistral")
    model.config.sliding_window = 64
    assert make_spec(model, tiny_tokenizer(), "x").context_size == 64
    model.config.layer_types = ["full_attention", "full_attention"]
    assert make_spec(model, tiny_tokenizer(), "x").context_size == 256


def test_every_stop_token_of_the_generation_configuration_counts(own_folder: Path) -> None:
    path = own_folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [7, 9]}))
    assert loaded(own_folder, "fp32")[1] == {7, 9, END_ID}


def test_what_does_not_fit_is_refused_before_loading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> Any:
        raise AssertionError("loading has begun")

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(200 * 2**20))
    monkeypatch.setattr(room, "_load_model", never)
    monkeypatch.setattr(room, "_load_tokenizer", never)
    with pytest.raises(OutOfMemory, match=r"tiny needs about 0\.4 GiB in fp32, and 0\.2 GiB of memory are free"):
        loaded(folder, "fp32")


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_the_need_is_counted_in_weights_not_in_bytes_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: torch.dtype
) -> None:
    save_file({"w": torch.zeros(1000, 1000, dtype=stored)}, tmp_path / "model.safetensors")
    margin = 400 * 2**20
    for precision, needed in (("fp32", 5_200_000), ("bf16", 2_600_000)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda needed=needed: Memory(margin + needed))
        check_fit(tmp_path, precision, CPU)
        monkeypatch.setattr(psutil, "virtual_memory", lambda needed=needed: Memory(margin + needed - 1))
        with pytest.raises(OutOfMemory):
            check_fit(tmp_path, precision, CPU)


def test_a_gpu_that_is_not_there_is_refused_in_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"No CUDA GPU can be used here.*Choose the CPU"):
        list(load_backbone(folder, "fp32", "cuda"))
    assert choose_device("auto") == choose_device("cpu") == CPU


def test_auto_takes_the_faster_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precisions.int8_loading, "machine_problem", lambda: "numba is not installed")
    for faster, expected in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        monkeypatch.setattr(
            precisions, "_tree_product_seconds", lambda dtype, faster=faster: float(dtype is not faster)
        )
        assert choose_dtype("auto", CPU) == expected
    assert choose_dtype("fp16", CPU) == "fp16"


def test_a_truncated_weights_file_is_named(own_folder: Path) -> None:
    path = own_folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelUnsupported, match=r"model\.safetensors is damaged"):
        loaded(own_folder, "fp32")


def test_missing_weights_are_not_made_up(own_folder: Path) -> None:
    tensors = load_file(own_folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, own_folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelUnsupported, match=r"1 weights are missing, model\.layers\.1\.mlp\.up_proj\.weight"):
        loaded(own_folder, "fp32")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{", "config.json cannot be read: Expecting"),
        ("config.json", "\x00\xff", "config.json cannot be read: "),
        ("config.json", "[]", "config.json is broken: it names no model_type"),
        ("config.json", '{"hidden_size": 64}', "config.json is broken: it names no model_type"),
        ("config.json", '{"model_type": 1}', "config.json is broken: it names no model_type"),
        ("config.json", '{"model_type": "of-tomorrow"}', "cannot be loaded: "),
        ("tokenizer.json", "{", "The tokenizer in"),
    ],
)
def test_an_unreadable_folder_is_refused_in_a_sentence(own_folder: Path, name: str, text: str, message: str) -> None:
    (own_folder / name).write_text(text, encoding="latin-1")
    with pytest.raises(ModelUnsupported) as caught:
        loaded(own_folder, "fp32")
    assert message in str(caught.value)
    assert ("okenizer" in str(caught.value)) is (name == "tokenizer.json")
    assert "\n" not in str(caught.value)


def test_a_failed_allocation_while_loading_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    monkeypatch.setattr(room, "_load_model", failing)
    with pytest.raises(OutOfMemory, match="not enough memory to load tiny"):
        loaded(folder, "fp32")
