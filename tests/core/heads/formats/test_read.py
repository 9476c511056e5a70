"""Every published format, read: the right numbers at the right place, and what is wrong said tensor by tensor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.errors import CheckpointError
from medusa_core.heads.formats.load import load_published
from medusa_core.heads.formats.read import is_published, read_published
from medusa_core.heads.formats.tensors import FULL_MODEL, MEDUSA, TENSORRT, TGI, VLLM

Written = Callable[..., Path]
LYING = {"base_model_name_or_path": "lmsys/vicuna-7b-v1.3", "medusa_num_heads": 2, "medusa_num_layers": 4}


def agree(path: Path, backbone: LeanBackbone, expected: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The heads read from `path` say what the published formula says."""
    states = torch.randn(5, backbone.spec.hidden_size)
    heads = load_published(path, backbone).heads
    torch.testing.assert_close(heads(states), expected(states), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("file", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_v01_whatever_its_config_says(
    made: Any, written: Written, backbone: LeanBackbone, file: str, layers: int
) -> None:
    heads = made(heads=3, layers=layers)
    folder = written("v01", heads.published(), file, **LYING)
    found = read_published(folder)
    assert (found.format, found.num_heads, found.num_layers) == (MEDUSA, 3, layers)
    assert found.stated.name == "lmsys/vicuna-7b-v1.3"
    assert found.dtype == torch.float16
    agree(folder, backbone, heads.logits)
    agree(folder / file, backbone, heads.logits)


@pytest.mark.parametrize("version", [{}, {"version": "2"}])
def test_tgi_v2_shares_the_models_output_head(
    made: Any, written: Written, backbone: LeanBackbone, version: dict[str, str]
) -> None:
    heads = made(heads=4)
    folder = written("v2", heads.published(own=False), **LYING, **version)
    found = read_published(folder)
    assert (found.format, found.num_heads, found.num_layers, found.w2) == (TGI, 4, 1, None)
    agree(folder, backbone, lambda states: heads.logits(states, backbone.output_weight))


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("config", [{}, {"medusa_num_heads": 9, "medusa_num_layers": 1}])
def test_a_whole_model_with_heads(
    made: Any, written: Written, model: Path, backbone: LeanBackbone, file: str, config: dict[str, int]
) -> None:
    """Medusa-2, whose config.json may say nothing of the heads, and Liger's example, which sets both numbers."""
    heads = made(heads=2, layers=2)
    whole = load_file(model / "model.safetensors") | heads.published("medusa_head.")
    base = json.loads((model / "config.json").read_text(encoding="utf-8"))
    folder = written("full", whole, file, **base, **config)
    found = read_published(folder)
    assert (found.format, found.num_heads, found.num_layers) == (FULL_MODEL, 2, 2)
    assert (found.stated.family, found.stated.model_layers) == ("llama", 2)
    agree(folder, backbone, heads.logits)


def test_a_whole_model_in_parts(made: Any, written: Written, model: Path, backbone: LeanBackbone) -> None:
    heads = made(heads=2)
    tensors = heads.published("medusa_head.")
    names = sorted(tensors)
    written("full", load_file(model / "model.safetensors"), "model-00001-of-00003.safetensors")
    for part, chosen in ((2, names[:2]), (3, names[2:])):
        folder = written("full", {name: tensors[name] for name in chosen}, f"model-0000{part}-of-00003.safetensors")
    agree(folder, backbone, heads.logits)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("prefix", ["", "medusa_heads."])
def test_vllm(
    made: Any, written: Written, vllm_config: Callable[..., dict[str, Any]], backbone: LeanBackbone, biased: bool,
    prefix: str,
) -> None:  # fmt: skip
    heads = made(layers=2)
    config = vllm_config(num_hidden_layers=7, num_heads=1, medusa_fc_bias=biased)
    folder = written("vllm", heads.vllm(prefix, biased=biased), "model.safetensors", **config)
    found = read_published(folder)
    assert (found.format, found.num_heads, found.num_layers, found.vocab_size) == (VLLM, 3, 2, 264)
    agree(folder, backbone, lambda states: heads.logits(states, biased=biased))


@pytest.mark.parametrize("whole", [True, False])
def test_vllm_with_a_token_map(
    made: Any, written: Written, vllm_config: Callable[..., dict[str, Any]], backbone: LeanBackbone,
    token_map: torch.Tensor, whole: bool,
) -> None:  # fmt: skip
    """Its output heads have a row for each token of the map, or all rows, of which vLLM takes those of the map."""
    heads = made(rows=264 if whole else len(token_map))
    tensors = heads.vllm() | {"token_map": token_map}
    folder = written("vllm", tensors, "model.safetensors", **vllm_config(truncated_vocab_size=len(token_map)))
    loaded = load_published(folder, backbone).heads
    states = torch.randn(5, 64)
    expected = heads.logits(states)[..., token_map] if whole else heads.logits(states)
    torch.testing.assert_close(loaded(states), expected, rtol=1e-5, atol=1e-4)
    assert loaded.token_ids(torch.arange(6)).tolist() == token_map.tolist()


@pytest.mark.parametrize("name", ["lm_heads.0.weight", "lm_head.weight"])
@pytest.mark.parametrize("the_models", [True, False])
def test_vllm_with_one_output_head_for_all(
    made: Any, written: Written, vllm_config: Callable[..., dict[str, Any]], backbone: LeanBackbone, name: str,
    the_models: bool,
) -> None:  # fmt: skip
    heads = made()
    output = backbone.output_weight.half() if the_models else heads.outputs[0]
    tensors = {key: tensor for key, tensor in heads.vllm().items() if "lm_heads" not in key} | {name: output}
    folder = written("vllm", tensors, "model.safetensors", **vllm_config(original_lm_head=True))
    loaded = load_published(folder, backbone).heads
    assert loaded.shape.shared_output is the_models
    assert loaded.shape.one_output is not the_models
    states = torch.randn(5, 64)
    torch.testing.assert_close(loaded(states), heads.logits(states, output), rtol=1e-2, atol=1e-2)


def test_tensorrt(made: Any, written: Written, backbone: LeanBackbone) -> None:
    heads = made()
    folder = written("trt", heads.tensorrt(), "model.safetensors")
    assert read_published(folder).format == TENSORRT
    agree(folder, backbone, heads.logits)


def test_the_table_lists_what_is_missing_unexpected_and_misshapen(made: Any, written: Written) -> None:
    tensors = made().published()
    del tensors["1.0.linear.bias"]
    tensors["1.1.linear.scale"] = torch.zeros(3)
    tensors["2.1.weight"] = torch.zeros(7, 64)
    with pytest.raises(CheckpointError) as caught:
        read_published(written("v01", tensors))
    lines = str(caught.value).splitlines()
    assert "does not hold 3 whole heads of 1 blocks" in lines[0]
    assert [line.split(maxsplit=2) for line in lines[1:]] == [
        ["missing", "1.0.linear.bias", "(64,)"],
        ["unexpected", "1.1.linear.scale", "(3,)"],
        ["misshapen", "2.1.weight", "(7, 64) instead of (264, 64)"],
    ]


def test_a_long_table_is_cut(made: Any, written: Written) -> None:
    tensors = made().published() | {f"other.{number}": torch.zeros(1) for number in range(40)}
    with pytest.raises(CheckpointError, match="and 28 more"):
        read_published(written("v01", tensors))


def test_a_head_that_lacks_its_output_is_not_made_up(made: Any, written: Written) -> None:
    tensors = made().published()
    del tensors["2.1.weight"]
    with pytest.raises(CheckpointError, match=r"missing +2\.1\.weight"):
        read_published(written("v01", tensors))


def break_half(tensors: dict[str, torch.Tensor]) -> None:
    tensors["0.0.linear.weight"][0, 0] = torch.nan


def make_whole(tensors: dict[str, torch.Tensor]) -> None:
    tensors["0.0.linear.weight"] = tensors["0.0.linear.weight"].to(torch.int8)


@pytest.mark.parametrize(("damage", "said"), [(break_half, "not finite"), (make_whole, "is of type int8")])
def test_numbers_that_are_none(made: Any, written: Written, damage: Callable[..., None], said: str) -> None:
    tensors = made().published()
    damage(tensors)
    with pytest.raises(CheckpointError, match=said):
        read_published(written("v01", tensors))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": 4096}, "says hidden size 4096; the heads have 64"),
        ({"vocab_size": 32000}, "says a vocabulary of 32000; the heads' output has 264 rows"),
        ({"logit_scale": 0.5}, "scales logits by 0.5"),
    ],
)
def test_what_else_a_config_may_not_say(
    made: Any, written: Written, vllm_config: Callable[..., dict[str, Any]], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(CheckpointError, match=said):
        read_published(written("vllm", made().vllm(), "model.safetensors", **vllm_config(**changes)))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.tensor([1, 1, 2, 3, 4, 5]), "names a token twice"),
        (torch.tensor([-1, 1, 2, 3, 4, 5]), "below 0"),
        (torch.rand(6), "must be a list of token ids"),
        (torch.tensor([1, 2]), "do not belong together"),
        (torch.arange(9), "output heads have 6 rows, its token_map 9"),
    ],
)
def test_token_maps_that_cannot_be(
    made: Any, written: Written, vllm_config: Callable[..., dict[str, Any]], wrong: torch.Tensor, said: str
) -> None:
    tensors = made(rows=6).vllm() | {"token_map": wrong}
    with pytest.raises(CheckpointError, match=said):
        read_published(written("vllm", tensors, "model.safetensors", **vllm_config()))


def test_a_model_without_heads_is_not_taken_for_heads(model: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no Medusa heads: none of its \d+ tensors is named as heads are"):
        read_published(model)
    save_file({}, tmp_path / "empty.safetensors")
    with pytest.raises(CheckpointError, match="there are none"):
        read_published(tmp_path / "empty.safetensors")


def test_our_own_folders_are_told_apart(tmp_path: Path, model: Path) -> None:
    assert is_published(model)
    assert not is_published(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "medusa-heads"}', encoding="utf-8")
    (tmp_path / "pairs.safetensors").touch()
    (tmp_path / "other.safetensors").touch()
    assert not is_published(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "heads.safetensors").touch()
    assert not is_published(tmp_path)
    assert not is_published(tmp_path / "heads.safetensors")
