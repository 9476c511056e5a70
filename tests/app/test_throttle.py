"""The throttle: nothing lost, order kept, at most thirty batches a second, the first at once."""

from __future__ import annotations

import time

from pytestqt.qtbot import QtBot

from app.throttle import Throttle


def test_the_first_event_goes_out_at_once_and_the_rest_together(qtbot: QtBot) -> None:
    throttle, batches = Throttle(), []
    throttle.batch.connect(batches.append)
    for number in range(10):
        throttle.add(number)
    assert batches == [[0]]
    qtbot.waitUntil(lambda: len(batches) == 2, timeout=500)
    assert batches[1] == list(range(1, 10))


def test_never_more_than_thirty_batches_a_second(qtbot: QtBot) -> None:
    throttle, batches = Throttle(), []
    throttle.batch.connect(batches.append)
    begin = time.monotonic()
    sent = 0
    while time.monotonic() - begin < 0.5:
        throttle.add(sent)
        sent += 1
        qtbot.wait(2)
    throttle.flush()
    seconds = time.monotonic() - begin
    assert len(batches) <= 31 * seconds + 2
    assert [event for batch in batches for event in batch] == list(range(sent))


def test_flush_and_clear(qtbot: QtBot) -> None:
    throttle, batches = Throttle(), []
    throttle.batch.connect(batches.append)
    throttle.add(1)
    throttle.add(2)
    throttle.flush()
    throttle.add(3)
    throttle.clear()
    qtbot.wait(80)
    assert batches == [[1], [2]]
