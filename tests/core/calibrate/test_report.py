"""The rows of the report, worked out by hand from few counts."""

from __future__ import annotations

import pytest

from medusa_core.backbone.cost import CostTable
from medusa_core.calibrate.report import make_report
from medusa_core.calibrate.statistics import path_statistics
from medusa_core.head_statistics import HeadStatistics

COST = CostTable((("device", "d"),), (1, 2, 4), (100,), ((1.0, 1.1, 1.5),), draft_seconds=0.05)
GREEDY = path_statistics([(0, 0)] * 4 + [(1, 0)] * 2 + [(3, 3)] * 4, 2, 3)
SAMPLED = path_statistics([(1, 1)] * 4 + [(2, 0)] * 6, 2, 3)
STATISTICS = HeadStatistics(GREEDY, SAMPLED, (1.0, 2.0), "fp32")


def test_the_rows_by_hand() -> None:
    tree = STATISTICS.together.tree(5)
    # Right at rank 2: 6 of 20, (2, 0): 6, rank 1: 6, rank 0: 4, (0, 0): 4; then (1, 1): 4, (1, 0): 2.
    assert tree.ranks == (0, 1, 2, 0, 0, 0)
    report = make_report(STATISTICS, tree, COST, 100)
    assert (report.steps, report.greedy_steps) == (20, 10)
    assert report.top[0] == pytest.approx((0.2, 0.5, 0.8))
    assert [row.draft_nodes for row in report.trees] == [4, 5]
    row = report.trees[0]
    assert row.counted == pytest.approx(1 + (6 + 6 + 6 + 4) / 20)
    assert row.greedy == pytest.approx(1 + (2 + 0 + 0 + 4) / 10)
    assert row.sampled == pytest.approx(1 + (4 + 6 + 6 + 0) / 10)
    # Two or three guesses of head 1 alone, or one guess of each head: 3 guesses are 16 of 20.
    assert (row.dense, row.branching) == (pytest.approx(1 + 16 / 20), (3,))
    head2 = 12 / 20  # right at rank 0
    assert row.independent == pytest.approx(1 + 0.3 + 0.3 + 0.3 * head2 + 0.2)
    assert row.closed_form == pytest.approx(1 + (1 - 0.8**3) * (1 + head2))
    assert report.chain_counted == pytest.approx(1 + (4 + 4) / 20)
    assert report.chain_closed_form == pytest.approx(1 + 0.2 + 0.2 * head2)


def test_the_speeds_by_hand() -> None:
    report = make_report(STATISTICS, STATISTICS.together.tree(3), COST, 100)
    assert [row.seconds for row in report.speeds] == pytest.approx([1.0, 1.15, 1.35, 1.55])
    assert [row.tokens_per_second for row in report.speeds] == pytest.approx([1.0, 1.3 / 1.15, 1.6 / 1.35, 1.9 / 1.55])
    assert report.best_draft_nodes == 3
    assert [row.draft_nodes for row in report.trees] == [3]


def test_only_greedy_replies() -> None:
    greedy = HeadStatistics(GREEDY, path_statistics([], 2, 3), (1.0, 1.0), "fp32")
    row = make_report(greedy, greedy.together.tree(4), COST, 100).trees[0]
    assert (row.greedy, row.sampled) == (row.counted, None)


def test_nothing_was_ever_right() -> None:
    wrong = path_statistics([(3, 3)] * 5, 2, 3)
    nothing = HeadStatistics(wrong, wrong, (1.0, 1.0), "fp32")
    report = make_report(nothing, nothing.together.tree(8), COST, 100)
    assert (report.trees, report.best_draft_nodes) == ((), 0)
