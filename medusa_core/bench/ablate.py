"""What each part is worth: trees by shape and size, heads, acceptance thresholds, drafters, batches.

Every setting decodes, as a system of its own beside all others, so that nothing is inferred but the cost of batches.
Knows nothing of other programs or of how results are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.backbone.cost import CostTable
from medusa_core.bench.own import EngineSystem, FixedDrafter, own_system
from medusa_core.bench.records import Answer, BenchPrompt, Reply
from medusa_core.bench.report import figures
from medusa_core.chat import Chat
from medusa_core.config import DecodingConfig, GreedyAcceptance, TypicalAcceptance
from medusa_core.drafters.medusa import MedusaDrafter
from medusa_core.errors import CheckpointError
from medusa_core.head_statistics import HeadStatistics
from medusa_core.tree import RankedTree
from medusa_core.tree_search import best_branching, dense_tree

SIZES = (1, 2, 4, 8, 16, 32, 64)  # draft nodes
EPSILONS = (0.01, 0.05, 0.09, 0.15, 0.2, 0.25, 0.3)
BATCHES = (1, 2, 4, 8, 16, 32)  # sequences that would be decoded together
CONTEXT = 512  # cached tokens that passes of many rows are timed with, and the most rows
_NODES = 16  # where the number of heads or the rule is what changes
_DRAFTERS = ("plain", "medusa", "lookup", "recycling", "hybrid")


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of an ablation."""

    ablation: str  # "tree", "heads", "epsilon" or "drafter"
    series: str  # the line it belongs to
    value: float | str  # where it stands on it
    draft_nodes: int  # 0: measured, or none
    system: EngineSystem


def settings(chat: Chat, config: DecodingConfig) -> list[Setting]:
    """All of them. `config` gives the rule of all but the thresholds' sweep. Raises CheckpointError without heads."""
    if chat.checkpoint is None:
        raise CheckpointError(f"Ablations need heads. {chat.info.heads_problem or 'Name some with --heads.'}")
    return [
        *_drafters(chat, config),
        *_trees(chat, config),
        *_heads(chat, config),
        *_epsilons(chat, config),
    ]


def _drafters(chat: Chat, config: DecodingConfig) -> list[Setting]:
    """Drafter by drafter, each with `config.nodes` nodes: as many as pay, or a fixed number."""
    return [Setting("drafter", "drafter", name, config.nodes, own_system(name, chat, config)) for name in _DRAFTERS]


def _trees(chat: Chat, config: DecodingConfig) -> list[Setting]:
    """The first nodes of the calibrated tree, and the Cartesian tree of at most as many."""
    assert chat.checkpoint is not None
    found = []
    heads = chat.checkpoint.heads.shape.num_heads
    calibrated = chat.checkpoint.tree.within(heads)
    for size in SIZES:
        if size < len(calibrated.tree):
            found.append(_fixed(chat, config, "tree", "sparse", size, calibrated.first(size + 1)))
        dense = dense_tree(dense_branching(size, heads, chat.checkpoint.statistics))
        found.append(_fixed(chat, config, "tree", "dense", size, dense))
    return found


def dense_branching(size: int, heads: int, statistics: HeadStatistics | None) -> tuple[int, ...]:
    """Of the best dense tree by counted paths; without counts as many guesses of every head as fit."""
    if statistics is not None:
        return best_branching(statistics.together.counts(), size)
    depth = min(heads, size)
    width = 1
    while sum((width + 1) ** level for level in range(1, depth + 1)) <= size:
        width += 1
    return (width,) * depth


def _heads(chat: Chat, config: DecodingConfig) -> list[Setting]:
    """The first heads only. All of them run all the same, so it is tokens a step that shows what each is worth."""
    assert chat.checkpoint is not None
    count = chat.checkpoint.heads.shape.num_heads
    trees = [(heads, chat.checkpoint.tree.within(heads).first(_NODES + 1)) for heads in range(1, count + 1)]
    return [_fixed(chat, config, "heads", "heads", heads, tree) for heads, tree in trees]


def _epsilons(chat: Chat, config: DecodingConfig) -> list[Setting]:
    """Typical acceptance with delta = sqrt(epsilon), as the paper has it; greedy acceptance is where it starts from."""
    assert chat.checkpoint is not None
    tree = chat.checkpoint.tree.first(_NODES + 1)
    temperature = getattr(config.acceptance, "temperature", 0.0) or TypicalAcceptance().temperature
    found = [_fixed(chat, replace(config, acceptance=GreedyAcceptance()), "epsilon", "greedy", 0.0, tree)]
    for epsilon in EPSILONS:
        rule = TypicalAcceptance(epsilon=epsilon, delta=math.sqrt(epsilon), temperature=temperature)
        found.append(_fixed(chat, replace(config, acceptance=rule), "epsilon", "typical", epsilon, tree))
    return found


