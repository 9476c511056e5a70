"""The decoding panel: live and held, the keys, the empty states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QLabel, QPushButton, QSlider, QToolButton
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views import panel as panel_module
from app.views.acceptance_bars import AcceptanceBars
from app.views.chart_pages import EXPECT, STEPS
from app.views.charts import SpeedChart
from app.views.panel import DecodingPanel
from app.views.step_bar import StepBar
from app.views.step_charts import LengthHistogram, TimeChart
from app.views.step_table import StepTable
from app.views.tree import TreeView
from medusa_core.events import Event, Finished, NodeState, Source, Step, StopReason, Verdict
from medusa_core.metrics import ReplyMetrics
from medusa_core.testing import scripted_reply

REPLY = scripted_reply(40)
ALL = [event for event in REPLY if isinstance(event, Step)]


@pytest.fixture
def panel(qtbot: QtBot) -> DecodingPanel:
    panel = DecodingPanel()
    qtbot.addWidget(panel)
    panel.resize(420, 900)
    panel.show()
    panel.setFocus()
    return panel


def play(panel: DecodingPanel, events: Sequence[Event] = REPLY, batch: int = 3) -> None:
    panel.begin_reply()
    for start in range(0, len(events), batch):
        panel.show_events(events[start : start + batch])


def tree(panel: DecodingPanel) -> TreeView:
    return panel.findChild(TreeView)


def in_tab_order(panel: DecodingPanel) -> Callable[[QToolButton], int]:
    return panel.findChild(StepBar).controls.index


def position(panel: DecodingPanel) -> str:
    return panel.findChild(StepBar).position


def said(panel: DecodingPanel) -> str:
    return "\n".join(label.text() for label in panel.findChildren(QLabel)).replace("\u00a0", " ")


def test_before_the_first_reply_it_says_what_will_appear_and_the_next_step(panel: DecodingPanel) -> None:
    assert tree(panel).step is None
    assert tree(panel).accessibleDescription() == panel_module.EMPTY
    assert "message" in panel_module.EMPTY
    assert panel.steps == ()


def test_begin_reply_says_what_is_being_done(panel: DecodingPanel) -> None:
    panel.begin_reply()
    assert tree(panel).accessibleDescription() == panel_module.READING
    panel.show_events(REPLY[:1])
    assert tree(panel).accessibleDescription() == panel_module.WAITING
    assert "Prompt 24 tokens · read in 200 ms" in said(panel)


def test_live_every_step_is_kept_and_the_newest_is_drawn(panel: DecodingPanel) -> None:
    panel.begin_reply()
    panel.show_events(REPLY[:8])
    assert panel.steps == tuple(ALL[:7])
    assert tree(panel).step is ALL[6]
    assert position(panel) == "step 7 of 7"
    assert "Step 7 · " in said(panel)
    assert panel.live


def test_charts_show_what_the_metrics_say(panel: DecodingPanel) -> None:
    play(panel)
    metrics = ReplyMetrics()
    for step in ALL:
        metrics.add(step)
    assert panel.findChild(AcceptanceBars).shares == metrics.acceptance_per_head
    assert panel.findChild(SpeedChart).figure == f"{metrics.tokens_per_second:.1f} tokens/s"
    finished = REPLY[-1]
    assert isinstance(finished, Finished)
    assert f"Reply {finished.tokens} tokens in 40 steps" in said(panel)


def test_a_held_step_stays_while_the_reply_goes_on(panel: DecodingPanel, qtbot: QtBot) -> None:
    panel.begin_reply()
    panel.show_events(REPLY[:11])
    with qtbot.waitSignal(panel.step_shown) as shown:
        panel.show_step(4)
    assert shown.args == [4]
    panel.show_events(REPLY[11:21])
    assert tree(panel).step is ALL[4]
    assert position(panel) == "step 5 of 20"
    assert len(panel.steps) == 20
    panel.go_live()
    assert tree(panel).step is ALL[19]


def test_arrow_keys_home_and_end_walk(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    walked: list[int] = []
    panel.step_shown.connect(walked.append)
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_Left, Qt.Key.Key_End):
        qtbot.keyClick(panel, key)
    assert walked == [38, 37, 38, 0, -1]  # left of the first step there is nothing
    assert tree(panel).step is ALL[-1]


def test_right_of_the_last_step_is_live(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    panel.show_step(39)
    assert not panel.live
    with qtbot.waitSignal(panel.step_shown) as shown:
        qtbot.keyClick(panel, Qt.Key.Key_Right)
    assert shown.args == [-1]
    assert panel.live


def test_keys_walk_also_while_a_button_has_the_focus(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    qtbot.keyClick(panel.findChild(QCheckBox), Qt.Key.Key_Left)
    assert tree(panel).step is ALL[38]


def test_buttons_walk_and_live_returns(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    _, _, previous, following = sorted(panel.findChild(StepBar).findChildren(QToolButton), key=in_tab_order(panel))
    live = panel.findChild(QPushButton)
    assert live.isChecked()
    assert not following.isEnabled()
    qtbot.mouseClick(previous, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(previous, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(following, Qt.MouseButton.LeftButton)
    assert tree(panel).step is ALL[38]
    assert not live.isChecked()
    qtbot.mouseClick(live, Qt.MouseButton.LeftButton)
    assert panel.live
    assert live.isChecked()
    qtbot.mouseClick(live, Qt.MouseButton.LeftButton)
    assert live.isChecked()  # a second press does not switch it off


def test_a_step_outside_the_reply_is_ignored(panel: DecodingPanel) -> None:
    play(panel)
    panel.show_step(40)
    panel.show_step(-1)
    assert panel.live


def test_the_slow_switch_tells_the_window(panel: DecodingPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.slow_toggled) as told:
        panel.findChild(QCheckBox).click()
    assert told.args == [True]


def test_a_reason_is_shown_where_there_is_no_tree(panel: DecodingPanel) -> None:
    panel.set_reason("No heads are loaded.")
    assert tree(panel).accessibleDescription() == "No heads are loaded."
    plain = [replace(step, nodes=step.nodes[:1], path=(0,), token_ids=step.token_ids[:1]) for step in ALL]
    play(panel, [REPLY[0], *plain])
    assert tree(panel).step is None
    assert tree(panel).accessibleDescription() == "No heads are loaded."
    assert position(panel) == "step 40 of 40"
    panel.set_reason("")
    assert tree(panel).step is plain[-1]


def test_a_reason_does_not_hide_the_trees_of_a_reply_that_has_them(panel: DecodingPanel) -> None:
    panel.set_reason("No heads are loaded.")
    play(panel)
    assert tree(panel).step is ALL[-1]


def test_a_new_reply_forgets_the_one_before(panel: DecodingPanel) -> None:
    play(panel)
    panel.show_step(3)
    panel.begin_reply()
    assert panel.live
    assert panel.steps == ()
    assert position(panel) == "no steps yet"
    assert panel.findChild(AcceptanceBars).shares == ()
    assert "Reply" not in said(panel)


def test_nothing_in_the_panel_moves_from_the_first_step_to_the_last(panel: DecodingPanel, qtbot: QtBot) -> None:
    panel.begin_reply()
    panel.show_events(REPLY[:2])
    qtbot.wait(1)
    before = [part.geometry() for part in (tree(panel), panel.findChild(SpeedChart), panel.findChild(AcceptanceBars))]
    panel.show_events(REPLY[2:])
    qtbot.wait(1)
    after = [part.geometry() for part in (tree(panel), panel.findChild(SpeedChart), panel.findChild(AcceptanceBars))]
    assert before == after


def test_another_theme_reaches_every_part(panel: DecodingPanel) -> None:
    play(panel)
    dark = load_themes()["dark"]
    panel.set_theme(dark)
    image = tree(panel).grab().toImage()
    colours = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(40, 120)}
    assert {dark.text, dark.rejected} & colours == {dark.text, dark.rejected}


def test_every_control_has_a_name(panel: DecodingPanel) -> None:
    for control in panel.findChild(StepBar).controls:
        assert control.accessibleName() or control.property("text")
        assert control.toolTip()


def chosen(panel: DecodingPanel, state: NodeState) -> tuple[Step, int]:
    """A step with a node in this state."""
    for step in panel.steps:
        for index, node in enumerate(step.nodes):
            if node.state is state and step.index > 3:
                return step, index
    raise AssertionError(f"no node is {state}")


def test_the_slider_goes_to_any_step(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    slider = panel.findChild(QSlider)
    assert (slider.minimum(), slider.maximum(), slider.value()) == (0, 39, 39)
    with qtbot.waitSignal(panel.step_shown) as shown:
        slider.setValue(12)
    assert shown.args == [12]
    assert tree(panel).step is ALL[12]
    panel.show_step(20)
    assert slider.value() == 20
    qtbot.keyClick(slider, Qt.Key.Key_Left)
    assert tree(panel).step is ALL[19]


def test_pointing_tells_the_numbers_under_the_tree(panel: DecodingPanel) -> None:
    play(panel)
    step, index = chosen(panel, NodeState.REJECTED)
    panel.show_step(step.index)
    tree(panel).node_pointed.emit(index)
    verdict = step.nodes[index].verdict
    assert verdict is not None
    assert verdict.threshold == 0.09
    text = said(panel)
    assert "Needed: more than 9.0 %" in text
    assert "Entropy here: 1.20 nats" in text
    assert "The model wanted" in text
    tree(panel).node_pointed.emit(-1)
    assert "Needed" not in said(panel)


def test_the_table_says_the_same_and_walks_with_the_keys(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    panel.show_step(10)
    panel.show_table(True)
    table = panel.findChild(StepTable)
    assert table.isVisible()
    assert table.model().rowCount() == len(ALL[10].nodes)
    qtbot.keyClick(table, Qt.Key.Key_Right)
    assert table.as_text().count("\n") == len(ALL[11].nodes)
    panel.show_table(False)
    assert tree(panel).isVisible()


def test_only_the_page_on_screen_is_drawn_and_a_page_catches_up(panel: DecodingPanel) -> None:
    play(panel)
    assert panel.findChild(LengthHistogram).shares == ()
    panel.pages.show_page(STEPS)
    metrics = ReplyMetrics()
    for step in ALL:
        metrics.add(step)
    shares = panel.findChild(LengthHistogram).shares
    assert shares == tuple(metrics.kept_guesses[kept] / 40 for kept in range(max(metrics.kept_guesses) + 1))
    assert panel.findChild(TimeChart).columns.shape == (40, 3)
    panel.pages.show_page(EXPECT)
    assert panel.pages.expectation.isVisible()


def test_the_panel_says_when_another_reply_is_shown(panel: DecodingPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.reply_shown):
        panel.begin_reply()
    with qtbot.waitSignal(panel.reply_shown):
        panel.clear()


def test_a_low_window_scrolls_the_figures_and_cuts_nothing(panel: DecodingPanel, qtbot: QtBot) -> None:
    play(panel)
    assert panel.minimumSizeHint().height() <= 530  # what the lowest window leaves
    panel.resize(420, 530)
    panel.pages.show_page(STEPS)
    qtbot.wait(1)
    page = panel.pages.charts()
    assert page.height() >= page.minimumSizeHint().height()
    assert page.width() <= panel.pages.width()


def test_all_that_is_known_of_a_guess_has_room_under_the_tree(panel: DecodingPanel, qtbot: QtBot) -> None:
    verdict = Verdict(
        passed=False, probability=0.012, threshold=0.087, entropy=2.34, choice=7, choice_text="\n        unlikely"
    )
    step = next(step for step in ALL if any(node.verdict for node in step.nodes))
    index = next(index for index, node in enumerate(step.nodes) if node.verdict)
    node = replace(step.nodes[index], source=Source.LOOKUP, verdict=verdict, text=" considerations", rank=11)
    panel.show_events([replace(step, nodes=(*step.nodes[:index], node, *step.nodes[index + 1 :]), index=0)])
    for _ in step.nodes:
        if tree(panel).pointed == index:
            break
        qtbot.keyClick(tree(panel), Qt.Key.Key_Down)
    assert "Needed: more than 8.7 %" in said(panel)
    assert panel._details.heightForWidth(panel._details.width()) <= panel._details.height()


def test_a_reply_that_ends_without_a_step_no_longer_reads_the_prompt(panel: DecodingPanel) -> None:
    finished = REPLY[-1]
    assert isinstance(finished, Finished)
    panel.begin_reply()
    assert tree(panel)._message == panel_module.READING
    panel.show_events([replace(finished, steps=0, tokens=0, reason=StopReason.CONTEXT_FULL)])
    assert tree(panel)._message == panel_module.NO_STEPS
    assert "context full" in said(panel)
