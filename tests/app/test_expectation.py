"""The closed forms beside what was measured, by hand."""

from __future__ import annotations

import pytest

from app import expectation
from app.expectation import Expectation
from medusa_core.events import Step
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import Measured
from medusa_core.testing import scripted_reply

MEASURED = Measured(rows=(1, 9, 17), pass_seconds=(0.01, 0.012, 0.02), accuracies=((0.5, 0.2), (0.4, 0.1)))


def metrics_of(count: int = 60) -> ReplyMetrics:
    metrics = ReplyMetrics()
    for event in scripted_reply(count):
        if isinstance(event, Step):
            metrics.add(event)
    return metrics


def test_by_hand() -> None:
    shown = Expectation((0.5, 0.5), (3, 1))
    assert shown.effective == (0.875, 0.5)
    assert shown.tokens_per_step == pytest.approx(1 + 0.875 + 0.875 * 0.5)
    assert shown.nodes == 3 + 3
    assert shown.overhead(MEASURED) == pytest.approx((0.01 + 6 / 8 * 0.002) / 0.01)
    assert shown.speed_up(MEASURED) == pytest.approx(shown.tokens_per_step / shown.overhead(MEASURED))


def test_the_calibration_takes_as_many_candidates_as_pay_most_here() -> None:
    known = expectation.of_calibration(MEASURED)
    assert known is not None
    assert known.accuracies == (0.5, 0.4)
    others = [Expectation(known.accuracies, (one, other)) for one in range(1, 5) for other in range(1, one + 1)]
    assert known.speed_up(MEASURED) == max(each.speed_up(MEASURED) for each in others)
    assert expectation.of_calibration(Measured()) is None
    unmeasured = expectation.of_calibration(Measured(accuracies=MEASURED.accuracies))
    assert unmeasured is not None
    assert unmeasured.candidates == (3, 2)


def test_the_conversation_predicts_exactly_what_it_measured() -> None:
    metrics = metrics_of()
    known = expectation.of_conversation(metrics)
    assert known is not None
    kept = sum(number * count for number, count in metrics.kept_guesses.items())
    assert known.tokens_per_step == pytest.approx(1 + kept / metrics.steps)
    assert expectation.of_conversation(ReplyMetrics()) is None


def test_the_measured_speed_up_needs_both_speeds() -> None:
    metrics = metrics_of()
    assert expectation.measured_speed_up(metrics, 20.0) == pytest.approx(metrics.tokens_per_second / 20)
    assert expectation.measured_speed_up(metrics, 0.0) is None
    assert expectation.measured_speed_up(ReplyMetrics(), 20.0) is None


def test_something_to_begin_with() -> None:
    assert expectation.at_first().tokens_per_step > 1
