"""Which lines of memory are asked for in so many steps: all of both ranges alike, and hardly one beyond them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from medusa_core.backbone import attention
from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fetching import LINE, NOTHING, next_lines, spread_over
from medusa_core.backbone.weighted import MOST, TILE

AT_HAND = 4242


@compiled
def counted(sizes, width, places, reach, worker, workers):  # type: ignore[no-untyped-def]
    own = attention.own_tasks(places.shape[0], sizes[1], worker, workers)
    return attention._steps(sizes, width, own, places, reach)


def asked_for(ahead: tuple[int, int, int, int], steps: int, at_once: int) -> list[int]:
    wanted, lines = spread_over(ahead, steps), []
    for _ in range(0, steps, at_once):
        start, apart = next_lines(wanted, at_once, AT_HAND)
        lines += [start + step * apart for step in range(at_once)]
    return lines


@pytest.mark.parametrize(("steps", "at_once"), [(100, 10), (640, 32), (320, 32)])
def test_lines_are_spread_over_both_ranges(steps: int, at_once: int) -> None:
    first, second = (64_000, 64_000 + 300 * LINE), (128_000, 128_000 + 300 * LINE)
    lines = asked_for((*first, *second), steps, at_once)
    for start, stop in (first, second):
        within = sorted(line for line in lines if start <= line < stop + at_once * 600 // steps * LINE)
        assert within[0] == start
        gaps = {b - a for a, b in pairwise(within)}
        assert len(gaps) == 1, "evenly"
        assert within[-1] >= start + 0.8 * (stop - start)
        assert all(line % LINE == 0 for line in within)
    assert len(set(lines) - {AT_HAND}) <= steps


def test_more_steps_than_lines_ask_for_every_line_once() -> None:
    lines = asked_for((0, 64 * LINE, 1_000_000 * LINE, 1_000_064 * LINE), 1024, 32)
    near = [line for line in lines if line != AT_HAND]
    assert near == [*range(0, 64 * LINE, LINE), *range(1_000_000 * LINE, 1_000_064 * LINE, LINE)]


def test_no_more_lines_than_the_second_cache_holds() -> None:
    lines = asked_for((0, 1 << 30, 0, 0), 100_000, 100)
    assert len({line for line in lines if line != AT_HAND}) <= 6144 + 2 * 100


@pytest.mark.parametrize("steps", [0, 64])
def test_nothing_wanted_asks_for_what_is_at_hand(steps: int) -> None:
    wanted = spread_over(NOTHING, steps)
    assert next_lines(wanted, 32, AT_HAND) == (AT_HAND, 0)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(("sizes", "rows"), [((9, 3, 64), 9), ((9, 3, 64), 1), ((14, 2, 64), 9), ((16, 8, 128), 5)])
def test_steps_of_attention_are_counted_as_they_are_taken(sizes: tuple[int, int, int], rows: int, workers: int) -> None:
    heads, kv_heads, head_dim = sizes
    group, reach, width, taken = heads // kv_heads, 200, attention.value_width(head_dim), 0
    for worker in range(workers):
        own = attention.own_tasks.py_func(rows, kv_heads, worker, workers)
        for head in range(kv_heads):
            left = len([task for task in own if task // rows == head])
            while left > 0:
                together = min(left, attention.side_by_side(sizes))
                sums = -(-together * group // MOST)
                taken += sums * (-(-reach // TILE) * head_dim // 2 + width // TILE * reach // 2)
                left -= together
        assert counted(sizes, width, np.zeros(rows, np.int64), reach, worker, workers) == taken
        taken = 0
