"""Weights, heads, cache and margin against what is free; what would fit is offered."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from medusa_core import fit
from medusa_core.errors import DoesNotFit, OutOfMemory
from medusa_core.fit import ModelSizes, best_fit, needed
from medusa_core.tiny import save_tiny_model

MIB = 2**20
SIZES = ModelSizes(parameters=1_000_000_000, ends=100_000_000, layers=10, kv_heads=2, head_dim=64, context=32768)
MARGIN = 400 * MIB


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the free memory."""

    def set_free(size: float) -> None:
        monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=int(size)))
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(size), 2 * int(size)))

    monkeypatch.setattr(fit, "_CGROUP", Path("/nowhere"))
    return set_free


def test_the_need_is_the_sum_of_its_parts() -> None:
    need = needed(SIZES, "bf16", "cpu", context=1000, heads_bytes=5 * MIB)
    assert need.weights == int(2e9 * 1.3)
    assert need.cache == 2 * 10 * 2 * 64 * 2 * 1000
    assert (need.heads, need.margin) == (5 * MIB, MARGIN)
    assert need.total == need.weights + need.cache + need.heads + need.margin
    assert needed(SIZES, "fp32", "cpu", context=1000).cache == 2 * need.cache


def test_embedding_and_output_head_stay_in_16_bit() -> None:
    assert needed(SIZES, "nf4", "cuda", context=0).weights == int((0.9e9 * 0.6 + 0.1e9 * 2) * 1.3)
    assert needed(SIZES, "nf4", "cpu", context=0).weights == int((0.9e9 * 0.6 + 0.1e9 * 4) * 1.3)
    assert needed(SIZES, "int8", "cuda", context=0).weights < needed(SIZES, "bf16", "cuda", context=0).weights
    assert needed(SIZES, "bf16", "cuda", context=0).weights == int(2e9 * 1.3)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_first_precision_that_fits_is_taken(free: Any, device: str) -> None:
    needs = {each: needed(SIZES, each, device, context=4096).total for each in ("fp32", "bf16", "nf4")}
    for precision, total in needs.items():
        free(total)
        found = best_fit("Tiny", SIZES, ("fp32", "bf16", "nf4"), device, context=4096)
        assert (found.need.precision, found.free) == (precision, total)
    free(needs["nf4"] - 1)
    with pytest.raises(OutOfMemory):
        best_fit("Tiny", SIZES, ("fp32", "bf16", "nf4"), device, context=4096)


