"""The table of formats in docs/FORMAT.md: every cell is true, and no format is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.cli_convert import _DROPPABLE, _TARGETS
from medusa_core.errors import CheckpointError
from medusa_core.heads.formats.convert import TARGETS, convert
from medusa_core.heads.formats.load import open_heads
from medusa_core.heads.formats.model import open_model
from medusa_core.heads.formats.read import read_any
from medusa_core.heads.formats.tensors import FULL_MODEL, MEDUSA, OURS, TENSORRT, TGI, VLLM
from medusa_core.heads.formats.write import DROPPABLE

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "FORMAT.md"
LIGER, HYDRA = "Liger full model", "Hydra"
WRITERS = {OURS: "ours", TGI: "tgi", VLLM: "vllm"}


def rows() -> dict[str, tuple[str, str]]:
    """What the table says of reading and writing, by format."""
    lines = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    header = next(number for number, row in enumerate(cells) if row[0] == "Format")
    return {row[0]: (row[-2], row[-1]) for row in cells[header + 1 :]}


def test_every_format_has_a_row() -> None:
    assert rows().keys() == {OURS, MEDUSA, TGI, FULL_MODEL, LIGER, VLLM, TENSORRT, HYDRA}
    assert TARGETS == _TARGETS == tuple(WRITERS.values())
    assert DROPPABLE == _DROPPABLE


@pytest.mark.parametrize("name", [OURS, MEDUSA, TGI, FULL_MODEL, LIGER, VLLM, TENSORRT, HYDRA])
def test_what_is_said_of_reading(
    name: str, made: Any, written: Callable[..., Path], vllm_config: Callable[..., dict[str, Any]], model: Path,
    backbone: LeanBackbone, tmp_path: Path,
) -> None:  # fmt: skip
    heads = made()
    whole = load_file(model / "model.safetensors") | heads.published("medusa_head.")
    base = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 264}
    samples: dict[str, tuple[Any, ...]] = {
        MEDUSA: (heads.published(), "medusa_lm_head.pt", {"medusa_num_heads": 2, "medusa_num_layers": 1}),
        TGI: (heads.published(own=False), "medusa_lm_head.safetensors", {"medusa_num_heads": 3, "version": "2"}),
        FULL_MODEL: (whole, "pytorch_model.bin", base),
        LIGER: (whole, "model.safetensors", base | {"medusa_num_heads": 3, "medusa_num_layers": 1}),
        VLLM: (heads.vllm(), "model.safetensors", vllm_config(medusa_fc_bias=True)),
        TENSORRT: (heads.tensorrt(), "rank0.safetensors", {}),
        HYDRA: ({"hydra_mlp.0.weight": torch.zeros(2)}, "hydra_lm_head.pt", {"hydra_num_heads": 4}),
    }
    said, _ = rows()[name]
    if name == OURS:
        folder = tmp_path / "ours"
        convert(written("v01", heads.published()), folder, "ours", open_model(model, "tiny-llama"))
    else:
        tensors, file, config = samples[name]
        folder = written("sample", tensors, file, **config)
    if said == "refused by name":
        with pytest.raises(CheckpointError, match=name):
            read_any(folder)
        return
    assert said == "yes"
    assert read_any(folder).format == (FULL_MODEL if name == LIGER else name)
    output = backbone.output_weight if name == TGI else None
    states = torch.randn(4, 64)
    loaded = open_heads(folder, backbone).heads(states)
    torch.testing.assert_close(loaded, heads.logits(states, output), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", [OURS, MEDUSA, TGI, FULL_MODEL, LIGER, VLLM, TENSORRT, HYDRA])
def test_what_is_said_of_writing(
    name: str, made: Any, written: Callable[..., Path], model: Path, tmp_path: Path
) -> None:
    _, said = rows()[name]
    if name not in WRITERS:
        assert said == "no"
        return
    assert said == f"`--to {WRITERS[name]}`"
    source = written("v2", made().published(own=False))
    convert(source, tmp_path / "there", WRITERS[name], open_model(model, "tiny-llama"))
    assert read_any(tmp_path / "there").format == name
