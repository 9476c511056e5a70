"""The number of draft nodes against costs made up for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from medusa_core.backbone.cost import CostTable
from medusa_core.drafters.sizing import SIZES, FixedSize, MeasuredSize, StepTimes


def costs(row_seconds: float, *, draft_seconds: float = 0.0005) -> CostTable:
    rows = (1, 16, 64)
    return CostTable((), rows, (128,), (tuple(0.02 + row_seconds * count for count in rows),), draft_seconds)


def as_told(size: int) -> float:
    """What `costs(0.001)` says of a pass, its nodes' share of Python included."""
    return costs(0.001).seconds(size + 1, 200) + size * 20e-6


def run(
    sizing: MeasuredSize, gain: float, steps: int, tokens: int, passing: Callable[[int], float] | None = None,
    between: float = 0.0,
) -> list[int]:  # fmt: skip
    """Sizes chosen over steps whose nodes each have `gain` of what the node before has.

    `tokens`: that every step brings; 0: as many as its nodes promise. `passing`: what a pass of a size takes; None:
    what the table says. `between`: two steps.
    """
    took = passing or (lambda size: sizing._times._costs.seconds(size + 1, 200) + size * 20e-6)
    chosen = []
    for _ in range(steps):
        plan = sizing.plan(200)
        gains = [value for n, least in enumerate(plan.least, 1) if (value := gain**n) >= least]
        size = sizing.choose(gains, 200) if plan.least else 0
        brought = tokens or round(1 + sum(gains[:size]))
        sizing.observe(size, brought if size else 1, 200, StepTimes(0.0005, took(size), between))
        chosen.append(size)
    return chosen


def test_a_fixed_size_takes_all_there_is() -> None:
    sizing = FixedSize(7)
    assert (sizing.plan(0).least, sizing.choose([0.5, 0.1], 0)) == ((0.0,) * 7, 2)


@pytest.mark.parametrize(("row_seconds", "least", "most"), [(1e-6, 24, 64), (0.001, 4, 16), (0.012, 1, 2)])
def test_the_cheaper_a_row_the_more_nodes(row_seconds: float, least: int, most: int) -> None:
    sizes = run(MeasuredSize(costs(row_seconds)), 0.8, 40, 3)
    assert least <= sizes[-1] <= most
    assert set(sizes) <= set(SIZES)


def test_a_node_is_taken_when_it_adds_more_than_its_time_would_bring() -> None:
    sizing = MeasuredSize(costs(0.001))
    assert sizing.rate == pytest.approx(1 / 0.021)
    # Each node costs 1.02 ms, so it must add 0.0486 tokens; of the sizes above 8, only 10 has two that do.
    assert sizing.choose([0.3, 0.2, 0.1, 0.06, 0.05, 0.04, 0.01, 0.01], 200) == 5
    assert sizing.choose([0.3, 0.2, 0.1, 0.06, 0.06, 0.06, 0.06, 0.06, 0.05, 0.05], 200) == 10
    assert sizing.choose([0.3, 0.2, 0.1, 0.06, 0.06, 0.06, 0.06, 0.06, 0.05, 0.04], 200) == 8
    assert sizing.choose([0.04, 0.03], 200) == 0
    assert sizing.choose([], 200) == 0


def test_the_better_the_guesses_the_more_nodes() -> None:
    poor, good = (run(MeasuredSize(costs(0.001)), gain, 40, tokens)[-1] for gain, tokens in ((0.3, 2), (0.9, 5)))
    assert 0 < poor < good


def test_drafting_that_does_not_pay_rests_says_so_and_is_tried_again() -> None:
    sizing = MeasuredSize(costs(0.001, draft_seconds=0.05))
    notes, chosen = [], []
    for _ in range(400):
        plan = sizing.plan(200)
        notes.append(plan.note)
        size = sizing.choose([0.5], 200) if plan.least else 0
        chosen.append(size)
        sizing.observe(size, 1, 200, StepTimes(0.05, as_told(size)))
    assert "does not pay" in notes[30]
    assert "tokens/s" in notes[30]
    rests = "".join("." if size == 0 else "d" for size in chosen).strip("d").split("d")
    lengths = [len(rest) for rest in rests if rest]
    assert lengths[:3] == [32, 64, 128]
    assert all(bool(note) == (size == 0) for note, size in zip(notes, chosen, strict=True))


def test_drafting_that_pays_never_rests() -> None:
    assert 0 not in run(MeasuredSize(costs(0.001)), 0.8, 300, 3)


def run_varied(sizing: MeasuredSize, steps: int, passing: Callable[[int], float] | None = None) -> float:
    """The mean size over the last of so many steps whose guesses are now better, now worse, as in any text."""
    sizes = [run(sizing, (0.55, 0.7, 0.8, 0.88)[step % 4], 1, 0, passing)[0] for step in range(steps)]
    return sum(sizes[-40:]) / 40


