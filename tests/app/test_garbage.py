"""Circles of Qt objects are freed in the GUI thread, however much garbage another thread makes."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.garbage import GuiGarbage


class Circle(QObject):
    """Refers to itself, so that only the collector frees it."""

    freed_in: list[threading.Thread]

    def __init__(self, freed_in: list[threading.Thread]) -> None:
        super().__init__()
        self.itself = self
        weakref.finalize(self, lambda: freed_in.append(threading.current_thread()))


@pytest.fixture
def garbage(qapp: object) -> Iterator[GuiGarbage]:
    parent = QObject()
    made = GuiGarbage(parent)
    yield made
    made.stop()


def test_only_the_gui_thread_frees_circles(garbage: GuiGarbage, qtbot: QtBot) -> None:
    freed_in: list[threading.Thread] = []
    Circle(freed_in)

    def make_garbage() -> None:
        for _ in range(50_000):
            circle: list[object] = []
            circle.append(circle)

    other = threading.Thread(target=make_garbage)
    other.start()
    other.join()
    assert not freed_in, "the other thread's objects must not have set off a collection there"
    qtbot.waitUntil(lambda: bool(freed_in), timeout=5000)
    assert freed_in == [threading.main_thread()]


def test_it_gives_back_to_the_automatic_collector(garbage: GuiGarbage) -> None:
    assert not gc.isenabled()
    garbage.settle()
    assert gc.get_freeze_count() > 0
    garbage.stop()
    assert gc.isenabled()
    gc.unfreeze()
