"""The throttle: nothing lost, order kept, no more batches than the drawing is worth, the first at once."""

from __future__ import annotations

import threading
import time

import pytest
from PySide6.QtCore import QObject, Signal
from pytestqt.qtbot import QtBot

from app.throttle import FEWEST_A_SECOND, MOST_A_SECOND, Mailbox, Throttle, interval


class Post(QObject):
    """A mailbox and the throttle that empties it, as the worker and the window have them."""

    called = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.mailbox = Mailbox(self._call)
        self.throttle = Throttle(self.mailbox, self)
        self.called.connect(self.throttle.wake)
        self.batches: list[list[object]] = []
        self.throttle.batch.connect(self.batches.append)

    def _call(self) -> None:
        self.calls += 1
        self.called.emit()

    @property
    def events(self) -> list[object]:
        return [event for batch in self.batches for event in batch]


@pytest.fixture
def post(qtbot: QtBot) -> Post:
    return Post()


def test_the_first_event_goes_out_at_once_and_the_rest_together(post: Post, qtbot: QtBot) -> None:
    for number in range(10):
        post.mailbox.put(number)
    assert post.batches == [[0]]
    qtbot.waitUntil(lambda: len(post.batches) == 2, timeout=500)
    assert post.batches[1] == list(range(1, 10))


def test_after_a_pause_the_next_event_goes_out_at_once_again(post: Post, qtbot: QtBot) -> None:
    for number in range(5):
        post.mailbox.put(number)
        assert post.batches[number:] == [[number]]
        qtbot.wait(1500 // FEWEST_A_SECOND)


def test_never_more_than_thirty_batches_a_second_and_two_calls_a_batch(post: Post, qtbot: QtBot) -> None:
    begin, sent = time.monotonic(), 0
    while time.monotonic() - begin < 0.5:
        post.mailbox.put(sent)
        sent += 1
        qtbot.wait(2)
    post.throttle.flush()
    seconds = time.monotonic() - begin
    assert len(post.batches) <= (MOST_A_SECOND + 1) * seconds + 2
    assert post.events == list(range(sent))
    assert post.calls <= 2


def test_dear_drawing_is_done_less_often_and_never_too_rarely() -> None:
    assert interval(0.0) == interval(0.0001) == round(1000 / MOST_A_SECOND)
    assert interval(0.005) > interval(0.003)
    assert interval(0.02) == interval(3.0) == round(1000 / FEWEST_A_SECOND)


def test_a_view_that_draws_long_is_given_fewer_batches(post: Post, qtbot: QtBot) -> None:
    def draw(_: list[object]) -> None:
        end = time.thread_time() + 0.006
        while time.thread_time() < end:
            pass

    post.throttle.batch.connect(draw)
    begin = time.monotonic()
    while time.monotonic() - begin < 0.6:
        post.mailbox.put("event")
        qtbot.wait(2)
    assert len(post.batches) < 0.6 * MOST_A_SECOND * 0.8


def test_flush_hands_on_what_is_there(post: Post) -> None:
    for number in (1, 2, 3):
        post.mailbox.put(number)
    assert post.batches == [[1]]
    post.throttle.flush()
    post.throttle.flush()
    assert post.batches == [[1], [2, 3]]


def test_nothing_is_lost_between_two_threads(post: Post, qtbot: QtBot) -> None:
    count = 3000

    def write() -> None:
        for number in range(count):
            post.mailbox.put(number)
            if number % 300 == 0:
                time.sleep(0.05)  # long enough that the reader asks to be called again

    thread = threading.Thread(target=write)
    thread.start()
    qtbot.waitUntil(lambda: len(post.events) == count, timeout=10_000)
    thread.join()
    assert post.events == list(range(count))
