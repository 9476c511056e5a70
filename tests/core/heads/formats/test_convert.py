"""From format to format: exact where the other can hold it, refused by name where not, nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.errors import CheckpointError, CheckpointMismatch, ConfigError
from medusa_core.head_statistics import HeadStatistics, PathStatistics
from medusa_core.heads.adapters import Adapters
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, load_heads, save_heads
from medusa_core.heads.formats import convert as room
from medusa_core.heads.formats.convert import convert
from medusa_core.heads.formats.load import open_heads
from medusa_core.heads.formats.model import ModelFolder, open_model
from medusa_core.heads.kinds import build_heads
from medusa_core.heads.medusa import HeadsShape
from medusa_core.heads.pairs import count_pairs
from medusa_core.tiny import save_tiny_model
from medusa_core.tree import RankedTree, Tree

Written = Callable[..., Path]
TREE = RankedTree(Tree((0, 0, 1)), (0, 0, 0))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    (path,) = (path for path in folder.glob("*.safetensors") if path.name != "pairs.safetensors")
    return load_file(path)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Bit for bit, in the same precision."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype and torch.equal(first[name], second[name]) for name in first
    )


def own(
    folder: Path, backbone: LeanBackbone, *, layers: int = 1, shared: bool = True,
    token_map: torch.Tensor | None = None, kind: str = "medusa", **more: Any,
) -> Path:  # fmt: skip
    """Random heads in our own format."""
    spec = backbone.spec
    draft = spec.vocab_size if token_map is None else len(token_map)
    shape = HeadsShape(
        num_heads=2, num_layers=layers, hidden_size=spec.hidden_size, vocab_size=spec.vocab_size,
        draft_vocab_size=draft, shared_output=shared,
    )  # fmt: skip
    torch.manual_seed(1)
    heads = build_heads(kind, shape, backbone.output_weight, backbone.embedding_weight, token_map)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_()
    part = PathStatistics(10, (10, 9), ((5, 1), (3, 1)), (((0,), 5),))
    statistics = HeadStatistics(part, part, (1.0, 1.5), "fp32")
    base = BaseModel(spec.name, spec.family, spec.fingerprint)
    save_heads(folder, HeadsCheckpoint(heads, TREE, base, {"epochs": 3}, statistics=statistics, **more))
    return folder


@pytest.fixture
def base(model: Path) -> ModelFolder:
    return open_model(model, "tiny-llama")


def test_the_model_is_known_without_its_weights(base: ModelFolder, backbone: LeanBackbone) -> None:
    assert base.spec == backbone.spec
    assert torch.equal(base.output_weight(), backbone.output_weight)


@pytest.mark.parametrize("pickled", [False, True])
def test_the_output_head_of_a_tied_and_of_a_pickled_model(tmp_path: Path, pickled: bool) -> None:
    folder = save_tiny_model(tmp_path / "tied", tied=True)
    stored = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in stored
    if pickled:
        torch.save(stored, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    assert torch.equal(open_model(folder, "tied").output_weight(), stored["model.embed_tokens.weight"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_tgi_there_and_back(made: Any, written: Written, base: ModelFolder, tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = made(dtype=dtype).published(own=False)
    source = written("v2", tensors, base_model_name_or_path="org/name")
    convert(source, tmp_path / "ours", "ours", base)
    done = convert(tmp_path / "ours", tmp_path / "back", "tgi", None)
    assert same(weights(tmp_path / "back"), tensors)
    assert done.source.startswith("Medusa Chat: 3 heads of 1 block, hidden size 64, the model's output head")
    assert done.target.startswith("TGI/LoRAX v2: 3 heads of 1 block")
    config = json.loads((tmp_path / "back" / "config.json").read_text(encoding="utf-8"))
    assert (config["medusa_num_heads"], config["medusa_num_layers"], config["version"]) == (3, 1, "2")
    assert config["base_model"]["fingerprint"] == base.spec.fingerprint


@pytest.mark.parametrize("to_whom", ["tgi", "vllm"])
def test_published_to_published(made: Any, written: Written, base: ModelFolder, tmp_path: Path, to_whom: str) -> None:
    tensors = made().published(own=False)
    source = written("v2", tensors, base_model_name_or_path="org/name")
    done = convert(source, tmp_path / "there", to_whom, base)
    assert done.base == "org/name"
    convert(tmp_path / "there", tmp_path / "ours", "ours", base)
    convert(tmp_path / "ours", tmp_path / "back", "tgi", base)
    assert same(weights(tmp_path / "back"), tensors)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(("layers", "shared"), [(0, False), (1, False), (2, False), (1, True), (2, True)])
def test_ours_to_vllm_and_back(
    backbone: LeanBackbone, base: ModelFolder, tmp_path: Path, token_map: torch.Tensor,
    layers: int, mapped: bool, shared: bool,
) -> None:  # fmt: skip
    source = own(tmp_path / "own", backbone, layers=layers, shared=shared, token_map=token_map if mapped else None)
    convert(source, tmp_path / "vllm", "vllm", base)
    config = json.loads((tmp_path / "vllm" / "config.json").read_text(encoding="utf-8"))
    assert config["medusa_fc_bias"] is True
    assert config["original_lm_head"] is shared
    assert (config["num_heads"], config["num_hidden_layers"], config["vocab_size"]) == (2, layers, 264)
    assert config["truncated_vocab_size"] == (6 if mapped else None)
    stored = weights(tmp_path / "vllm")
    assert ("token_map" in stored) is mapped
    assert sum(name.startswith("lm_heads.") for name in stored) == (1 if shared else 2)
    assert sum(name.endswith(".bias") for name in stored) == 2 * layers
    convert(tmp_path / "vllm", tmp_path / "back", "ours", base)
    assert same(weights(tmp_path / "back"), weights(source))
    first, second = load_heads(source, backbone), load_heads(tmp_path / "back", backbone)
    assert (first.tree, first.statistics, first.base) == (second.tree, second.statistics, second.base)
    # And used as it is, without the way back.
    states = torch.randn(4, 64)
    exported = open_heads(tmp_path / "vllm", backbone)
    assert torch.equal(exported.heads(states), first.heads(states))
    assert (exported.tree, exported.statistics) == (first.tree, first.statistics)
    assert exported.heads.shape == first.heads.shape


def test_our_own_exports_say_whose_they_are(backbone: LeanBackbone, base: ModelFolder, tmp_path: Path) -> None:
    source = own(tmp_path / "own", backbone, shared=False)
    convert(source, tmp_path / "vllm", "vllm", None)
    convert(tmp_path / "vllm", tmp_path / "back", "ours", None)
    assert same(weights(tmp_path / "back"), weights(source))
    other = replace(base, spec=replace(base.spec, fingerprint="f" * 16))
    with pytest.raises(CheckpointMismatch, match="fingerprint"):
        convert(tmp_path / "vllm", tmp_path / "other", "ours", other)
    with pytest.raises(CheckpointMismatch, match="fingerprint"):
        convert(source, tmp_path / "other", "vllm", other)


def test_the_model_must_be_named_where_files_do_not_tell(
    made: Any, written: Written, backbone: LeanBackbone, base: ModelFolder, tmp_path: Path
) -> None:
    source = written("v2", made().published(own=False))
    with pytest.raises(ConfigError, match=r"which model the heads belong to. Name its folder \(--model DIR\)"):
        convert(source, tmp_path / "ours", "ours", None)
    with pytest.raises(CheckpointError, match=r"vLLM wants a copy of it. Name the model's folder \(--model DIR\)"):
        convert(source, tmp_path / "vllm", "vllm", None)
    convert(own(tmp_path / "own", backbone), tmp_path / "vllm", "vllm", base)
    with pytest.raises(ConfigError, match="one output head for all heads, which may be the model's own"):
        convert(tmp_path / "vllm", tmp_path / "ours", "ours", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "v2", "vllm"]


def pairs(backbone: LeanBackbone) -> Any:
    return count_pairs([torch.arange(9)], backbone.spec.vocab_size, None, 2)


def test_what_the_other_format_cannot_hold_is_refused_by_name(
    backbone: LeanBackbone, base: ModelFolder, tmp_path: Path, token_map: torch.Tensor
) -> None:
    rooted = own(tmp_path / "rooted", backbone, kind="rooted", pairs=pairs(backbone))
    for to in ("tgi", "vllm"):
        with pytest.raises(CheckpointError, match=r"cannot hold what .*: heads of kind rooted.*; pairs\.safetensors"):
            convert(rooted, tmp_path / "no", to, base)
    thick = own(tmp_path / "thick", backbone, layers=2, shared=False, token_map=token_map)
    with pytest.raises(
        CheckpointError, match=r"TGI/LoRAX v2 cannot hold .*2 blocks a head.*; output heads of their own"
    ):
        convert(thick, tmp_path / "no", "tgi", base)
    few = own(tmp_path / "few", backbone, token_map=token_map)
    with pytest.raises(CheckpointError, match="a draft vocabulary of 6 tokens"):
        convert(few, tmp_path / "no", "tgi", base)
    adapted = own(tmp_path / "adapted", backbone, adapters=Adapters({"peft_type": "LORA"}, {"a": torch.zeros(1)}))
    with pytest.raises(CheckpointError, match=r"adapters/, which change the model"):
        convert(adapted, tmp_path / "no", "vllm", base)
    empty = own(tmp_path / "empty", backbone, layers=0)
    with pytest.raises(CheckpointError, match="without blocks and without output heads, which hold nothing"):
        convert(empty, tmp_path / "no", "vllm", base)
    assert not (tmp_path / "no").exists()


def test_what_may_be_dropped(
    backbone: LeanBackbone, base: ModelFolder, tmp_path: Path, token_map: torch.Tensor
) -> None:
    paired = own(tmp_path / "paired", backbone, pairs=pairs(backbone))
    assert convert(paired, tmp_path / "tgi", "tgi", base, ["pairs"]).dropped == ("pairs",)
    assert (tmp_path / "tgi" / "statistics.json").exists()
    few = own(tmp_path / "few", backbone, token_map=token_map)
    done = convert(few, tmp_path / "wide", "tgi", base, ["pairs", "vocabulary"])
    assert (done.dropped, done.measured) == (("vocabulary",), False)
    assert not (tmp_path / "wide" / "statistics.json").exists(), "it was measured with the draft vocabulary"
    assert convert(few, tmp_path / "vllm", "vllm", base, ["vocabulary"]).dropped == (), "vLLM has a token_map"


def test_tgi_gets_the_tokenizer(backbone: LeanBackbone, base: ModelFolder, tmp_path: Path) -> None:
    convert(own(tmp_path / "own", backbone), tmp_path / "tgi", "tgi", base)
    names = {path.name for path in (tmp_path / "tgi").iterdir()}
    assert {"tokenizer.json", "tokenizer_config.json"} <= names


def test_nothing_half_written(
    backbone: LeanBackbone, base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(folder: Path, *_: object) -> None:
        (folder / "model.safetensors").touch()
        raise OSError(28, "No space left on device")

    source = own(tmp_path / "own", backbone, shared=False)
    monkeypatch.setattr(room, "write_vllm", failing)
    with pytest.raises(OSError, match="is full; free some space"):
        convert(source, tmp_path / "vllm", "vllm", base)
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_what_is_there_stays(backbone: LeanBackbone, base: ModelFolder, tmp_path: Path) -> None:
    source = own(tmp_path / "own", backbone)
    with pytest.raises(ConfigError, match="is there already and is not overwritten"):
        convert(source, source, "tgi", base)
    with pytest.raises(ConfigError, match="of this program's own format already"):
        convert(source, tmp_path / "again", "ours", base)
    with pytest.raises(ConfigError, match="must be one of ours, tgi, vllm"):
        convert(source, tmp_path / "again", "hydra", base)
    (tmp_path / "empty").mkdir()
    convert(source, tmp_path / "empty", "tgi", base)


def test_heads_of_several_precisions(made: Any, written: Written, base: ModelFolder, tmp_path: Path) -> None:
    tensors = made(dtype=torch.bfloat16).published()
    tensors["0.1.weight"] = tensors["0.1.weight"].float()
    convert(written("v01", tensors), tmp_path / "ours", "ours", base)
    stored = weights(tmp_path / "ours")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
    assert torch.equal(stored["w2"][1], tensors["1.1.weight"].float())
