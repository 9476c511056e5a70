"""What can be asked for from the panel's menus: steering from a node, recordings, export."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.views.panel import DecodingPanel
from app.views.step_table import StepTable
from app.views.tree import TreeView
from medusa_core.events import Event, Finished, NodeState, Step
from medusa_core.testing import scripted_reply

REPLY = scripted_reply(40)
ALL = [event for event in REPLY if isinstance(event, Step)]


@pytest.fixture
def panel(qtbot: QtBot) -> DecodingPanel:
    panel = DecodingPanel()
    qtbot.addWidget(panel)
    panel.resize(420, 900)
    panel.show()
    return panel


def play(panel: DecodingPanel, events: list[Event] = REPLY) -> None:
    panel.begin_reply()
    panel.show_events(events)


def tree(panel: DecodingPanel) -> TreeView:
    return panel.findChild(TreeView)


def actions(panel: DecodingPanel) -> dict[str, QAction]:
    assert panel.menu is not None
    return {action.text(): action for action in panel.menu.actions() if not action.isSeparator()}


def chosen(panel: DecodingPanel, state: NodeState) -> tuple[Step, int]:
    """A step with a node in this state."""
    for step in panel.steps:
        for index, node in enumerate(step.nodes):
            if node.state is state and step.index > 3:
                return step, index
    raise AssertionError(f"no node is {state}")


def test_steering_asks_for_the_reply_up_to_the_node(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    panel.set_steering("")
    step, index = chosen(panel, NodeState.UNREACHED)
    panel.show_step(step.index)
    tree(panel).node_chosen.emit(index)
    action = next(action for text, action in actions(panel).items() if text.startswith("Continue the reply"))
    path = [index]
    while path[-1]:
        path.append(step.nodes[path[-1]].parent)
    wanted = [token for before in ALL[: step.index] for token in before.token_ids]
    wanted += [step.nodes[node].token_id for node in reversed(path)]
    with qtbot.waitSignal(panel.steer_asked) as asked:
        action.trigger()
    assert asked.args == [tuple(wanted)]


def test_steering_a_reply_that_began_with_other_tokens_keeps_them(panel: DecodingPanel, qtbot: QtBot) -> None:
    finished = REPLY[-1]
    assert isinstance(finished, Finished)
    play(panel, [*REPLY[:-1], replace(finished, token_ids=(901, 902, *finished.token_ids))])
    panel.set_steering("")
    step, index = chosen(panel, NodeState.REJECTED)
    panel.show_step(step.index)
    tree(panel).node_chosen.emit(index)
    with qtbot.waitSignal(panel.steer_asked) as asked:
        next(iter(actions(panel).values())).trigger()
    assert asked.args[0][:2] == (901, 902)
    assert asked.args[0][2] == ALL[0].token_ids[0]


def test_a_node_that_was_kept_cannot_be_steered_to_and_a_busy_model_says_so(panel: DecodingPanel) -> None:
    play(panel)
    panel.set_steering("The model is busy.")
    step, kept = chosen(panel, NodeState.ACCEPTED)
    panel.show_step(step.index)
    tree(panel).node_chosen.emit(kept)
    assert not any(text.startswith("Continue") for text in actions(panel))
    step, rejected = chosen(panel, NodeState.REJECTED)
    panel.show_step(step.index)
    tree(panel).node_chosen.emit(rejected)
    assert not next(action for text, action in actions(panel).items() if text.startswith("Continue")).isEnabled()
    assert "The model is busy." in actions(panel)
    actions(panel)["Copy these numbers"].trigger()
    assert "Needed" in QGuiApplication.clipboard().text()


def test_choosing_a_node_while_live_holds_the_step(panel: DecodingPanel) -> None:
    panel.begin_reply()
    panel.show_events(REPLY[:9])
    assert panel.live
    tree(panel).node_chosen.emit(1)
    assert not panel.live
    assert tree(panel).step is ALL[7]


def test_the_menu_saves_opens_explores_and_exports(panel: DecodingPanel, qtbot: QtBot) -> None:
    panel.set_examples(["a", "b"])
    panel.open_menu()
    assert not actions(panel)["Save this reply as a recording…"].isEnabled()
    with qtbot.waitSignal(panel.example_asked) as asked:
        actions(panel)["Explore: b"].trigger()
    assert asked.args == [1]
    play(panel)
    panel.open_menu()
    for text, signal in (
        ("Save this reply as a recording…", panel.save_asked),
        ("Open a recording…", panel.open_asked),
        ("Export this page of charts…", panel.export_asked),
    ):
        with qtbot.waitSignal(signal):
            actions(panel)[text].trigger()
    actions(panel)["Show the tree as a table"].trigger()
    assert panel.findChild(StepTable).isVisible()


def test_before_the_first_reply_a_recording_is_offered(panel: DecodingPanel, qtbot: QtBot) -> None:
    offer = next(button for button in panel.findChildren(QPushButton) if button.text().startswith("Explore"))
    assert not offer.isVisible()  # there is none
    panel.set_examples(["a"])
    assert offer.isVisible()
    with qtbot.waitSignal(panel.example_asked) as asked:
        offer.click()
    assert asked.args == [0]
    panel.begin_reply()
    assert not offer.isVisible()
