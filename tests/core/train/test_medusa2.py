"""Medusa-2 from a model folder to a chat that answers as the changed model does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medusa_core.backbone.load import load_backbone
from medusa_core.chat import Chat
from medusa_core.config import DecodingConfig, DistillConfig, Medusa2Config, ModelConfig, TrainConfig
from medusa_core.errors import ModelUnsupported
from medusa_core.events import Finished, TrainingStep
from medusa_core.heads.adapters import load_adapters
from medusa_core.heads.checkpoint import HeadsCheckpoint
from medusa_core.opening import open_chat
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, save_tiny_model, tiny_tokenizer
from medusa_core.train.medusa2 import Base, drift, train_jointly

DATA = DistillConfig(
    tokens=900, self_written=0.0, multi_turn=0.0, max_prompt_tokens=128, max_reply_tokens=24, places=16
)
TRAIN = TrainConfig(
    num_heads=2, epochs=1, batch_positions=256, draft_vocab_size=100, held_out=0.2, tree_nodes=6,
    checkpoint_seconds=0.0, mixed_precision="no",
)  # fmt: skip
JOINT = Medusa2Config(rank=4, alpha=64, epochs=2, batch_replies=16, learning_rate=0.02, head_share=1.0, ramp="constant")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def drained(work: Any, until: Callable[[Any], bool] = lambda event: False) -> tuple[list[Any], Any]:
    events: list[Any] = []
    while True:
        try:
            events.append(next(work))
        except StopIteration as stop:
            return events, stop.value
        if until(events[-1]):
            work.close()
            return events, None


def training(model: Path, out: Path, work: Path, joint: Medusa2Config = JOINT, precision: Any = "fp32") -> Any:
    _, (backbone, _, _) = drained(load_backbone(model, "fp32", "cpu"))
    text = ChatText(tiny_tokenizer(), [END_ID, *range(5, 256, 20)])
    return train_jointly(backbone, text, Base(model, precision), out, work, DATA, TRAIN, joint)


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], HeadsCheckpoint]:
    folder = tmp_path_factory.mktemp("trained")
    events, saved = drained(training(model, folder / "out", folder / "work"))
    return folder, events, saved


def opened(model: Path, heads: object) -> Chat:
    config = ModelConfig(model=str(model), heads=str(heads), dtype="fp32", device="cpu")
    chat: Chat = drained(open_chat(config, model / "cache"))[1]
    return chat


def changed(model: Path, heads: Path) -> Any:
    """The model with the adapters, as peft itself loads them."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), heads / "adapters").eval()


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_the_chat_answers_as_the_changed_model_does(trained: Any, model: Path) -> None:
    heads = trained[0] / "out"
    chat, plain = opened(model, heads), opened(model, "none")
    assert (chat.info.adapted, chat.info.num_heads, chat.info.heads_problem) == (True, 2, "")
    assert plain.info.adapted is False
    assert chat.backbone.spec == plain.backbone.spec, "the fingerprint stays the base's"
    model_of = changed(model, heads)
    different = 0
    for question in ("Hi", "What is this?", "Tell me more."):
        messages: Any = [{"role": "user", "content": question}]
        replies = []
        for one in (chat, plain):
            finished = list(one.reply(messages, DecodingConfig(max_new_tokens=24, nodes=6)))[-1]
            assert isinstance(finished, Finished)
            replies.append(list(finished.token_ids))
        ids = torch.tensor([chat.text.prompt_ids(messages)])
        expected = model_of.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, pad_token_id=END_ID
        )[0, ids.shape[1] :].tolist()
        assert replies[0] == [token for token in expected if token != END_ID]
        different += replies[1] != replies[0]
    assert different, "the adapters change nothing, so this test shows nothing"


