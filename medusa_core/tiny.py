"""Tiny random models with a byte tokenizer, as transformers makes and saves them: for tests and for trying commands.

Knows nothing of decoding.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medusa_core.backbone.base import Backbone
    from medusa_core.tree import RankedTree

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
END_ID = 256


def tiny_tokenizer() -> Any:
    """A byte-level tokenizer without merges: ids 0 to 255 are bytes, 256 ends a turn, 257 to 259 open one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(sorted(alphabet))}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=_SPECIAL[0], additional_special_tokens=list(_SPECIAL[1:])
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def tiny_model(
    family: str = "llama", *, tied: bool = False, seed: int = 0, context: int = 256, scale: float = 0.3
) -> Any:
    """A random fp32 model of a Llama-like family: 2 layers, hidden size 64, 4 query and 2 key/value heads.

    `scale` spreads the weights, so that the model's choices differ from place to place.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    options: dict[str, Any] = {}
    if family in ("qwen3", "mistral", "llama"):
        options["head_dim"] = 24 if family == "qwen3" else 16
    if family == "mistral":
        options["sliding_window"] = None
    if family == "smollm3":
        options |= {"no_rope_layers": [1, 0], "pad_token_id": END_ID}
    config = AutoConfig.for_model(
        family,
        vocab_size=264,  # four rows more than the tokenizer has tokens, as in many published models
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=END_ID,
        **options,
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, scale)
            elif name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
    model.generation_config.eos_token_id = END_ID
    return model.eval().requires_grad_(False)


def save_tiny_model(folder: Path, family: str = "llama", *, tied: bool = False, seed: int = 0) -> Path:
    """A model folder that every command of the program takes."""
    tiny_model(family, tied=tied, seed=seed).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def save_untrained_heads(folder: Path, backbone: Backbone, tree: RankedTree) -> Path:
    """Two heads for the backbone that repeat its own next token, and a tree for them: a folder that `--heads` takes."""
    from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint, save_heads
    from medusa_core.heads.medusa import HeadsShape, MedusaHeads

    spec = backbone.spec
    shape = HeadsShape(
        num_heads=2,
        num_layers=1,
        hidden_size=spec.hidden_size,
        vocab_size=spec.vocab_size,
        draft_vocab_size=spec.vocab_size,
        shared_output=True,
    )
    base = BaseModel(spec.name, spec.family, spec.fingerprint)
    save_heads(folder, HeadsCheckpoint(MedusaHeads(shape, backbone.output_weight), tree, base))
    return folder
