"""Any transformers model through its own forward: masks, cache rows, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from medusa_core.backbone.load import make_backbone, make_spec
from medusa_core.backbone.stock import StockBackbone, unsupported_reason
from medusa_core.errors import ModelUnsupported
from medusa_core.tiny import tiny_model, tiny_tokenizer
from medusa_core.tree import Tree

TREE = Tree((0, 0, 0, 1, 2))


def other_family(family: str, **options: Any) -> Any:
    """A tiny random model that the lean pass does not know."""
    config = AutoConfig.for_model(
        family,
        vocab_size=264,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        **options,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 0.2)
    return model.eval().requires_grad_(False)


def stock(model: Any) -> StockBackbone:
    backbone = make_backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
    assert isinstance(backbone, StockBackbone)
    return backbone


@torch.inference_mode()
def read(backbone: StockBackbone, tokens: list[int], cache: Any, tree: Tree | None = None) -> torch.Tensor:
    depths = list(range(len(tokens))) if tree is None else list(tree.depths)
    mask = None if tree is None else torch.tensor(tree.mask)
    return backbone.logits(backbone.forward(torch.tensor(tokens), cache.length + torch.tensor(depths), mask, cache))


@pytest.mark.parametrize("family", ["phi3", "gemma", "olmo2"])
def test_a_tree_scores_every_path_as_if_read_alone(family: str) -> None:
    backbone, prompt, nodes = stock(other_family(family)), [5, 6, 7, 8], [11, 12, 13, 14, 15]
    cache = backbone.new_cache()
    read(backbone, prompt, cache)
    scores = read(backbone, nodes, cache, TREE)
    for node in range(len(TREE)):
        alone = read(backbone, [*prompt, *(nodes[n] for n in TREE.path(node))], backbone.new_cache())
        torch.testing.assert_close(scores[node], alone[-1], rtol=0, atol=1e-4)


def test_keep_and_crop_leave_the_rows_they_name() -> None:
    backbone, prompt, nodes = stock(other_family("phi3")), [5, 6, 7, 8], [11, 12, 13, 14, 15]
    cache, plain = backbone.new_cache(), backbone.new_cache()
    read(backbone, prompt, cache)
    read(backbone, nodes, cache, TREE)
    cache.keep(4, [0, 2, 4])
    assert cache.length == 7
    cache.crop(9)
    assert cache.length == 7
    cache.crop(6)
    read(backbone, [*prompt, 11, 13], plain)
    torch.testing.assert_close(read(backbone, [99], cache), read(backbone, [99], plain), rtol=0, atol=1e-4)
    cache.crop(0)
    assert cache.length == 0
    torch.testing.assert_close(read(backbone, prompt, cache), read(backbone, prompt, backbone.new_cache()))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("granite", {"logits_scaling": 8.0}),
        ("cohere", {"logit_scale": 0.0625}),
        ("gemma2", {"final_logit_softcapping": 5.0, "head_dim": 16}),
    ],
)
def test_what_families_do_after_the_output_head_is_done_too(family: str, options: dict[str, float]) -> None:
    model = other_family(family, **options)
    backbone, prompt = stock(model), [5, 6, 7, 8]
    with torch.inference_mode():
        alone = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0]
        plain = model.get_output_embeddings()(
            model.get_decoder()(input_ids=torch.tensor([prompt]), use_cache=False).last_hidden_state[0]
        )
    torch.testing.assert_close(read(backbone, prompt, backbone.new_cache()), alone, rtol=0, atol=1e-4)
    assert (alone - plain).abs().max() > 0.1, "it makes a difference"


def test_logits_changed_in_another_way_are_refused() -> None:
    model = other_family("phi3")
    whole = model.forward

    def changed(**given: Any) -> Any:
        output = whole(**given)
        output.logits = output.logits + 1
        return output

    model.forward = changed
    with pytest.raises(ModelUnsupported, match="changes its logits after the output head"):
        stock(model)


def test_another_cache_is_refused() -> None:
    backbone = stock(other_family("phi3"))
    with pytest.raises(TypeError, match="needs transformers' cache"):
        backbone.forward(torch.tensor([1]), torch.tensor([0]), None, SimpleNamespace(length=0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "attention", "reason"),
    [
        ({"layer_types": ["full_attention", "linear_attention"]}, "sdpa", "linear_attention cannot forget"),
        ({"layer_types": ["full_attention"], "is_encoder_decoder": True}, "sdpa", "encoder-decoder"),
        ({"layer_types": ["full_attention"]}, "flash_attention_2", "takes no tree mask"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "eager", ""),
    ],
)
def test_what_cannot_verify_trees_is_said(options: dict[str, Any], attention: str, reason: str) -> None:
    config = SimpleNamespace(**options, _attn_implementation=attention)
    config.get_text_config = lambda decoder: config
    said = unsupported_reason(SimpleNamespace(config=config))
    assert (reason in said) if reason else said == ""


def test_a_refused_model_raises() -> None:
    model = tiny_model("llama")
    model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(ModelUnsupported, match="tiny cannot verify candidate trees"):
        StockBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))


@pytest.mark.parametrize("kinds", [["sliding_attention"] * 2, ["sliding_attention", "full_attention"]])
def test_trees_past_a_sliding_window(kinds: list[str]) -> None:
    """Rows out of a layer's window stay in the cache, unseen; what the model says is what it says without a cache."""
    model = other_family("gemma3_text", head_dim=16, sliding_window=6, layer_types=kinds)
    backbone, prompt, nodes = stock(model), list(range(5, 25)), [31, 32, 33, 34, 35]
    assert backbone.spec.context_size == 128
    cache = backbone.new_cache()
    read(backbone, prompt[:15], cache)
    read(backbone, prompt[15:], cache)
    scores = read(backbone, nodes, cache, TREE)
    for node in range(len(TREE)):
        tokens = [*prompt, *(nodes[n] for n in TREE.path(node))]
        with torch.inference_mode():
            alone = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
        torch.testing.assert_close(scores[node], alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "opt"])
def test_families_with_layouts_of_their_own(family: str) -> None:
    sizes = {
        "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128},
        "gpt_neox": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96},
        "opt": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 96},
    }[family]
    if family == "opt":
        sizes["word_embed_proj_dim"] = 64
    config = AutoConfig.for_model(family, vocab_size=264, pad_token_id=0, bos_token_id=None, eos_token_id=None, **sizes)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)
    backbone, prompt, nodes = stock(model), [5, 6, 7, 8], [11, 12, 13, 14, 15]
    cache = backbone.new_cache()
    read(backbone, prompt, cache)
    scores = read(backbone, nodes, cache, TREE)
    for node in range(len(TREE)):
        alone = read(backbone, [*prompt, *(nodes[n] for n in TREE.path(node))], backbone.new_cache())
        torch.testing.assert_close(scores[node], alone[-1], rtol=0, atol=1e-4)
