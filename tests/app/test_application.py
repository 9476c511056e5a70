"""The app as a whole: from a typed message to words and trees on the screen, and back to rest."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QToolBar, QWidget
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.views.composer import ComposerState
from app.views.panel import EMPTY
from app.views.tree import TreeView
from medusa_core.config import DecodingConfig, SamplingAcceptance, TypicalAcceptance
from medusa_core.events import Finished, Progress, Step
from medusa_core.testing import ReplayChat, scripted_reply

Start = Callable[..., Application]
Ask = Callable[..., None]


def test_a_question_is_answered_word_for_word(app: Application, ask: Ask, chat: ReplayChat) -> None:
    ask(app, "Tell me about cats")
    finished = chat.events[-1]
    assert isinstance(finished, Finished)
    reply = app.views.chat.replies()[0]
    assert reply.text.text == finished.text
    (prose,) = reply.text.parts
    assert prose.toPlainText() == finished.text
    assert reply.footer.text().startswith(f"{finished.tokens}\u00a0tokens")
    assert f"{finished.tokens_per_step:.2f}" in reply.footer.text()
    assert app.views.panel.steps == tuple(event for event in chat.events if isinstance(event, Step))
    assert app.views.composer.text() == ""


def test_the_whole_conversation_is_sent_each_turn(app: Application, ask: Ask, chat: ReplayChat) -> None:
    app.controller.change_setting("system_prompt", "Be brief.")
    ask(app, "one")
    ask(app, "two")
    messages, _ = chat.calls[-1]
    finished = chat.events[-1]
    assert isinstance(finished, Finished)
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": finished.text},
        {"role": "user", "content": "two"},
    ]


def test_settings_apply_to_the_next_message(app: Application, ask: Ask, chat: ReplayChat) -> None:
    app.controller.change_setting("seed", 5)
    ask(app)
    app.controller.change_setting("acceptance", "typical")
    app.controller.change_setting("epsilon", 0.2)
    app.controller.change_setting("max_new_tokens", 99)
    app.window.panel_action.setChecked(False)
    ask(app)
    first, second = (config for _, config in chat.calls)
    assert first == DecodingConfig(acceptance=SamplingAcceptance(), seed=5, explain=True)
    assert second == DecodingConfig(acceptance=TypicalAcceptance(epsilon=0.2), max_new_tokens=99, explain=False)
    assert "typical" in app.views.chat.replies()[1].footer.text()
    tooltips = [reply.footer.toolTip() for reply in app.views.chat.replies()]
    assert "Top p: 0.9" in tooltips[0]
    assert "Seed: 5" in tooltips[0]
    assert "Epsilon: 0.2" in tooltips[1]
    assert "Seed" not in tooltips[1]


def test_the_footer_tells_the_seed_each_reply_was_drawn_with(app: Application, ask: Ask, chat: ReplayChat) -> None:
    ask(app)
    ask(app)
    seeds = [config.seed for _, config in chat.calls]
    assert seeds[0] != seeds[1]
    for seed, reply in zip(seeds, app.views.chat.replies(), strict=True):
        assert f"Seed: {seed}" in reply.footer.toolTip().splitlines()


def test_the_status_bar_says_what_runs_and_how_full_the_context_is(
    app: Application, ask: Ask, chat: ReplayChat
) -> None:
    assert app.window.status_line.facts.full == "Replay  ·  fp32  ·  cpu  ·  4 heads"
    assert app.window.status_line.reason.full == ""
    assert app.window.status_line.memory.text().endswith("B")
    ask(app)
    last = chat.events[-2]
    assert isinstance(last, Step)
    assert app.window.status_line.context.text() == f"Context {last.context_tokens} of 8\u202f192 tokens"


def test_loading_shows_progress_and_typing_is_possible_meanwhile(
    start_app: Start, qtbot: QtBot, chat: ReplayChat
) -> None:
    go_on = threading.Event()

    def opener(*_: object) -> Generator[Progress, None, ReplayChat]:
        yield Progress("Converting the model", 30, 100)
        go_on.wait(5)
        yield Progress("Converting the model", 100, 100)
        return chat

    app = start_app(opener, ready=False)
    qtbot.waitUntil(lambda: app.window.status_line.facts.full == "Converting the model", timeout=5000)
    assert app.window.status_line.progress.value() == 300
    qtbot.keyClicks(app.views.composer.edit, "hello")
    qtbot.keyClick(app.views.composer.edit, Qt.Key.Key_Return)
    assert app.views.composer.text() == "hello"
    assert not app.views.composer.button.isEnabled()
    assert "being loaded" in app.views.composer.reason.text()
    go_on.set()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)
    assert app.views.composer.button.isEnabled()
    assert not app.views.composer.reason.text()


def test_stop_ends_the_reply_within_one_step(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Callable[[Application], None]
) -> None:
    chat.seconds_per_step = 0.1
    ask(app, wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 3, timeout=5000)
    seen = len(app.views.panel.steps)
    qtbot.keyClick(app.views.composer.edit, Qt.Key.Key_Escape)
    wait_for_rest(app)
    assert len(app.views.panel.steps) <= seen + 1
    assert app.views.chat.replies()[0].footer.text().endswith("stopped")
    chat.seconds_per_step = 0
    ask(app)  # and the conversation goes on from the half reply
    assert chat.calls[-1][0][1]["content"] == app.controller.turns[0].answer != ""


def test_a_new_chat_forgets_the_old_one_even_during_a_reply(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Callable[[Application], None]
) -> None:
    chat.seconds_per_step = 0.05
    ask(app, wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 2, timeout=5000)
    app.window.new_chat_action.trigger()
    assert app.views.chat.replies() == ()
    wait_for_rest(app)
    assert app.views.chat.replies() == ()
    assert app.controller.turns == []
    assert app.views.panel.steps == ()
    tree = app.views.panel.findChild(TreeView)
    assert isinstance(tree, TreeView)
    assert tree.accessibleDescription() == EMPTY
    chat.seconds_per_step = 0
    ask(app, "afresh")
    assert chat.calls[-1][0] == [{"role": "user", "content": "afresh"}]


def test_slow_mode_paces_the_steps_and_stop_does_not_wait_for_it(
    app: Application, ask: Ask, qtbot: QtBot, wait_for_rest: Callable[[Application], None]
) -> None:
    app.views.panel.slow_toggled.emit(True)
    ask(app, wait=False)
    qtbot.wait(700)
    assert 1 <= len(app.views.panel.steps) <= 4
    with qtbot.waitSignal(app.worker.finished, timeout=200):
        qtbot.keyClick(app.views.composer.edit, Qt.Key.Key_Escape)
    wait_for_rest(app)


def test_holding_a_step_outlines_its_words(app: Application, ask: Ask, chat: ReplayChat) -> None:
    ask(app)
    reply = app.views.chat.replies()[0]
    app.views.panel.show_step(7)
    step = app.views.panel.steps[7]
    assert reply.text.held_span() == (step.spans[0][0], step.spans[-1][1])
    app.views.panel.go_live()
    assert reply.text.held_span() is None


def test_choosing_a_word_shows_its_step_also_of_an_older_reply(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot
) -> None:
    first = [event for event in chat.events if isinstance(event, Step)]
    ask(app)
    chat.events = scripted_reply(12, seed=5)
    ask(app)
    with qtbot.waitSignal(app.views.panel.step_shown) as shown:
        app.views.chat.replies()[0].text.token_chosen.emit(first[20].spans[-1][0])
    assert shown.args == [20]
    assert app.views.panel.steps == tuple(first)
    assert app.views.chat.replies()[0].text.held_span() == (first[20].spans[0][0], first[20].spans[-1][1])
    assert app.views.chat.replies()[1].text.held_span() is None


def test_folding_the_panel_and_the_tint_are_remembered(start_app: Start, profile: Path) -> None:
    app = start_app()
    app.window.panel_action.setChecked(False)
    app.window.tint_action.setChecked(False)
    app.window.close()
    again = start_app()
    assert not again.views.panel.isVisible()
    assert not again.window.tint_action.isChecked()
    assert json.loads((profile / "window.json").read_text(encoding="utf-8"))["panel"] is False


def test_closing_during_a_reply_ends_the_thread(app: Application, ask: Ask, chat: ReplayChat) -> None:
    chat.seconds_per_step = 0.05
    ask(app, wait=False)
    app.window.close()
    assert app.closed_cleanly


def test_closing_while_loading_ends_the_thread(start_app: Start, qtbot: QtBot) -> None:
    def opener(*_: object) -> Generator[Progress, None, None]:
        while True:
            yield Progress("Reading the weights", 0, 0)
            threading.Event().wait(0.01)

    app = start_app(opener, ready=False)
    qtbot.waitUntil(lambda: app.controller.phase is Phase.LOADING, timeout=5000)
    app.window.close()
    assert app.closed_cleanly


def test_the_theme_changes_at_once(app: Application, qapp: QApplication) -> None:
    app.controller.change_setting("theme", "light")
    light = qapp.palette().color(QPalette.ColorRole.Window)
    app.controller.change_setting("theme", "dark")
    assert qapp.palette().color(QPalette.ColorRole.Window).lightnessF() < 0.5 < light.lightnessF()
    assert QColor(app.theme.surface) == qapp.palette().color(QPalette.ColorRole.Window)


def test_everything_the_keyboard_reaches_has_a_name(app: Application, ask: Ask) -> None:
    ask(app)
    app.controller.open_settings()
    nameless = [
        f"{type(widget).__name__} in {type(widget.parentWidget()).__name__}"
        for top in (app.window, app.views.dialog)
        for widget in top.findChildren(QWidget)
        if widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.focusProxy() is None
        if not _name(widget)
    ]
    assert not nameless, "; ".join(nameless)


def _name(widget: QWidget) -> str:
    text = getattr(widget, "text", None)
    return widget.accessibleName() or (text() if callable(text) else "")


def test_the_quick_switch_and_the_dialog_agree(app: Application) -> None:
    assert app.window.rule_box.currentText() == "Exact sampling"
    app.window.rule_box.activated.emit(app.window.rule_box.findData("typical"))
    assert app.controller.settings["acceptance"] == "typical"
    assert app.views.dialog.controls["epsilon"].widget.isEnabled()
    app.controller.change_setting("acceptance", "greedy")
    assert app.window.rule_box.currentData() == "greedy"
    app.window.rule_action.trigger()  # the keyboard's way to it
    assert app.window.focusWidget() is app.window.rule_box


def test_why_nothing_is_drafted_is_said_in_the_status_line(app: Application, ask: Ask, chat: ReplayChat) -> None:

    reason = app.window.status_line.reason
    chat.events = [
        replace(event, note="It does not pay.") if isinstance(event, Step) else event for event in chat.events
    ]
    ask(app)
    assert reason.full == "It does not pay."
    app.controller.change_setting("drafter", "none")
    assert "off in the settings" in reason.full
    app.controller.change_setting("drafter", "medusa")
    app.controller.new_chat()
    assert reason.full == ""


def test_the_font_size_changes_at_once(app: Application, qapp: QApplication) -> None:
    before = qapp.font().pixelSize()
    app.controller.change_setting("font_size", 22)
    assert qapp.font().pixelSize() == 22
    assert app.views.panel.font().pixelSize() == 22
    app.controller.change_setting("font_size", 12)
    assert qapp.font().pixelSize() == before


def test_the_composer_is_ready_again_after_a_reply(app: Application, ask: Ask) -> None:
    ask(app, wait=False)
    assert app.views.composer.button.text() == "Stop"
    ask_ended = app.controller
    while ask_ended.phase is Phase.REPLYING:
        QApplication.processEvents()
    assert app.views.composer.button.text() == "Send"
    assert app.views.composer._state is ComposerState.READY


def test_no_reference_to_none_is_lost_in_a_thousand_calls(app: Application) -> None:
    label = app.window.status_line.context
    before = sys.getrefcount(None)
    for number in range(1000):
        label.setText(str(number))
    assert abs(sys.getrefcount(None) - before) < 200


def test_importing_the_app_imports_no_numeric_library() -> None:
    check = "import sys, app.application; print(sorted({'torch', 'transformers', 'tokenizers'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_another_theme_moves_nothing(app: Application, qtbot: QtBot) -> None:
    app.controller.change_setting("theme", "light")
    qtbot.wait(50)
    bar = app.window.findChild(QToolBar)
    assert isinstance(bar, QToolBar)
    before = (bar.height(), app.views.composer.geometry())
    for name in ("dark", "light", "dark"):
        app.controller.change_setting("theme", name)
        qtbot.wait(50)
        assert app.theme.name == name
        assert (bar.height(), app.views.composer.geometry()) == before


def test_the_model_does_not_wait_long_for_python_while_the_window_paints(app: Application) -> None:
    """Measured on two cores: with Python's usual 5 ms the same reply takes a sixth longer."""
    assert sys.getswitchinterval() <= 0.001