@pytest.fixture
def gpus(free: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the free memory of every GPU."""

    def set_free(*sizes: float) -> None:
        free(0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(sizes))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number=0: (int(sizes[number]), 2 * int(sizes[number])))

    return set_free


def test_a_model_too_large_for_one_gpu_is_spread_over_all(gpus: Any) -> None:
    bf16, nf4 = (needed(SIZES, each, "cuda", context=4096).total for each in ("bf16", "nf4"))
    gpus(bf16, bf16)
    assert best_fit("Tiny", SIZES, ("bf16",), "cuda", context=4096).gpus == 1, "one is enough"
    gpus(bf16 / 2 + MARGIN, bf16 / 2)
    found = best_fit("Tiny", SIZES, ("bf16",), "cuda", context=4096)
    assert (found.gpus, found.need.precision, found.free) == (2, "bf16", 2 * (bf16 // 2))
    assert fit.spread_bytes() == {0: int(bf16 / 2), 1: int(bf16 / 2) - MARGIN}
    gpus(nf4, nf4)
    found = best_fit("Tiny", SIZES, ("bf16", "nf4"), "cuda", context=4096)
    assert (found.gpus, found.need.precision) == (1, "nf4"), "one GPU is faster than two"
    gpus(bf16 / 2, bf16 / 2)
    with pytest.raises(DoesNotFit, match=r"2\.\d GiB are free on 2 GPUs"):
        best_fit("Tiny", SIZES, ("bf16",), "cuda", context=4096)


def test_a_refusal_shows_the_figures_and_what_would_fit(free: Any) -> None:
    free(2.6e9)
    with pytest.raises(DoesNotFit) as caught:
        best_fit("Tiny", SIZES, ("bf16",), "cuda", context=4096, heads_bytes=200 * MIB, others=("int8", "nf4"))
    said = str(caught.value)
    for words in (
        "Tiny needs about 3.0 GiB in bf16, and 2.4 GiB are free on the GPU",
        "2.4 GiB for the weights",
        "0.2 GiB for the heads",
        "20 MiB for 4,096 tokens of conversation",
        "0.4 GiB to work in",
        "It would fit in int8 (2.0 GiB)",
    ):
        assert words in said


def test_a_shorter_conversation_is_offered_where_that_helps(free: Any) -> None:
    wide = ModelSizes(parameters=1000, layers=40, kv_heads=64, head_dim=128, context=8192)
    free(MARGIN + needed(wide, "bf16", "cpu", context=2048).cache + MIB)
    with pytest.raises(DoesNotFit, match=r"It would fit in bf16 with 2,048 tokens of conversation"):
        best_fit("Wide", wide, ("bf16",), "cpu", context=8192)


def test_where_nothing_fits_it_is_said_how_much_must_be_free(free: Any) -> None:
    free(100 * MIB)
    with pytest.raises(DoesNotFit, match=r"at least 2\.8 GiB must be free\), or choose a smaller model"):
        best_fit("Tiny", SIZES, ("bf16",), "cpu", context=4096)


def test_what_the_model_in_use_gives_back_is_free_for_the_next(free: Any) -> None:
    total = needed(SIZES, "bf16", "cpu", context=4096).total
    free(total - 500 * MIB)
    with pytest.raises(DoesNotFit):
        best_fit("Tiny", SIZES, ("bf16",), "cpu", context=4096)
    assert best_fit("Tiny", SIZES, ("bf16",), "cpu", context=4096, freed=500 * MIB).free == total
    assert fit.held_bytes(1000, "int8", "cpu") == 1000
    assert fit.held_bytes(1000, "fp32 (no int8: its architecture is gpt2)", "cpu") == 4000
    assert fit.held_bytes(1000, "int8 of bitsandbytes", "cuda") == 1100


def test_a_container_may_have_less_than_its_machine(free: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(1000 * MIB)
    monkeypatch.setattr(fit, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert fit.free_bytes("cpu") == 1000 * MIB
    (tmp_path / "memory.max").write_text(f"{500 * MIB}\n")
    (tmp_path / "memory.current").write_text(f"{300 * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {100 * MIB}\nslab 3\n")
    assert fit.free_bytes("cpu") == 300 * MIB
    (tmp_path / "memory.current").write_text(f"{900 * MIB}\n")
    assert fit.free_bytes("cpu") == 0


def test_sizes_are_read_from_a_folder(tmp_path: Path) -> None:
    sizes = fit.folder_sizes(save_tiny_model(tmp_path / "tiny"))
    assert (sizes.layers, sizes.kv_heads, sizes.head_dim, sizes.context) == (2, 2, 16, 256)
    assert sizes.ends == 2 * 264 * 64
    assert sizes.parameters > sizes.ends
    tied = fit.folder_sizes(save_tiny_model(tmp_path / "tied", tied=True))
    assert tied.ends == 264 * 64


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}, (2, 4, 16, 0)),
        ({"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 99}, (3, 4, 16, 99)),
        ({"text_config": {"num_hidden_layers": 5, "head_dim": 8, "num_key_value_heads": 1}}, (5, 1, 8, 0)),
        ({"num_hidden_layers": "many"}, (0, 0, 0, 0)),
        ([], (0, 0, 0, 0)),
    ],
)
def test_what_a_configuration_does_not_tell_is_nought(tmp_path: Path, config: Any, expected: tuple[int, ...]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    sizes = fit.config_sizes(tmp_path / "config.json", 1000)
    assert (sizes.layers, sizes.kv_heads, sizes.head_dim, sizes.context) == expected
    assert fit.config_sizes(tmp_path / "none.json", 1000) == ModelSizes(1000)


def test_the_conversation_that_room_is_made_for() -> None:
    assert fit.chosen_context(SIZES, 0) == 4096
    assert fit.chosen_context(SIZES, 9000) == 9000
    assert fit.chosen_context(SIZES, 90_000) == 32768
    assert fit.chosen_context(ModelSizes(1, context=256), 0) == 256
    assert fit.chosen_context(ModelSizes(1), 0) == 4096


def test_heads_are_counted_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "heads.safetensors").write_bytes(bytes(100))
    (tmp_path / "config.json").write_bytes(bytes(7))
    assert fit.folder_bytes(tmp_path) == 100
    assert fit.folder_bytes(None) == 0
    weights = {"model.norm.weight": torch.zeros(1000), "medusa_head.0.0.linear.weight": torch.zeros(4, 4)}
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "medusa_num_heads": 1}')
    assert fit.folder_bytes(tmp_path) == 2 * 16