def _fixed(chat: Chat, config: DecodingConfig, ablation: str, series: str, value: float, tree: RankedTree) -> Setting:
    """Heads alone, in this tree."""
    assert chat.checkpoint is not None
    heads, statistics = chat.checkpoint.heads, chat.checkpoint.statistics
    nodes = len(tree.tree) - 1
    temperatures = None if statistics is None else statistics.temperatures
    drafter = MedusaDrafter(heads, tree, nodes, temperatures)
    name = f"{ablation}/{series}/{value:g}"
    about = {"precision": chat.info.dtype, "acceptance": str(config.acceptance), "draft_nodes": str(nodes)}
    make: Callable[[], FixedDrafter] = lambda: FixedDrafter(drafter)  # noqa: E731
    system = EngineSystem(name, chat.backbone, chat.text.stop_ids, config, make, about)
    return Setting(ablation, series, value, nodes, system)


def drift(backbone: Backbone, prompt: Sequence[int], reply: Sequence[int]) -> tuple[float, float] | None:
    """Mean log-probability of the reply's tokens under the model, and how far below its own first choices, in nats.

    A rule that draws nothing puts all its weight on one token, so the negative of the first is its KL divergence from
    the model's distribution, averaged over places. None for an empty reply.
    """
    if not reply:
        return None
    with torch.inference_mode():
        ids = torch.tensor([*prompt, *reply[:-1]], device=backbone.device)
        positions = torch.arange(len(ids), device=backbone.device)
        hidden = backbone.forward(ids, positions, None, backbone.new_cache())[len(prompt) - 1 :]
        log_p = backbone.logits(hidden).float().log_softmax(-1)
        chosen = log_p.gather(1, torch.tensor(reply, device=log_p.device)[:, None])[:, 0]
        best = log_p.amax(-1)
    return float(chosen.mean()), float((best - chosen).mean())


def rows(
    settings: Sequence[Setting],
    replies: Mapping[str, Sequence[Reply]],
    answers: Mapping[tuple[str, str, int], Answer],
    prompts: Sequence[BenchPrompt],
    backbone: Backbone,
) -> dict[str, list[dict[str, Any]]]:
    """The figures of every setting, by ablation; how far from the model where the rule may leave it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for setting in settings:
        name = setting.system.name
        row = {
            "series": setting.series,
            "value": setting.value,
            "draft_nodes": setting.draft_nodes,
            **figures(replies.get(name, ())),
        }
        if setting.ablation == "epsilon":
            measured = [
                drift(backbone, prompt.token_ids, answer.token_ids)
                for prompt in prompts
                for (system, asked, _), answer in answers.items()
                if system == name and asked == prompt.name
            ]
            row |= _mean_drift([each for each in measured if each is not None])
        found.setdefault(setting.ablation, []).append(row)
    return found


def _mean_drift(measured: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    count = len(measured)
    return {
        "mean_log_probability": sum(each[0] for each in measured) / count if count else None,
        "mean_nats_below_first_choice": sum(each[1] for each in measured) / count if count else None,
    }


def batch_rows(context_size: int) -> tuple[int, ...]:
    """Rows of passes to time, of `BATCHES` sequences, plain and with trees: at most as many as are cached."""
    wanted = {batch * (nodes + 1) for batch in BATCHES for nodes in (0, *SIZES)}
    return tuple(sorted(rows for rows in wanted if rows <= min(CONTEXT, context_size // 2)))


def batch_gains(cost: CostTable, trees: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a tree of each size brings where b sequences share a pass: tokens a step over what the pass costs more.

    A pass of b * N rows is timed beside one of b rows, both over one cache: what reading b caches costs is left out.
    """
    context = cost.contexts[-1]
    found = []
    for row in trees:
        tokens = row["pooled_tokens_per_step"]
        if row["series"] != "sparse" or tokens is None:
            continue
        nodes = int(row["draft_nodes"])
        for batch in BATCHES:
            if batch * (nodes + 1) > cost.rows[-1]:
                continue
            dearer = cost.seconds(batch * (nodes + 1), context) / cost.seconds(batch, context)
            found.append({"draft_nodes": nodes, "batch": batch, "pass_cost": dearer, "gain": tokens / dearer})
    return found


def gain_ends(gains: Sequence[Mapping[str, Any]]) -> int | None:
    """The largest batch at which some tree still gains; None where none does even for one sequence."""
    return max((int(row["batch"]) for row in gains if row["gain"] > 1), default=None)
