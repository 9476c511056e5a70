"""Models that cannot forget rejected tokens: they answer a token a step, say why, and re-read what was cut back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from medusa_core.backbone.load import make_backbone, make_spec
from medusa_core.backbone.recurrent import RecurrentBackbone
from medusa_core.errors import ModelUnsupported
from medusa_core.tiny import tiny_tokenizer

HYBRID = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 8},
    "mamba2": {"state_size": 8, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 16},
    "qwen3_5_text": HYBRID,
    "bloom": {"n_head": 4},
}


def tiny(family: str, **options: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, vocab_size=264, hidden_size=64, num_hidden_layers=2, pad_token_id=0, **options
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)


def backbone(family: str) -> RecurrentBackbone:
    model = tiny(family, **FAMILIES[family])
    made = make_backbone(model, make_spec(model, tiny_tokenizer(), f"tiny {family}"))
    assert isinstance(made, RecurrentBackbone)
    return made


@torch.inference_mode()
def read(made: RecurrentBackbone, tokens: list[int], cache: Any) -> torch.Tensor:
    positions = cache.length + torch.arange(len(tokens))
    return made.logits(made.forward(torch.tensor(tokens), positions, None, cache))


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("mamba", "linear_attention cannot forget rejected tokens"),
        ("mamba2", "linear_attention cannot forget rejected tokens"),
        ("qwen3_5_text", "linear_attention cannot forget rejected tokens"),
        ("bloom", "takes no positions"),
    ],
)
def test_in_parts_as_in_one(family: str, reason: str) -> None:
    made = backbone(family)
    assert reason in made.spec.no_trees
    tokens = [5, 6, 7, 8, 9, 10, 11]
    with torch.inference_mode():
        whole = made._model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    cache = made.new_cache()
    parts = torch.cat([read(made, tokens[:3], cache), read(made, tokens[3:6], cache), read(made, tokens[6:], cache)])
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-4)
    assert cache.length == 7


def test_in_16_bit_too() -> None:
    """Mamba keeps its states in 32 bit."""
    model = tiny("mamba", **FAMILIES["mamba"]).to(torch.bfloat16)
    made = make_backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    assert isinstance(made, RecurrentBackbone)
    assert read(made, [5, 6, 7], made.new_cache()).dtype == torch.bfloat16


def test_steps_where_chunks_do_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    made = backbone("mamba")
    made._reads_chunks = False
    lengths = []
    inner = made._read
    monkeypatch.setattr(made, "_read", lambda *arguments: (lengths.append(len(arguments[0])), inner(*arguments))[1])
    cache = made.new_cache()
    read(made, [1, 2, 3], cache)
    read(made, [4, 5], cache)
    assert lengths == [3, 1, 1]


def test_the_cache_only_grows_or_starts_anew() -> None:
    made = backbone("mamba")
    cache = made.new_cache()
    first = read(made, [5, 6, 7], cache)
    cache.keep(2, [0])
    cache.crop(3)
    assert cache.length == 3
    with pytest.raises(TypeError, match="asked to drop rows"):
        cache.keep(1, [1])
    cache.crop(2)
    assert cache.length == 0
    torch.testing.assert_close(read(made, [5, 6, 7], cache), first)


def test_a_tree_is_refused() -> None:
    made = backbone("mamba")
    mask = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
    with pytest.raises(TypeError, match="was given a tree"):
        made.forward(torch.tensor([1, 2, 3]), torch.tensor([0, 1, 1]), mask, made.new_cache())
    with pytest.raises(TypeError, match="needs its own cache"):
        made.forward(torch.tensor([1]), torch.tensor([0]), None, object())  # type: ignore[arg-type]


def test_families_with_a_state_of_their_own_are_refused() -> None:
    model = tiny("rwkv", attention_hidden_size=64, context_length=64)
    with pytest.raises(ModelUnsupported, match="in a form of its own"):
        make_backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
