"""The figures of a reply, by hand and against their definitions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.events import Node, NodeState, Source, Step, StopReason
from medusa_core.metrics import ReplyMetrics


def step(kept: int, depth: int, seconds: float = 0.25, tokens: int | None = None) -> Step:
    """A step over a chain of `depth` guesses of which the first `kept` were kept."""
    nodes = tuple(
        Node(i, max(i - 1, 0), i, 0, Source.HEAD, NodeState.ACCEPTED, None, None, None) for i in range(depth + 1)
    )
    path = tuple(range(kept + 1))
    return Step(
        index=0,
        nodes=nodes,
        path=path,
        token_ids=path if tokens is None else path[:tokens],
        context_tokens=0,
        seconds=seconds,
        draft_seconds=0.0,
        verify_seconds=0.0,
        accept_seconds=0.0,
    )


def folded(*steps: Step) -> ReplyMetrics:
    metrics = ReplyMetrics()
    for each in steps:
        metrics.add(each)
    return metrics


def test_four_steps_by_hand() -> None:
    metrics = folded(step(0, 3), step(2, 3), step(2, 3), step(1, 3, seconds=0.75))
    assert (metrics.tokens, metrics.steps) == (1 + 3 + 3 + 2, 4)
    assert metrics.tokens_per_step == 9 / 4
    assert metrics.tokens_per_second == 9 / 1.5
    assert metrics.acceptance_per_head == (3 / 4, 2 / 4, 0.0)


def test_the_last_event_carries_the_figures() -> None:
    metrics = folded(step(2, 3), step(2, 3, tokens=2))  # the second ends with a guessed stop token
    end = metrics.finished(StopReason.STOP, [7, 8, 9, 7, 8], prompt_tokens=3, prefill_seconds=0.5, message="m")
    assert (end.tokens, end.steps, end.tokens_per_step, end.tokens_per_second) == (5, 2, 2.5, 10.0)
    assert end.acceptance_per_head == (1.0, 1.0, 0.0)
    assert (end.reason, end.token_ids, end.text, end.tail) == (StopReason.STOP, (7, 8, 9, 7, 8), "", "")
    assert (end.prompt_tokens, end.prefill_seconds, end.decode_seconds, end.message) == (3, 0.5, 0.5, "m")


def test_nothing_yet() -> None:
    metrics = ReplyMetrics()
    assert (metrics.tokens_per_step, metrics.tokens_per_second, metrics.acceptance_per_head) == (0.0, 0.0, ())


def test_plain_decoding_has_no_heads() -> None:
    metrics = folded(step(0, 0), step(0, 0))
    assert metrics.tokens_per_step == 1
    assert metrics.acceptance_per_head == ()


def test_heads_are_counted_to_the_deepest_tree_though_it_came_once() -> None:
    assert folded(step(1, 1), step(4, 4), step(0, 2)).acceptance_per_head == pytest.approx((2 / 3, 1 / 3, 1 / 3, 1 / 3))


def test_two_replies_do_not_share_their_counts() -> None:
    folded(step(1, 1))
    assert folded(step(0, 1)).acceptance_per_head == (0.0,)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_acceptance_is_the_share_of_steps_that_kept_k_guesses(kept: list[int]) -> None:
    metrics = folded(*(step(count, 5) for count in kept))
    assert metrics.acceptance_per_head == tuple(
        float(Fraction(sum(count >= k for count in kept), len(kept))) for k in range(1, 6)
    )
    # Tokens per step are the root and, for each head, the share of steps in which it was kept.
    assert metrics.tokens_per_step == pytest.approx(1 + sum(metrics.acceptance_per_head))
