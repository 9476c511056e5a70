"""Pointing at nodes, choosing them and zooming, by pointer and by keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views import tree_words as words
from app.views.tree import HEAD_PX, TreeView
from medusa_core.events import Step
from medusa_core.testing import scripted_reply


def steps(count: int = 10, nodes: int = 16) -> list[Step]:
    return [event for event in scripted_reply(count, nodes=nodes) if isinstance(event, Step)]


@pytest.fixture
def view(qtbot: QtBot) -> TreeView:
    view = TreeView(load_themes()["light"])
    qtbot.addWidget(view)
    view.resize(388, 420)
    return view


def test_up_and_down_read_the_tree_and_enter_chooses(view: TreeView, qtbot: QtBot) -> None:
    step = steps(1)[0]
    view.show_step(step, ())
    view.show()
    pointed: list[int] = []
    view.node_pointed.connect(pointed.append)
    view.setFocus(Qt.FocusReason.TabFocusReason)
    for _ in range(len(step.nodes) + 2):
        qtbot.keyClick(view, Qt.Key.Key_Down)
    assert sorted(set(pointed)) == list(range(len(step.nodes)))  # every node can be read
    assert view.accessibleDescription() == words.details(step, pointed[-1])
    qtbot.keyClick(view, Qt.Key.Key_Up)
    with qtbot.waitSignal(view.node_chosen) as chosen:
        qtbot.keyClick(view, Qt.Key.Key_Return)
    assert chosen.args == [pointed[-1]]
    QApplication.sendEvent(view, QFocusEvent(QEvent.Type.FocusOut, Qt.FocusReason.TabFocusReason))
    assert view.pointed == -1
    assert view.accessibleDescription() == words.description(step)


def test_a_click_chooses_and_a_drag_does_not(view: TreeView, qtbot: QtBot) -> None:
    step = steps(1)[0]
    view.show_step(step, ())
    view.show()
    box = view.boxes()[3]
    place = QPoint(round(box.x + 10), round(box.middle))
    with qtbot.waitSignal(view.node_chosen) as chosen:
        QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=place)
    assert chosen.args == [3]
    told: list[int] = []
    view.node_chosen.connect(told.append)
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=place)
    QTest.mouseMove(view, place + QPoint(40, 40))
    QTest.mouseMove(view, place)
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=place)
    assert told == []


def test_pointing_is_told_and_forgotten(view: TreeView) -> None:
    view.show_step(steps(1)[0], ())
    view.show()
    told: list[int] = []
    view.node_pointed.connect(told.append)
    box = view.boxes()[2]
    QTest.mouseMove(view, QPoint(round(box.x + 10), round(box.middle)))
    QTest.mouseMove(view, QPoint(380, 200))
    assert told == [2, -1]


def test_keys_zoom_and_the_chosen_node_comes_into_view(view: TreeView, qtbot: QtBot) -> None:
    view.show_step(steps(1, nodes=60)[0], ())
    view.show()
    view.setFocus(Qt.FocusReason.TabFocusReason)
    for _ in range(8):
        qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert view.zoomed
    for _ in range(60):
        qtbot.keyClick(view, Qt.Key.Key_Down)
    box = view.boxes()[view.pointed]
    assert box.x >= 0
    assert box.y >= HEAD_PX
    assert box.y + box.height <= view.height()
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert not view.zoomed


def test_room_is_made_for_all_steps_before_they_are_shown(view: TreeView) -> None:
    shown = steps(12)
    view.make_room(shown)
    view.show_step(shown[0], ())
    first = view.boxes()[0]
    for step in shown:
        view.show_step(step, ())
        assert view.boxes()[0] == first


def test_keys_zoom_about_the_node_that_is_pointed_at(view: TreeView, qtbot: QtBot) -> None:
    step = next(step for step in steps() if max(node.depth for node in step.nodes) >= 3)
    view.show_step(step, ())
    view.show()
    deepest = max(range(len(step.nodes)), key=lambda index: step.nodes[index].depth)
    for _ in range(len(step.nodes)):
        qtbot.keyClick(view, Qt.Key.Key_Down)
        if view.pointed == deepest:
            break
    for _ in range(3):
        qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert view.zoomed
    assert view.rect().contains(QPoint(round(view.boxes()[deepest].x), round(view.boxes()[deepest].middle)))
