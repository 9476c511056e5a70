"""What the GPU check runs on: random models of known sizes, passes and replies over them, and stopwatches.

Knows nothing of what is checked.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.backbone.graphs import GraphPasses
from medusa_core.backbone.lean import Attend, LeanBackbone, fused_attention
from medusa_core.backbone.load import make_spec
from medusa_core.backbone.static import DirectPasses, StaticBackbone
from medusa_core.config import DecodingConfig
from medusa_core.drafters.choice import Drafters
from medusa_core.engine import Engine
from medusa_core.events import Finished, Step
from medusa_core.heads.checkpoint import BaseModel, HeadsCheckpoint
from medusa_core.heads.kinds import build_heads
from medusa_core.heads.medusa import HeadsShape
from medusa_core.state import State
from medusa_core.tiny import tiny_model, tiny_tokenizer
from medusa_core.tree import RankedTree

MIB = 2**20
TREE = Path(__file__).resolve().parents[2] / "resources" / "heads" / "default" / "tree.json"
DEFAULT_SHAPE = {  # of SmolLM2-135M
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
SEVEN_BILLION = {  # of Llama-2-7B
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
TINY = DEFAULT_SHAPE | {
    "vocab_size": 264,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}


@dataclass
class Check:
    """What sections are given, and what they found."""

    device: torch.device
    small: bool  # a dry run
    model: Path | None
    heads: Path
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def half(self) -> torch.dtype:
        """The precision of speed."""
        if self.small:
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def free(check: Check) -> None:
    """Room for the next model."""
    gc.collect()
    if check.device.type == "cuda":
        torch.cuda.empty_cache()


def say(text: str) -> None:
    """Progress, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def random_model(shape: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Any:
    """A Llama with random weights, made where it will run."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model("llama", **shape)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval().requires_grad_(False)


def small_model(family: str, device: torch.device, dtype: torch.dtype) -> Any:
    """A tiny model of which the choices differ from place to place."""
    return tiny_model(family, context=1024).to(device=device, dtype=dtype)


def in_nf4(model: Any) -> Any:
    """The model with the linear modules of its layers in bitsandbytes' NF4."""
    from bitsandbytes.nn import Linear4bit, Params4bit

    for layer in model.model.layers:
        for parent in (layer.self_attn, layer.mlp):
            for name, linear in list(parent.named_children()):
                if type(linear) is not torch.nn.Linear:
                    continue
                packed = Linear4bit(
                    linear.in_features, linear.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4"
                )
                packed.weight = Params4bit(linear.weight.data.cpu(), requires_grad=False, quant_type="nf4")
                setattr(parent, name, packed.to(linear.weight.device))
    return model


def lean(model: Any, attend: Attend = fused_attention, *, keep_model: bool = False) -> LeanBackbone:
    """The lean pass over the model."""
    return LeanBackbone(model, make_spec(model, tiny_tokenizer(), "random"), keep_model=keep_model, attend=attend)


def fixed(backbone: LeanBackbone, *, recorded: bool = True, smallest_bucket: int = 512) -> StaticBackbone:
    """Passes of fixed shapes; recorded where there is a GPU."""
    on_gpu = recorded and backbone.device.type == "cuda"
    passes = GraphPasses(backbone.device) if on_gpu else DirectPasses()
    return StaticBackbone(backbone, passes, smallest_bucket=smallest_bucket)


def tree(rows: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Depths (N,) and ancestor mask (N, N) of a tree whose nodes hang anywhere."""
    generator = torch.Generator().manual_seed(rows)
    depths, mask = torch.zeros(rows, dtype=torch.long), torch.eye(rows, dtype=torch.bool)
    for node in range(1, rows):
        parent = int(torch.randint(node, (), generator=generator))
        depths[node] = depths[parent] + 1
        mask[node] |= mask[parent]
    return depths.to(device), mask.to(device)


def prompt(count: int, vocab: int) -> list[int]:
    """Tokens without a pattern."""
    return torch.randint(min(vocab, 256), (count,), generator=torch.Generator().manual_seed(1)).tolist()


@torch.inference_mode()
def filled(backbone: Any, count: int) -> Any:
    """A cache of `count` rows."""
    cache = backbone.new_cache()
    tokens = torch.tensor(prompt(count, backbone.spec.vocab_size), device=backbone.device)
    for start in range(0, count, 256):
        part = tokens[start : start + 256]
        backbone.forward(part, torch.arange(start, start + len(part), device=part.device), None, cache)
    return cache


@torch.inference_mode()
def tree_logits(backbone: Any, rows: int, cache: Any) -> torch.Tensor:
    """Logits (N, V) of a tree over the cache, which keeps its rows."""
    depths, mask = tree(rows, backbone.device)
    tokens = (torch.arange(rows, device=backbone.device) * 31) % min(backbone.spec.vocab_size, 256)
    logits: torch.Tensor = backbone.logits(backbone.forward(tokens, cache.length + depths, mask, cache))
    return logits


@torch.inference_mode()
def pass_seconds(backbone: Any, rows: int, context: int, rounds: int) -> float:
    """The median time of a pass with its output head and choices."""
    device = backbone.device
    cache = filled(backbone, context)
    depths, mask = tree(rows, device)
    tokens = torch.zeros(rows, dtype=torch.long, device=device)
    positions = context + depths

    def once() -> None:
        backbone.logits(backbone.forward(tokens, positions, mask, cache)).argmax(-1).tolist()
        cache.crop(context)

    for _ in range(3):
        once()
    return stopwatch(once, device, rounds)


def stopwatch(work: Callable[[], object], device: torch.device, rounds: int) -> float:
    """The median of several runs, in seconds."""
    times = []
    for _ in range(rounds):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def wait(device: torch.device) -> None:
    """Until the GPU has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def weight_bytes(backbone: LeanBackbone) -> int:
    """What a pass reads of the model's weights, the output head included."""
    products = [p for layer in backbone._layers for p in (layer.qkv, layer.out, layer.gate_up, layer.down)]
    total = backbone.output_weight.numel() * backbone.output_weight.element_size()
    for product in products:
        inner = getattr(product, "modules", None)
        for module in inner if isinstance(inner, list) else [product]:
            total += module.weight.numel() * module.weight.element_size()
    return total


def reply(backbone: Any, drafter: Any, tokens: list[int], count: int, stop: frozenset[int] = frozenset()) -> Any:
    """The Finished event of a greedy reply."""
    return timed(backbone, drafter, tokens, count, stop)[0]


def timed(backbone: Any, drafter: Any, tokens: list[int], count: int, stop: frozenset[int]) -> tuple[Any, dict]:
    """The same, and the mean milliseconds of a step's parts."""
    engine = Engine(backbone, drafter, GreedyRule(), stop_ids=stop, max_new_tokens=count)
    events = list(engine.generate(State(backbone.new_cache()), tokens))
    steps = [event for event in events if isinstance(event, Step)]
    means = {}
    for part in ("draft_seconds", "verify_seconds", "accept_seconds", "seconds"):
        mean = sum(getattr(step, part) for step in steps) / max(len(steps), 1)
        means[f"{part.removesuffix('seconds') or 'step_'}ms"] = round(1e3 * mean, 3)
    finished = events[-1]
    assert isinstance(finished, Finished)
    return finished, means


def untrained(backbone: Any) -> Any:
    """Heads that nobody trained, of the default sizes, with a tree."""
    spec = backbone.spec
    vocab = min(8192, spec.vocab_size)
    shape = HeadsShape(
        num_heads=4, num_layers=1, hidden_size=spec.hidden_size, vocab_size=spec.vocab_size, draft_vocab_size=vocab,
        shared_output=True,
    )  # fmt: skip
    token_map = None if vocab == spec.vocab_size else torch.arange(vocab, device=backbone.device)
    heads = build_heads("rooted", shape, backbone.output_weight, backbone.embedding_weight, token_map).eval()
    guesses = RankedTree.load(TREE).within(shape.num_heads)
    return HeadsCheckpoint(heads, guesses, BaseModel(spec.name, spec.family, spec.fingerprint))


def hybrid(checkpoint: Any, vocab: int) -> Any:
    """Heads, lookup and recycling in one tree of 16 draft nodes."""
    return Drafters(checkpoint, vocab, None).drafter(DecodingConfig(drafter="hybrid", nodes=16))


def outcome(generator: Any) -> Any:
    """What a generator of events returns."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value
