"""Models loaded from a folder as the app loads them: in NF4, in bitsandbytes' int8, and over several GPUs.

Knows nothing of speed.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch
from subjects import Check, filled, free, lean, outcome, prompt, reply, tree_logits

from medusa_core.backbone import load
from medusa_core.backbone.load import load_backbone
from medusa_core.drafters.none import NoDrafter
from medusa_core.testing import ScriptedDrafter
from medusa_core.tiny import save_tiny_model


def quantized_models(check: Check) -> dict[str, Any]:
    """NF4 and int8 of bitsandbytes: the output head is not quantized, the numbers are those of the weights, and the
    reply is the same however it is guessed."""
    if importlib.util.find_spec("bitsandbytes") is None:
        return {"skipped": "bitsandbytes is not installed"}
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = save_tiny_model(Path(place) / "tiny", seed=3)
        wanted = {"nf4": _logits(_unpacked(folder, check)), "int8": _logits(_loaded(folder, "fp32", check))}
        # On the CPU of a dry run int8 is this program's own.
        for dtype in ("nf4",) if check.small else ("nf4", "int8"):
            backbone = _loaded(folder, dtype, check)
            likeness = float(torch.cosine_similarity(_logits(backbone), wanted[dtype]).min())
            facts[dtype] = round(likeness, 4)
            assert likeness > 0.95, f"{dtype}: a likeness of {likeness:.3f} to what its weights should compute"
            assert backbone.output_weight.is_floating_point(), f"{dtype}: the output head is quantized"
            tokens = prompt(20, 256)
            expected = reply(backbone, NoDrafter(), tokens, 40).token_ids
            guessed = reply(backbone, ScriptedDrafter(expected, depth=4), tokens, 40)
            assert guessed.token_ids == expected, f"{dtype}: another reply than plain decoding's"
            facts[f"{dtype}, tokens a step of perfect guesses"] = round(guessed.tokens_per_step, 2)
            del backbone
            free(check)
    return facts


def spread_over_gpus(check: Check) -> dict[str, Any]:
    """A model whose layers lie on all GPUs: what the whole one computes."""
    gpus = torch.cuda.device_count()
    if check.small or gpus < 2 or importlib.util.find_spec("accelerate") is None:
        return {"skipped": f"{gpus} GPUs, or accelerate is not installed"}
    places = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0}
    places |= {"model.layers.1": 1, "model.norm": 1, "lm_head": 1}
    placed = load._placed
    with tempfile.TemporaryDirectory() as place:
        folder = save_tiny_model(Path(place) / "tiny", seed=3)
        whole = _logits(_loaded(folder, "fp32", check))
        load._placed = lambda *_: {"device_map": places}
        try:
            backbone = _loaded(folder, "fp32", check)
        finally:
            load._placed = placed
    assert backbone.spec.gpus == 2
    difference = float((_logits(backbone) - whole).abs().max())
    assert difference < 2e-3, f"{difference} from the whole model"
    return {"difference": difference}


def _unpacked(folder: Path, check: Check) -> Any:
    """The model with the weights that NF4 makes of its own, in 32 bit."""
    from bitsandbytes.functional import dequantize_4bit
    from bitsandbytes.nn import Linear4bit
    from transformers import AutoModelForCausalLM

    packed = load.load_model(folder, "nf4", check.device)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(check.device)
    for name, module in packed.named_modules():
        if isinstance(module, Linear4bit):
            weight = dequantize_4bit(module.weight.data, module.weight.quant_state)
            plain.get_submodule(name).weight.data = weight.float()
    return lean(plain.eval().requires_grad_(False), keep_model=True)


def _loaded(folder: Path, dtype: Any, check: Check) -> Any:
    return outcome(load_backbone(folder, dtype, "cpu" if check.small else "cuda"))[0]


@torch.inference_mode()
def _logits(backbone: Any) -> torch.Tensor:
    return tree_logits(backbone, 8, filled(backbone, 40)).float().cpu()
