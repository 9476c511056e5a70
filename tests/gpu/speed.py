"""How fast it is on a GPU: tokens a second by drafter, passes by rows; recorded and not. Knows nothing of limits."""

from __future__ import annotations

import importlib.util
from typing import Any

from subjects import (
    DEFAULT_SHAPE,
    SEVEN_BILLION,
    TINY,
    Check,
    fixed,
    free,
    hybrid,
    in_nf4,
    lean,
    outcome,
    pass_seconds,
    prompt,
    random_model,
    reply,
    say,
    timed,
    untrained,
    weight_bytes,
)

from medusa_core.backbone.lean import attention_by_products, fused_attention
from medusa_core.backbone.load import load_backbone
from medusa_core.drafters.medusa import MedusaDrafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.heads.checkpoint import load_heads
from medusa_core.testing import ScriptedDrafter


def tokens_per_second(check: Check) -> dict[str, Any]:
    """Plain, heads, hybrid and a script that is always right; of the default model where its folder is given."""
    facts: dict[str, Any] = {}
    stop: frozenset[int] = frozenset()
    if check.model is not None:
        backbone, text, _ = outcome(load_backbone(check.model, "bf16", "cuda"))
        tokens = list(text.prompt_ids([{"role": "user", "content": "Tell me how a sailing boat works, in detail."}]))
        checkpoint, stop = load_heads(check.heads, backbone), text.stop_ids
        systems = {"recorded": backbone, "computed": backbone._lean}
    else:
        plain = lean(random_model(TINY if check.small else DEFAULT_SHAPE, check.device, check.half))
        backbone = fixed(plain)
        checkpoint, tokens = untrained(backbone), prompt(64, 256)
        systems = {"recorded": backbone, "computed": plain}
    count = 20 if check.small else 300
    for name, system in systems.items():
        script = reply(system, NoDrafter(), tokens, count, stop)
        drafters = {
            "plain": NoDrafter,
            "heads": lambda: MedusaDrafter(checkpoint.heads, checkpoint.tree, 16),
            "hybrid": lambda: hybrid(checkpoint, backbone.spec.vocab_size),
            "always right": lambda script=script: ScriptedDrafter(script.token_ids, depth=4, decoys=2),
        }
        for drafter, make in drafters.items():
            reply(system, make(), tokens, count, stop)  # shapes are recorded when they come again
            finished, times = timed(system, make(), tokens, count, stop)
            facts[f"{drafter}, {name}"] = times | {
                "tokens_per_second": round(finished.tokens_per_second, 1),
                "tokens_per_step": round(finished.tokens_per_step, 2),
            }
            say(f"   {drafter}, {name}: {facts[f'{drafter}, {name}']}")
        facts[f"reason, {name}"] = getattr(system, "reason", "")
    return facts


def pass_times(check: Check) -> dict[str, Any]:
    """Passes of 1 to 64 rows of the default model's shape and of a 7B model's."""
    facts: dict[str, Any] = {}
    shapes = {"tiny": TINY} if check.small else {"default": DEFAULT_SHAPE, "7B": SEVEN_BILLION}
    for name, shape in shapes.items():
        facts[name] = passes_of(check, random_model(shape, check.device, check.half), name)
        free(check)
    return facts


def pass_times_in_nf4(check: Check) -> dict[str, Any]:
    """The same in 4 bits, where bitsandbytes is installed."""
    if check.small or importlib.util.find_spec("bitsandbytes") is None:
        return {"skipped": "bitsandbytes is not installed, or this is a dry run"}
    return passes_of(check, in_nf4(random_model(SEVEN_BILLION, check.device, check.half)), "7B nf4")


def passes_of(check: Check, model: Any, name: str) -> dict[str, Any]:
    """Milliseconds by rows, and the share of the memory's speed that reading the weights once would need."""
    plain = lean(model)
    size = weight_bytes(plain)
    bandwidth = check.found.get("machine", {}).get("copy_gb_per_second", 0) * 1e9
    facts: dict[str, Any] = {"weights_gb": round(size / 1e9, 3)}
    rows, contexts = ((1, 4), (64,)) if check.small else ((1, 2, 4, 8, 16, 32, 64), (400, 1900))
    for context in contexts:
        for attend in (fused_attention, attention_by_products):
            plain._attend = attend
            for kind, backbone in {"computed": plain, "recorded": fixed(plain)}.items():
                times = {n: pass_seconds(backbone, n, context, 3 if check.small else 15) for n in rows}
                entry: dict[str, Any] = {str(n): round(1e3 * seconds, 3) for n, seconds in times.items()}
                if bandwidth:
                    entry["share_of_bandwidth_1_row"] = round(size / times[1] / bandwidth, 3)
                entry["reason"] = getattr(backbone, "reason", "")
                label = f"{context} cached, {attend.__name__}, {kind}"
                facts[label] = entry
                say(f"   {name}, {label}: {entry}")
    return facts
