"""What must hold on a GPU: the same numbers and replies as without recording, memory given back, heads that learn.

Knows nothing of speed.
"""

from __future__ import annotations

import gc
import importlib.metadata
import warnings
from pathlib import Path
from typing import Any

import torch
from subjects import (
    DEFAULT_SHAPE,
    MIB,
    TINY,
    Check,
    filled,
    fixed,
    hybrid,
    lean,
    prompt,
    random_model,
    reply,
    say,
    small_model,
    stopwatch,
    tree_logits,
    untrained,
)

from medusa_core.backbone.lean import FAMILIES, attention_by_products
from medusa_core.config import TrainConfig
from medusa_core.drafters.medusa import MedusaDrafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.testing import ScriptedDrafter
from medusa_core.train.corpus import Corpus
from medusa_core.train.medusa1 import HeadsObjective, new_heads


def machine(check: Check) -> dict[str, Any]:
    """Versions, the GPU, and how fast its memory is copied."""
    facts: dict[str, Any] = {}
    for package in ("torch", "transformers", "safetensors", "tokenizers", "numba", "accelerate", "bitsandbytes"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "none"
    if check.device.type == "cuda":
        properties = torch.cuda.get_device_properties(check.device)
        facts |= {"gpu": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)}
        facts["capability"] = f"{properties.major}.{properties.minor}"
    source = torch.ones((MIB if check.small else 2048 * MIB) // 4, device=check.device)
    target = torch.empty_like(source)
    seconds = stopwatch(lambda: target.copy_(source), check.device, 7)
    facts["copy_gb_per_second"] = round(2 * source.numel() * 4 / seconds / 1e9, 1)
    return facts


@torch.inference_mode()
def recorded_equals_computed(check: Check) -> dict[str, Any]:
    """Trees of 1 to 64 rows, recorded, against the same shapes computed and against the lean pass."""
    kinds = [("llama", torch.float32, 2e-3), ("qwen2", torch.float32, 2e-3), ("qwen3", torch.float32, 2e-3)]
    if not check.small:
        kinds += [("llama", torch.bfloat16, 0.6), ("llama", torch.float16, 0.1)]
    facts: dict[str, Any] = {}
    for family, dtype, tolerance in kinds[: 1 if check.small else None]:
        plain = lean(small_model(family, check.device, dtype), keep_model=True)
        computed, recorded = fixed(plain, recorded=False, smallest_bucket=64), fixed(plain, smallest_bucket=64)
        caches = [filled(backbone, 30) for backbone in (plain, computed, recorded)]
        worst = spread = 0.0
        for rows in (1, 5, 17, 64) if check.small else range(1, 65):
            start = caches[0].length
            for _ in range(3):  # computed, recorded, replayed
                for cache in caches:
                    cache.crop(start)
                a, b, c = (
                    tree_logits(backbone, rows, cache).float()
                    for backbone, cache in zip((plain, computed, recorded), caches, strict=True)
                )
                spread, worst = max(spread, float(b.sub(c).abs().max())), max(worst, float(a.sub(c).abs().max()))
                assert bool(c.isfinite().all()), f"{family}, {rows} rows: not finite"
            for cache in caches:
                cache.keep(start, [0, rows - 1] if rows > 1 else [0])
        name = f"{family}, {dtype}"
        recordings = len(caches[2].storage.recordings)
        facts[name] = {"recorded_computed": spread, "recorded_lean": worst, "recordings": recordings}
        facts[name]["reason"] = recorded.reason
        say(f"   {name}: {facts[name]}")
        assert worst <= tolerance, f"{name}: logits differ by {worst}, more than {tolerance}"
        if check.device.type == "cuda":
            assert not recorded.reason, recorded.reason
            assert recordings > 0, "nothing was recorded"
    return facts


def equals_transformers(check: Check) -> dict[str, Any]:
    """fp32 logits of every family against transformers' own."""
    facts = {}
    for family in FAMILIES[: 1 if check.small else None]:
        model = small_model(family, check.device, torch.float32)
        tokens = torch.tensor(prompt(40, 256), device=check.device)
        with torch.inference_mode():
            expected = model(input_ids=tokens[None]).logits[0]
            for attend in (None, attention_by_products):
                plain = lean(model, keep_model=True) if attend is None else lean(model, attend, keep_model=True)
                backbone = fixed(plain)
                for _ in range(3):
                    positions = torch.arange(len(tokens), device=check.device)
                    logits = backbone.logits(backbone.forward(tokens, positions, None, backbone.new_cache()))
                name = family if attend is None else f"{family}, attention by products"
                facts[name] = float(logits.sub(expected).abs().max())
                assert facts[name] < 2e-3, f"{name}: {facts[name]}"
    return facts


def replies_are_the_same(check: Check) -> dict[str, Any]:
    """fp32: plain decoding of the lean pass, and everything that guesses ahead over recorded passes."""
    plain = lean(small_model("llama", check.device, torch.float32), keep_model=True)
    backbone, count = fixed(plain, smallest_bucket=64), 60 if check.small else 400
    tokens = prompt(20, 256)
    expected = reply(plain, NoDrafter(), tokens, count).token_ids
    checkpoint = untrained(backbone)
    drafters = {
        "none": NoDrafter(),
        "scripted": ScriptedDrafter(expected, depth=6),
        "heads": MedusaDrafter(checkpoint.heads, checkpoint.tree, 16),
        "hybrid": hybrid(checkpoint, backbone.spec.vocab_size),
    }
    facts = {}
    for name, drafter in drafters.items():
        finished = reply(backbone, drafter, tokens, count)
        assert finished.token_ids == expected, f"{name}: another reply than plain decoding's"
        facts[name] = round(finished.tokens_per_step, 2)
    return facts


def waits_of_a_step(check: Check) -> dict[str, Any]:
    """How often the program waits for the GPU, by drafter, as PyTorch itself notices it."""
    backbone, count = fixed(lean(small_model("llama", check.device, torch.float32))), 20 if check.small else 200
    checkpoint, tokens = untrained(backbone), prompt(20, 256)
    drafters = {
        "none": NoDrafter(),
        "heads": MedusaDrafter(checkpoint.heads, checkpoint.tree, 16),
        "hybrid": hybrid(checkpoint, backbone.spec.vocab_size),
    }
    facts: dict[str, Any] = {}
    for name, drafter in drafters.items():
        reply(backbone, drafter, tokens, count)  # recording waits too
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if check.device.type == "cuda":
                torch.cuda.set_sync_debug_mode("warn")
            try:
                steps = reply(backbone, drafter, tokens, count).steps
            finally:
                if check.device.type == "cuda":
                    torch.cuda.set_sync_debug_mode("default")
        facts[name] = round(len(caught) / steps, 2)
        facts[f"{name}, where"] = sorted({f"{Path(found.filename).name}:{found.lineno}" for found in caught})
    say(f"   {facts}")
    assert facts["none"] < 1.3, "plain decoding waits more than once a step"
    assert facts["heads"] < 1.3, "a step with heads waits more than once"
    return facts


def memory_comes_back(check: Check) -> dict[str, Any]:
    """Load, decode with recorded passes, unload; twice."""

    def once() -> int:
        model = random_model(TINY if check.small else DEFAULT_SHAPE, check.device, check.half)
        backbone = fixed(lean(model))
        reply(backbone, NoDrafter(), prompt(20, 256), 40)
        return allocated()[0]

    def allocated() -> tuple[int, int]:
        if check.device.type != "cuda":
            return 0, 0
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated(check.device), torch.cuda.memory_reserved(check.device)

    facts: dict[str, Any] = {"before": [size / MIB for size in allocated()]}
    for number in (1, 2):
        facts[f"loaded {number}"] = once() / MIB
        facts[f"unloaded {number}"] = [size / MIB for size in allocated()]
    say(f"   MiB allocated and reserved: {facts}")
    # What stays are workspaces of the libraries, 32 MiB a stream.
    grown = facts["unloaded 2"][1] - facts["before"][1]
    assert grown < 160, f"{grown:.0f} MiB stay reserved after unloading"
    assert facts["unloaded 2"][0] - facts["unloaded 1"][0] < 80, "every load leaves memory behind"
    return facts


def heads_learn(check: Check) -> dict[str, Any]:
    """Steps of training on the GPU, in the precision that training takes there."""
    backbone = fixed(lean(small_model("llama", check.device, check.half)))
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randint(264, (50,), generator=generator).tolist() for _ in range(4)]
    weight = backbone.output_weight.cpu()
    corpus = Corpus([(part, weight[part]) for part in parts])
    config = TrainConfig(num_heads=3, num_layers=1, draft_vocab_size=0)
    heads, _ = new_heads(backbone, corpus, config)
    objective = HeadsObjective(heads, corpus, backbone.output_weight, config)
    optimizer = torch.optim.AdamW([p for p in objective.parameters() if p.requires_grad], lr=1e-2, fused=True)
    items = torch.arange(len(corpus.tokens))
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        with torch.autocast(check.device.type, torch.bfloat16, enabled=check.half is torch.bfloat16):
            loss = objective(items, objective.counts(items))
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.98 * losses[0], f"the loss does not fall: {losses}"
    return {"losses": [round(value, 4) for value in losses]}