def test_figures_and_files(trained: Any, model: Path) -> None:
    folder, events, saved = trained
    steps = [event for event in events if isinstance(event, TrainingStep)]
    assert len([step for step in steps if step.heads]) == 1 + 2, "epochs of stage 1, then of stage 2"
    record = saved.training
    assert record["method"] == "medusa2"
    assert record["joint"]["rank"] == 4
    assert record["drift"]["kl"] > 0
    assert record["drift"]["perplexity_after"] != record["drift"]["perplexity_before"]
    assert [fit["top1"] for fit in record["held_out"]] == [round(fit.top1, 4) for fit in steps[-1].heads]
    assert sorted(path.name for path in (folder / "out" / "adapters").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    assert str(model) not in (folder / "out" / "adapters" / "adapter_config.json").read_text(encoding="utf-8")
    assert not list((folder / "work").glob("run-*")), "no checkpoint is left over"


def test_a_killed_second_stage_goes_on(trained: Any, model: Path, tmp_path: Path) -> None:
    folder, _, _ = trained
    seen = [0]

    def in_the_second_epoch(event: Any) -> bool:
        seen[0] += isinstance(event, TrainingStep) and bool(event.heads)
        return seen[0] == 2  # one of the first stage, one of the second

    drained(training(model, tmp_path / "out", tmp_path / "work"), in_the_second_epoch)
    assert not (tmp_path / "out").exists()
    events, _ = drained(training(model, tmp_path / "out", tmp_path / "work"))
    assert len([event for event in events if isinstance(event, TrainingStep) and event.heads]) == 1
    for name in ("heads.safetensors", "adapters/adapter_model.safetensors"):
        one, other = load_file(tmp_path / "out" / name), load_file(folder / "out" / name)
        assert one.keys() == other.keys()
        for key, tensor in one.items():
            torch.testing.assert_close(tensor, other[key])


def test_without_the_warm_up(model: Path, tmp_path: Path) -> None:
    joint = replace(JOINT, warm_up=False, epochs=1, ramp="sine")
    events, saved = drained(training(model, tmp_path / "out", tmp_path / "work", joint))
    assert len([event for event in events if isinstance(event, TrainingStep) and event.heads]) == 1
    assert saved.training["joint"]["warm_up"] is False


def test_a_quantized_model_is_refused_with_the_way_on(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match="Choose --dtype bf16"):
        next(training(model, tmp_path / "out", tmp_path / "work", precision="nf4"))


def copied(folder: Path, to: Path) -> Path:
    import shutil

    return Path(shutil.copytree(folder / "out", to))


def test_heads_with_adapters_of_another_model_change_nothing(trained: Any, tmp_path: Path) -> None:
    other = save_tiny_model(tmp_path / "other", "qwen2")
    info = opened(other, trained[0] / "out").info
    assert (info.adapted, info.num_heads) == (False, 0)
    assert "were trained for tiny (llama" in info.heads_problem


@pytest.mark.parametrize("damage", ["cut", "missing", "shape", "leftover", "nan", "kind", "heads"])
def test_damaged_adapters_leave_the_original(trained: Any, model: Path, tmp_path: Path, damage: str) -> None:
    heads = copied(trained[0], tmp_path / "heads")
    weights, config = heads / "adapters" / "adapter_model.safetensors", heads / "adapters" / "adapter_config.json"
    tensors = load_file(weights)
    name = min(tensors)
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "heads":
        (heads / "heads.safetensors").write_bytes(b"nothing")
    elif damage == "kind":
        config.write_text(json.dumps(json.loads(config.read_text()) | {"peft_type": "IA3"}))
    else:
        if damage == "missing":
            del tensors[name]
        elif damage == "shape":
            tensors[name] = tensors[name][:, :5].contiguous()
        elif damage == "nan":
            tensors[name][0, 0] = float("nan")
        else:
            tensors["another.weight"] = torch.ones(2)
        save_file(tensors, weights)
    chat, plain = opened(model, heads), opened(model, "none")
    assert (chat.info.adapted, chat.info.num_heads) == (False, 0)
    words = {"cut": "damaged", "missing": "missing base_model", "shape": "instead of", "leftover": "another.weight",
             "nan": "not finite", "kind": "must be 'LORA'", "heads": "damaged"}  # fmt: skip
    assert words[damage] in chat.info.heads_problem
    ids = torch.arange(12)
    states = [one.backbone.forward(ids, ids, None, one.backbone.new_cache()) for one in (chat, plain)]
    assert torch.equal(*states)


def test_adapters_are_as_saved(trained: Any) -> None:
    adapters = load_adapters(trained[0] / "out")
    assert len(adapters.tensors) == 2 * 2 * 7, "A and B, two layers, seven products each"
    assert adapters.config["base_model_name_or_path"] == "tiny"


def test_drift_by_hand(model: Path) -> None:
    _, (backbone, _, _) = drained(load_backbone(model, "fp32", "cpu"))
    before, after = torch.randn(2, 5, 64).unbind()
    tokens = torch.tensor([1, 2, 3, 4, 5])
    same = drift(backbone, [before], [before], [tokens])
    assert same["kl"] == 0
    assert same["perplexity_before"] == same["perplexity_after"]
    p, q = (backbone.logits(states).log_softmax(-1) for states in (before, after))
    found = drift(backbone, [before[:2], before[2:]], [after[:2], after[2:]], [tokens[:2], tokens[2:]])
    assert found["kl"] == pytest.approx(float((p.exp() * (p - q)).sum() / 5), rel=1e-4)
    expected = float((-q.gather(1, tokens[:, None]).mean()).exp())
    assert found["perplexity_after"] == pytest.approx(expected, rel=1e-4)