def test_rows_that_take_longer_than_was_measured_are_fewer() -> None:
    sizing = MeasuredSize(costs(0.001))
    before = run_varied(sizing, 200)
    slow = run_varied(sizing, 200, lambda size: as_told(size) + 0.004 * size)
    assert 0 < slow < 0.7 * before
    assert run_varied(sizing, 400) == pytest.approx(before, rel=0.1), "it was the machine, and it is over"


def test_rows_measured_at_a_bad_time_are_not_thought_dear_for_ever() -> None:
    """Only small trees are grown then, and what those take must tell of larger ones."""
    best = run_varied(MeasuredSize(costs(0.001)), 200)
    sizing = MeasuredSize(costs(0.006))
    assert run_varied(sizing, 40, lambda size: costs(0.006).seconds(size + 1, 200) + size * 20e-6) < best / 2
    assert run_varied(sizing, 300, as_told) == pytest.approx(best, rel=0.15)


def test_a_machine_that_is_slower_as_a_whole_keeps_its_sizes() -> None:
    sizing = MeasuredSize(costs(0.001))
    before = run(sizing, 0.8, 200, 0)[-1]
    after = run(sizing, 0.8, 300, 0, lambda size: 1.5 * as_told(size))
    assert abs(SIZES.index(after[-1]) - SIZES.index(before)) <= 1


def test_one_pass_that_was_held_up_changes_nothing() -> None:
    sizing = MeasuredSize(costs(0.001))
    before = run(sizing, 0.8, 200, 0)[-1]
    sizing.observe(before, 3, 200, StepTimes(0.0005, 5.0))
    assert run(sizing, 0.8, 1, 0)[-1] == before


def test_where_every_step_costs_more_outside_steps_are_larger() -> None:
    """As in a window that shows each; drafting that would not pay without that then does not rest either."""
    alone, shown = (run(MeasuredSize(costs(0.001)), 0.8, 300, 0, between=between)[-1] for between in (0.0, 0.02))
    assert shown > alone
    dear = costs(0.001, draft_seconds=0.03)
    hidden = MeasuredSize(dear)
    watched = MeasuredSize(dear)
    for sizing, between in ((hidden, 0.0), (watched, 0.03)):
        for _ in range(40):
            size = sizing.choose([0.5], 200) if sizing.plan(200).least else 0
            sizing.observe(size, 2 if size else 1, 200, StepTimes(0.03, as_told(size), between))
    assert not watched.plan(200).note
    assert hidden.plan(200).note


def test_nodes_are_looked_for_as_long_as_they_can_pay() -> None:
    """Eight rows come with the first one, as where memory is read anyway; more cost a lot."""
    sizing = MeasuredSize(CostTable((), (1, 9, 64), (128,), ((0.02, 0.0204, 0.2),), 0.0005))
    least = sizing.plan(200).least
    assert len(least) == SIZES[-1]
    assert list(least) == sorted(least)
    assert max(least[:8]) < 0.02, "though the share of a row of the whole table is 0.16 tokens"
    assert min(least[8:]) > 0.07
    assert sizing.choose([0.3, 0.2, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03], 200) == 8


def test_times_that_were_measured_badly_do_not_rule_out_sizes() -> None:
    """One too long and one too short, as where something else ran meanwhile."""
    rows = tuple(size + 1 for size in SIZES)
    true = [0.02 + 0.001 * count for count in rows]
    noisy = list(true)
    noisy[2] *= 0.9
    noisy[4] *= 1.25
    best = run_varied(MeasuredSize(CostTable((), rows, (128,), (tuple(true),), 0.0005)), 200, as_told)
    sizing = MeasuredSize(CostTable((), rows, (128,), (tuple(noisy),), 0.0005))
    assert run_varied(sizing, 200, as_told) == pytest.approx(best, rel=0.1)
    seconds = sizing._now(200).seconds
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in pairwise(zip(SIZES, seconds, strict=True))]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(slopes)), "each further node costs no less"
    assert min(slopes) >= 0


def test_passes_of_a_size_say_what_that_size_takes() -> None:
    """A bend that was never measured: beyond seven rows each takes three times as long."""

    def bent(size: int) -> float:
        return 0.02 + 0.001 * size + 0.002 * max(size - 6, 0)

    sizing = MeasuredSize(costs(0.001))
    run_varied(sizing, 400, bent)
    seconds = sizing._now(200).seconds
    for size in (2, 4, 6, 8):
        assert seconds[SIZES.index(size)] == pytest.approx(bent(size), rel=0.06), size
    assert as_told(10) < 0.95 * seconds[SIZES.index(10)] <= bent(10), "hardly ever tried; its neighbours tell of it"


def test_the_rate_is_that_of_the_time_that_went_by() -> None:
    sizing = MeasuredSize(costs(0.001))
    run(sizing, 0.8, 200, 3, lambda size: 2 * as_told(size))
    size = run(sizing, 0.8, 1, 3)[-1]
    assert sizing.rate == pytest.approx(3 / (2 * as_told(size) + 0.0005), rel=0.1)
