"""Medians, spreads and ratios of scripted timings."""

from __future__ import annotations

import json

import pytest

from medusa_core.bench.records import Answer, BenchPrompt, Reply, make_reply
from medusa_core.bench.report import bench_report, figures, looping_table, ratios, spread, table


def reply(prompt: str, rate: float, *, run: int = 0, looping: bool = False, steps: int = 50) -> Reply:
    tokens = (1,) * 100 if looping else tuple(range(100))
    answer = Answer(tokens, 100, steps, 0.25, 100 / rate)
    return make_reply(BenchPrompt(prompt, "", (), (1,)), answer, run=run, order=0, plain=tokens)


OURS = [reply("a", 30.0), reply("b", 20.0), reply("c", 80.0, looping=True)]
PLAIN = [reply("c", 20.0, looping=True, steps=100), reply("a", 10.0, steps=100), reply("b", 10.0, steps=100)]


def test_a_spread_is_linear_between_values() -> None:
    found = spread([4.0, None, 0.0, 1.0, 2.0, 3.0])
    assert found is not None
    assert (found.median, found.count) == (2.0, 5)
    assert [found.p10, found.p25, found.p75, found.p90] == pytest.approx([0.4, 1.0, 3.0, 3.6])
    assert spread([None]) is None
    single = spread([7.0])
    assert single is not None
    assert (single.p10, single.median, single.p90) == (7.0, 7.0, 7.0)


def test_ratios_are_taken_prompt_by_prompt() -> None:
    found = ratios({"ours": OURS, "plain": PLAIN})
    assert set(found) == {"ours", "plain"}
    assert set(found["ours"]) == {"plain"}
    ratio = found["ours"]["plain"]
    assert ratio["all"]["median"] == pytest.approx(3.0)  # of 3, 2 and 4
    assert ratio["all"]["count"] == 3
    assert ratio["not_looping"]["median"] == pytest.approx(2.5)
    assert ratio["looping"]["median"] == pytest.approx(4.0)
    assert found["plain"]["ours"]["all"]["median"] == pytest.approx(1 / 3)


def test_runs_are_not_mixed_and_what_is_missing_is_left_out() -> None:
    mine = [reply("a", 30.0), reply("a", 60.0, run=1), reply("b", 50.0)]
    theirs = [reply("a", 10.0), reply("a", 60.0, run=1)]
    ratio = ratios({"ours": mine, "plain": theirs})["ours"]["plain"]
    assert ratio["all"]["count"] == 2
    assert ratio["all"]["median"] == pytest.approx(2.0)  # of 3 and 1
    assert ratio["looping"] is None


def test_pooled_figures_weigh_by_time() -> None:
    found = figures(OURS)
    assert found["pooled_tokens_per_second"] == pytest.approx(300 / (100 / 30 + 100 / 20 + 100 / 80))
    assert found["pooled_tokens_per_step"] == pytest.approx(2.0)
    assert found["tokens_per_second"]["median"] == pytest.approx(30.0)
    assert (found["identical_to_plain"], found["compared_with_plain"]) == (3, 3)
    empty = figures([])
    assert (empty["count"], empty["tokens_per_second"], empty["pooled_tokens_per_step"]) == (0, None, None)


def test_the_file_holds_what_it_promises_and_the_table_shows_it() -> None:
    about = {"ours": {"precision": "int8"}}
    replies = {"ours": OURS, "plain": PLAIN}
    report = bench_report(replies, about, complete=False, config={"runs": 1}, machine={"cpu": "x"}, notes=["n"])
    again = json.loads(json.dumps(report))
    assert (again["format"], again["version"], again["complete"]) == ("medusa-bench", 1, False)
    assert again["systems"]["ours"]["about"] == {"precision": "int8"}
    assert len(again["systems"]["ours"]["replies"]) == 3
    for system in again["systems"].values():
        for name in ("tokens_per_second", "tokens_per_step", "time_to_first_token"):
            assert set(system[name]) == {"median", "p10", "p25", "p75", "p90", "count"}
        assert system["looping"]["count"] + system["not_looping"]["count"] == 3
    lines = table(report, "plain")
    assert len({len(line) for line in lines}) == 1, "columns stand under each other"
    assert "30.0 (22.0-70.0)" in lines[1]
    assert "3.00 (2.20-3.80)" in lines[1]
    assert "3/3" in lines[1]
    apart = looping_table(report, "plain")
    assert len(apart) == 5
    assert "not looping" in apart[1]
    assert looping_table(bench_report({"ours": OURS[:2]}, {}, complete=True, config={}, machine={}, notes=[]), "") == []
