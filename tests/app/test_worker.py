"""The worker: one job at a time on a thread of its own, reports in the GUI thread, stoppable in every pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator

import pytest
from PySide6.QtCore import QObject, QThread
from pytestqt.qtbot import QtBot

from app.worker import Failure, StopCheck, Worker, describe
from medusa_core.errors import ConfigError
from medusa_core.testing import scripted_reply


class Listener(QObject):
    """Notes what it hears, and in which thread."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.heard: list[object] = []
        self.threads: set[QThread] = set()
        self._mailbox = worker.mailbox
        worker.waiting.connect(self.look)
        worker.finished.connect(self.hear)
        worker.failed.connect(self.hear)

    def look(self) -> None:
        self._mailbox.ask_for_call()
        for event in self._mailbox.take():
            self.hear(event)

    def hear(self, what: object) -> None:
        self.heard.append(what)
        self.threads.add(QThread.currentThread())


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    assert worker.close(3)


def test_events_and_result_arrive_in_order_in_the_gui_thread(worker: Worker, qtbot: QtBot) -> None:
    ran_in: list[int] = []

    def job(_stop: StopCheck) -> Generator[object, None, object]:
        ran_in.append(threading.get_ident())
        yield "a"
        yield "b"
        return "end"

    listener = Listener(worker)
    with qtbot.waitSignal(worker.finished):
        worker.run(job)
    assert listener.heard == ["a", "b", "end"]
    assert listener.threads == {QThread.currentThread()}
    with qtbot.waitSignal(worker.finished):
        worker.run(job)
    assert len(set(ran_in)) == 1
    assert ran_in[0] != threading.get_ident()


def test_a_failure_is_reported_and_the_next_job_runs(worker: Worker, qtbot: QtBot) -> None:
    def bad(_stop: StopCheck) -> Generator[object, None, object]:
        yield 1
        raise ConfigError("nodes is 0; it must lie between 1 and 256")

    def good(_stop: StopCheck) -> Generator[object, None, object]:
        yield 2

    with qtbot.waitSignal(worker.failed) as failed:
        worker.run(bad)
    assert failed.args == [Failure("nodes is 0; it must lie between 1 and 256", "")]
    with qtbot.waitSignal(worker.finished):
        worker.run(good)


def test_a_stop_does_not_reach_the_next_job(worker: Worker, qtbot: QtBot) -> None:
    def job(stop: StopCheck) -> Generator[object, None, object]:
        yield "begun"
        while not stop():
            time.sleep(0.005)
        return "stopped"

    def next_job(stop: StopCheck) -> Generator[object, None, object]:
        yield stop()
        return stop()

    with qtbot.waitSignal(worker.waiting):
        worker.run(job)
    with qtbot.waitSignal(worker.finished) as finished:
        worker.stop()
    assert finished.args == ["stopped"]
    with qtbot.waitSignal(worker.finished) as finished:
        worker.run(next_job)
    assert finished.args == [False]


def test_switching_slow_mode_off_ends_its_pause(worker: Worker, qtbot: QtBot) -> None:
    def job(_stop: StopCheck) -> Generator[object, None, object]:
        yield from scripted_reply(60)

    worker.set_slow(True)
    listener = Listener(worker)
    worker.run(job)
    qtbot.wait(600)
    assert 1 < len(listener.heard) < 6
    with qtbot.waitSignal(worker.finished, timeout=1000):
        worker.set_slow(False)
    assert len(listener.heard) == 63  # prefilled, 60 steps, finished, and the result


def test_an_unforeseen_error_carries_its_traceback() -> None:
    try:
        _ = {}["missing"]
    except KeyError as error:
        failure = describe(error)
    assert "test_worker.py" in failure.details
    assert failure.message.endswith("'missing'")


def test_closing_a_worker_that_never_ran_is_fine() -> None:
    assert Worker().close(0.1)
