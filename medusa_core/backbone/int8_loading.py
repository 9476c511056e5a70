"""From a loaded model to the int8 pass on the CPU: whether it can run here, its calibration, its compilation.

The only way to the int8 pass that does not need numba to be there. Knows nothing of devices or other precisions.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone import calibration
from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.backbone.picking import best
from medusa_core.events import Progress

QUESTIONS = (
    "Why is the sky blue?",
    "Write a poem about autumn.",
    "How do I reverse a list in Python?",
    "Tell me about the history of Rome.",
    "What should I eat for breakfast?",
    "Translate 'good morning' to French and explain.",
)


@cache
def machine_problem() -> str:
    """Why no model can run in int8 on this machine's CPU; "" where models can."""
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    try:
        import medusa_core.backbone.compiling  # noqa: F401
    except (ImportError, OSError) as error:
        return f"numba does not work here ({error})"
    return ""


def config_problem(folder: Path) -> str:
    """Why the model in a folder cannot run in int8, as far as its configuration tells; "" where it may."""
    from transformers import AutoConfig

    from medusa_core.backbone.int8 import config_reason

    try:
        return config_reason(AutoConfig.from_pretrained(folder, local_files_only=True))
    except (OSError, ValueError, KeyError, AttributeError):
        return ""  # loading it says what is wrong


def model_problem(model: Any) -> str:
    """Why this model cannot run in int8; "" where it can."""
    from medusa_core.backbone.int8 import unsupported_reason

    return unsupported_reason(model)


def int8_backbone(
    model: Any, spec: BackboneSpec, prompts: Sequence[Sequence[int]], folder: Path
) -> Generator[Progress, None, Backbone]:
    """The model in int8: measured while it answers `prompts`, if it never was, quantized and compiled.

    The model's own weights are let go of.
    """
    from medusa_core.backbone.int8 import Int8Backbone

    sizes = calibration.load(folder, spec.fingerprint)
    if sizes is None:
        yield Progress("Preparing int8: the model writes a few lines (only once)", 0, 2)
        sizes = calibration.measure(model, prompts)
        calibration.save(folder, spec.fingerprint, sizes)
    backbone = Int8Backbone(model, spec, sizes)
    yield Progress("Preparing int8: compiling (quick from the second time on)", 1, 2)
    _compile(backbone)
    return backbone


@torch.inference_mode()
def _compile(backbone: Backbone) -> None:
    """Run every kernel of a step once: numba compiles each when it is first called."""
    cache, ids = backbone.new_cache(), torch.zeros(3, dtype=torch.long)
    backbone.forward(ids, torch.arange(3), None, cache)
    tree = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
    best(backbone.logits(backbone.forward(ids, 3 + torch.tensor([0, 1, 1]), tree, cache)), 2)
