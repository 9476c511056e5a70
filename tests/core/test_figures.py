"""What is shown of measured passes and counted heads: the same numbers that were measured and counted."""

from __future__ import annotations

import pytest

from medusa_core.backbone.cost import CostTable
from medusa_core.calibrate.statistics import path_statistics
from medusa_core.figures import measured
from medusa_core.head_statistics import SIZES, HeadStatistics
from medusa_core.model_info import Measured

COSTS = CostTable((("device", "A chip, 2 cores"),), (1, 9, 17), (128,), ((0.010, 0.012, 0.020),), 0.001)
GREEDY = path_statistics([(0, 0)] * 5 + [(0, 1)] * 3 + [(1, 0)] * 4 + [(2, 0)] * 8, 2, 2)
NOTHING = path_statistics([], 2, 2)
STATISTICS = HeadStatistics(GREEDY, NOTHING, (1.0, 1.0), "fp32")


def test_passes() -> None:
    known = measured(COSTS, None)
    assert known.machine == "A chip, 2 cores"
    assert known.plain_tokens_per_second == pytest.approx(100.0)
    assert known.overhead(0) == 1.0
    assert known.overhead(8) == pytest.approx((12 + 1) / 10)
    assert known.overhead(12) == pytest.approx((16 + 1) / 10)  # between two that were measured
    assert known.overhead(24) == pytest.approx((28 + 1) / 10)  # beyond them
    assert known.acceptance(16, sampled=False) == ()


def test_heads() -> None:
    known = measured(None, STATISTICS)
    assert known.accuracies == GREEDY.accuracies()
    assert known.sizes == SIZES
    # In 12 of 20 steps a path of two ranks was right from its first token to its last.
    assert known.acceptance(5, sampled=False) == pytest.approx(known.greedy[0])
    assert known.acceptance(60, sampled=False) == pytest.approx((12 / 20, 12 / 20))
    assert known.acceptance(60, sampled=True) == ()  # no such reply was counted
    assert known.plain_tokens_per_second == 0.0
    assert known.overhead(16) == 1.0


def test_acceptance_and_expected_tokens_agree() -> None:
    for nodes in (1, 2, 3, 5):
        assert 1 + sum(GREEDY.acceptance(nodes)) == pytest.approx(GREEDY.expected(nodes)[-1])


def test_nothing_measured() -> None:
    assert measured(None, None) == Measured()
