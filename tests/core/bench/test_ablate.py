"""Ablations: settings that are what they say, drift by hand, and where batches stop gaining."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone.cost import CostTable
from medusa_core.bench.ablate import (
    EPSILONS,
    batch_gains,
    batch_rows,
    dense_branching,
    drift,
    gain_ends,
    rows,
    settings,
)
from medusa_core.bench.own import own_system
from medusa_core.bench.records import BenchPrompt
from medusa_core.bench.runner import Bench
from medusa_core.chat import Chat
from medusa_core.config import BenchConfig, DecodingConfig
from medusa_core.errors import CheckpointError
from medusa_core.head_statistics import HeadStatistics, PathStatistics

CONFIG = DecodingConfig(nodes=4, max_new_tokens=8)


def prompt_of(chat: Chat) -> BenchPrompt:
    messages = ({"role": "user", "content": "abc"},)
    return BenchPrompt("p", "", messages, tuple(chat.text.prompt_ids(messages)))  # type: ignore[arg-type]


def test_every_setting_decodes_and_greedy_ones_change_nothing(tiny_chat: Chat) -> None:
    compared = settings(tiny_chat, CONFIG)
    names = [setting.system.name for setting in compared]
    assert len(set(names)) == len(names)
    prompt = prompt_of(tiny_chat)
    bench = Bench([setting.system for setting in compared], [prompt], BenchConfig(max_new_tokens=8, warm_up=2))
    list(bench.run())
    for setting in compared:
        (reply,) = bench.compared()[setting.system.name]
        if setting.series != "typical":
            assert reply.identical_to_plain, setting.system.name
    found = rows(compared, bench.replies, bench.answers, [prompt], tiny_chat.backbone)
    assert set(found) == {"drafter", "tree", "heads", "epsilon"}
    # The calibrated tree has five draft nodes, so sizes beyond are those of dense trees alone.
    assert [(row["value"], row["draft_nodes"]) for row in found["tree"] if row["series"] == "sparse"] == [
        (1, 1),
        (2, 2),
        (4, 4),
    ]
    dense = {row["value"]: row["draft_nodes"] for row in found["tree"] if row["series"] == "dense"}
    assert dense == {1: 1, 2: 2, 4: 2, 8: 6, 16: 12, 32: 30, 64: 56}
    assert [row["value"] for row in found["heads"]] == [1, 2]
    assert [row["value"] for row in found["epsilon"]] == [0.0, *EPSILONS]
    greedy = found["epsilon"][0]
    assert greedy["mean_nats_below_first_choice"] == pytest.approx(0.0, abs=1e-4)
    assert all(row["mean_log_probability"] < 0 for row in found["epsilon"])


def test_drift_is_the_models_own_judgement(tiny_chat: Chat) -> None:
    prompt = prompt_of(tiny_chat).token_ids
    greedy = own_system("plain", tiny_chat, CONFIG).answer(prompt, 6).token_ids
    other = [(token + 1) % 256 for token in greedy]
    backbone = tiny_chat.backbone
    expected, below = [], []
    with torch.inference_mode():
        for place, token in enumerate(other):
            ids = torch.tensor([*prompt, *other[:place]])
            hidden = backbone.forward(ids, torch.arange(len(ids)), None, backbone.new_cache())
            log_p = backbone.logits(hidden[-1]).log_softmax(-1)
            expected.append(float(log_p[token]))
            below.append(float(log_p.max() - log_p[token]))
    found = drift(backbone, prompt, other)
    assert found == pytest.approx((sum(expected) / 6, sum(below) / 6), abs=1e-3)
    assert drift(backbone, prompt, []) is None


def test_dense_trees_are_the_best_counted_ones_or_the_widest() -> None:
    assert dense_branching(16, 3, None) == (2, 2, 2)
    assert dense_branching(2, 3, None) == (1, 1)
    part = PathStatistics(10, (10,), ((6, 3),), (((0,), 6), ((1,), 3)))
    counted = HeadStatistics(part, PathStatistics(0, (0,), ((0, 0),), ()), (1.0,), "fp32")
    assert dense_branching(1, 1, counted) == (1,)
    assert dense_branching(9, 1, counted) == (2,), "a third guess was never right"


def test_batches_gain_until_a_pass_costs_more_than_it_brings() -> None:
    # Up to 16 rows a pass costs the same, from there on in proportion to its rows.
    table = CostTable((), (1, 16, 64), (512,), ((1.0, 1.0, 4.0),), 0.0)
    trees = [
        {"series": "sparse", "draft_nodes": 3, "pooled_tokens_per_step": 1.8},
        {"series": "dense", "draft_nodes": 3, "pooled_tokens_per_step": 1.5},
    ]
    gains = batch_gains(table, trees)
    assert [row["batch"] for row in gains] == [1, 2, 4, 8, 16]
    assert [row["pass_cost"] for row in gains] == pytest.approx([1, 1, 1, 2, 4])
    assert [row["gain"] for row in gains] == pytest.approx([1.8, 1.8, 1.8, 0.9, 0.45])
    assert gain_ends(gains) == 4
    assert gain_ends([]) is None
    assert max(batch_rows(256)) <= 128
    assert max(batch_rows(8192)) <= 512


def test_without_heads_there_is_nothing_to_ablate(tiny_chat: Chat) -> None:
    bare = Chat(tiny_chat.backbone, tiny_chat.text, None, tiny_chat.info)
    with pytest.raises(CheckpointError, match="Ablations need heads"):
        settings(bare, CONFIG)
