"""Models that are quantized on the disk, and models that the CPU's int8 is not for: seen before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes.functional import dequantize_4bit
from bitsandbytes.nn import Linear4bit
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from medusa_core import fit
from medusa_core.backbone import precision as room
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import load_backbone, make_spec
from medusa_core.backbone.precision import fitting_dtype, folder_precisions, stored_precision
from medusa_core.config import Dtype
from medusa_core.errors import ConfigError, ModelUnsupported
from medusa_core.tiny import save_tiny_model, tiny_tokenizer
from tests.core.test_families import save_other

CPU = torch.device("cpu")


def loaded(folder: Path, dtype: Dtype) -> tuple[Any, str]:
    loading = load_backbone(folder, dtype, "cpu")
    while True:
        try:
            next(loading)
        except StopIteration as stop:
            return stop.value[0], stop.value[2]


def logits(backbone: Any) -> torch.Tensor:
    ids = torch.tensor([1, 50, 100, 7, 200])
    with torch.inference_mode():
        found: torch.Tensor = backbone.logits(backbone.forward(ids, torch.arange(5), None, backbone.new_cache()))
    return found


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "whole", seed=3)


def quantized(whole: Path, config: BitsAndBytesConfig) -> Path:
    """The same model as somebody publishes it quantized."""
    folder = whole.with_name("quantized")
    model = AutoModelForCausalLM.from_pretrained(whole, quantization_config=config, dtype=torch.float32)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def four_bits(whole: Path) -> Path:
    return quantized(
        whole, BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    )


def test_four_bits_on_the_disk_stay_four_bits(four_bits: Path, whole: Path) -> None:
    assert stored_precision(four_bits) == "nf4"
    assert stored_precision(whole) == ""
    assert fitting_dtype(four_bits, "auto", "cpu") == "auto"
    backbone, precision = loaded(four_bits, "auto")
    assert (type(backbone), precision) == (LeanBackbone, "nf4")
    plain = AutoModelForCausalLM.from_pretrained(whole, dtype=torch.float32)
    packed = AutoModelForCausalLM.from_pretrained(four_bits)
    for name, module in packed.named_modules():
        if isinstance(module, Linear4bit):
            target = plain.get_submodule(name)
            assert isinstance(target, nn.Linear)
            target.weight.data = dequantize_4bit(module.weight.data, module.weight.quant_state).float()
    expected = logits(LeanBackbone(plain, make_spec(plain, tiny_tokenizer(), "tiny"), keep_model=True))
    torch.testing.assert_close(logits(backbone), expected, rtol=0, atol=1e-3)
    torch.testing.assert_close(logits(loaded(four_bits, "nf4")[0]), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "int8"])
def test_another_precision_than_the_stored_one_is_refused_in_a_sentence(four_bits: Path, dtype: Dtype) -> None:
    with pytest.raises(ConfigError, match=r"quantized is stored in nf4 and runs in no other precision\. Choose auto"):
        loaded(four_bits, dtype)


def test_the_need_counts_weights_not_the_bytes_they_are_packed_in(four_bits: Path, whole: Path) -> None:
    packed, plain = fit.folder_sizes(four_bits).parameters, fit.folder_sizes(whole).parameters
    assert plain <= packed < 1.1 * plain


def test_eight_bits_of_bitsandbytes_are_told_from_this_programs(whole: Path) -> None:
    folder = quantized(whole, BitsAndBytesConfig(load_in_8bit=True))
    assert stored_precision(folder) == "int8"
    backbone, precision = loaded(folder, "auto")
    assert precision == "int8 of bitsandbytes"
    near = (logits(backbone).float() - logits(loaded(whole, "fp32")[0])).abs().max()
    assert 0 < near < 3


def test_what_others_quantized_is_refused_by_name(whole: Path) -> None:
    path = whole / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq", "bits": 4}}), encoding="utf-8")
    with pytest.raises(ModelUnsupported, match="whole is quantized by gptq, which this program does not read"):
        loaded(whole, "auto")


def test_room_is_made_for_what_a_model_will_run_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that int8 is not for would be checked at 2 bytes a weight, and then take 4."""
    folder = save_other(tmp_path / "gpt", "gpt2", n_embd=64, n_layer=2, n_head=4, n_positions=256)
    monkeypatch.setattr(room, "faster_float", lambda: "fp32")
    assert folder_precisions(folder, "auto", CPU) == ("fp32", "bf16")
    needs = {each: fit.needed(fit.folder_sizes(folder), each, "cpu", context=256).total for each in ("fp32", "bf16")}
    for free, expected in ((needs["fp32"], "auto"), (needs["fp32"] - 1, "bf16")):
        monkeypatch.setattr(fit, "free_bytes", lambda _device, free=free: free)
        assert fitting_dtype(folder, "auto", "cpu") == expected
    monkeypatch.undo()
    assert loaded(folder, "auto")[1].endswith("(no int8: its architecture is gpt2)")
