"""Statistics on disk and what follows from them: sums, trees, expectations; a wrong file is named. Knows no model."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.calibrate.statistics import path_statistics
from medusa_core.errors import StatisticsError
from medusa_core.head_statistics import HeadStatistics, PathStatistics, expected_by_size, most_frequent

GREEDY = path_statistics([(0, 0)] * 5 + [(0, 1)] * 3 + [(1, 0)] * 4 + [(2, 0)] * 8, 2, 2)
SAMPLED = path_statistics([(0, 0), (1, 1), (0,), ()], 2, 2)
STATISTICS = HeadStatistics(GREEDY, SAMPLED, (1.25, 0.5), "fp32")

observations = st.lists(st.lists(st.integers(0, 3), max_size=2).map(tuple), max_size=20)


def test_counting_by_hand() -> None:
    assert (GREEDY.steps, GREEDY.tried) == (20, (20, 20))
    assert GREEDY.hits == ((8, 4), (17, 3))
    assert GREEDY.top() == ((0.4, 0.6), (0.85, 1.0))
    assert GREEDY.accuracies() == ((0.4, 0.2), (0.85, 0.15))
    assert GREEDY.paths == (((0,), 8), ((0, 0), 5), ((1,), 4), ((1, 0), 4), ((0, 1), 3))
    assert GREEDY.expected(3) == pytest.approx((1, 1.4, 1.65, 1.85))
    assert (SAMPLED.steps, SAMPLED.tried, SAMPLED.hits) == (4, (3, 2), ((2, 1), (1, 1)))


@given(observations, observations)
def test_together_is_counting_all_replies_at_once(greedy: list[Any], sampled: list[Any]) -> None:
    apart = HeadStatistics(path_statistics(greedy, 2, 3), path_statistics(sampled, 2, 3), (1.0, 1.0), "fp32")
    assert apart.together == path_statistics(greedy + sampled, 2, 3)


@given(observations, st.integers(0, 12))
def test_a_path_is_kept_only_with_its_beginning(steps: list[Any], limit: int) -> None:
    kept = [path for path, _ in most_frequent(path_statistics(steps, 2, 3).counts(), limit)]
    assert len(kept) <= limit
    assert all(len(path) == 1 or path[:-1] in kept for path in kept)


def test_the_file_holds_all_of_it(tmp_path: Path) -> None:
    STATISTICS.save(tmp_path / "statistics.json")
    assert HeadStatistics.load(tmp_path / "statistics.json") == STATISTICS
    summary = json.loads((tmp_path / "statistics.json").read_text(encoding="utf-8"))["summary"]
    assert summary["greedy"]["top"] == [[0.4, 0.6], [0.85, 1.0]]
    assert summary["greedy"]["expected_tokens_per_step"] == {"4": round(GREEDY.expected(4)[4], 4)}
    assert set(summary) == {"greedy", "sampled", "together"}


def test_sizes_the_tree_does_not_have_are_left_out() -> None:
    assert expected_by_size((1.0, 1.1, 1.2, 1.3, 1.41234, 1.5)) == {4: 1.4123}


def test_nothing_observed() -> None:
    nothing = path_statistics([], 2, 2)
    assert nothing.top() == ((0.0, 0.0), (0.0, 0.0))
    assert nothing.expected(8) == (1.0,)


def changed(**values: Any) -> str:
    return json.dumps(json.loads(STATISTICS.to_json()) | values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "'format' must be 'medusa-statistics'"),
        (changed(version=2), "version 2; this program reads version 1"),
        (changed(extra=1), "missing or unknown entries: extra"),
        (changed(precision=3), "'precision' must be a name"),
        (changed(temperatures=[True, 1.0]), "'temperatures' must be a list"),
        (changed(temperatures=[1.0]), "1 temperatures for 2 heads"),
        (changed(temperatures=[1.0, -2.0]), "above 0"),
        (changed(greedy={}), "'greedy' must hold steps, tried, hits and paths"),
        (changed(greedy={"steps": 1, "tried": [1], "hits": [[2, 0]], "paths": []}), "head 1 was right 2 times in 1"),
        (changed(greedy={"steps": 1, "tried": [1, 1], "hits": [[1]], "paths": []}), "names 2 heads"),
        (changed(greedy={"steps": 1, "tried": [1], "hits": [[1]], "paths": []}), "1 heads on greedy, 2 on sampled"),
        (changed(greedy={"steps": 1, "tried": [1, 1], "hits": [[1], [1]], "paths": []}), "the same ranks"),
        (changed(greedy={"steps": 1, "tried": [1, 1], "hits": [[1, 0], [1, 0]], "paths": [[0]]}), "and its count"),
        (changed(greedy={"steps": 1, "tried": [1, 1], "hits": [[1, 0], [1, 0]], "paths": [[0, 2]]}), "right 2 times"),
        (changed(greedy={"steps": 1.5, "tried": [], "hits": [], "paths": []}), "greedy.steps"),
    ],
)
def test_a_wrong_file_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "statistics.json").write_text(text, encoding="utf-8")
    with pytest.raises(StatisticsError, match=said) as caught:
        HeadStatistics.load(tmp_path / "statistics.json")
    assert str(tmp_path / "statistics.json") in str(caught.value)
    assert "calibrate" in str(caught.value)


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(StatisticsError, match="right 3 times in 2 of 2 steps"):
        PathStatistics(steps=2, tried=(2,), hits=((3,),), paths=())
    assert Counter(dict(GREEDY.paths)) == GREEDY.counts()
