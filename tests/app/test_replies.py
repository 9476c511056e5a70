"""Asking again, going on, and steering: nothing that was written is lost by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.conversations import Figures, MessageState
from app.views.figures_line import figures_line
from medusa_core.events import Finished, Step
from medusa_core.testing import ReplayChat, scripted_reply

Ask = Callable[..., None]
Rest = Callable[[Application], None]
Start = Callable[..., Application]


def steps_of(chat: ReplayChat) -> list[Step]:
    return [event for event in chat.events if isinstance(event, Step)]


def whole_text(chat: ReplayChat) -> str:
    finished = chat.events[-1]
    assert isinstance(finished, Finished)
    return finished.text


@pytest.fixture
def stopped(app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest) -> Application:
    """The app with a reply that was stopped after some steps."""
    chat.seconds_per_step = 0.03
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 4, timeout=5000)
    app.controller.stop()
    wait_for_rest(app)
    chat.seconds_per_step = 0
    return app


def test_regenerating_keeps_the_first_reply_as_a_variant(
    app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Rest
) -> None:
    ask(app, "one")
    ask(app, "two")
    first = whole_text(chat)
    chat.events = scripted_reply(9, seed=4)
    app.window.regenerate_action.trigger()
    wait_for_rest(app)
    assert [message["content"] for message in chat.calls[-1][0]] == ["one", first, "two"]
    assert [turn.answer for turn in app.controller.turns] == [first, whole_text(chat)]
    reply = app.views.chat.replies()[-1]
    assert reply.bar.place.text() == "2/2"
    assert reply.bar.previous_button.isEnabled()
    assert not reply.bar.next_button.isEnabled()
    reply.bar.previous_button.click()
    assert app.controller.turns[-1].answer == first
    assert app.views.chat.replies()[-1].text.text == first
    assert app.views.panel.steps == tuple(steps_of(ReplayChat()))


def test_a_reply_in_the_middle_gets_another_and_what_followed_stays_with_the_old_one(
    app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Rest
) -> None:
    ask(app, "one")
    ask(app, "two")
    chat.events = scripted_reply(9, seed=4)
    app.views.chat.replies()[0].again_button.click()
    wait_for_rest(app)
    assert [turn.question for turn in app.controller.turns] == ["one"]
    assert len(app.views.chat.questions()) == 1
    app.controller.conversations.show_previous_variant()
    assert [turn.question for turn in app.controller.turns] == ["one", "two"]
    assert len(app.views.chat.replies()) == 2


def test_editing_a_question_asks_again_and_the_old_branch_stays(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    ask(app, "one")
    ask(app, "two")
    question = app.views.chat.questions()[0]
    question.edit_button.click()
    assert question.editor is not None
    assert question.editor.toPlainText() == "one"
    qtbot.keyClicks(question.editor, "uno")
    qtbot.keyClick(question.editor, Qt.Key.Key_Return)
    wait_for_rest(app)
    assert chat.calls[-1][0] == [{"role": "user", "content": "uno"}]
    assert [turn.question for turn in app.controller.turns] == ["uno"]
    bar = app.views.chat.questions()[0].bar
    assert bar.place.text() == "2/2"
    bar.previous_button.click()
    assert [turn.question for turn in app.controller.turns] == ["one", "two"]


def test_escape_leaves_the_question_as_it_was(app: Application, ask: Ask, qtbot: QtBot, chat: ReplayChat) -> None:
    ask(app, "one")
    question = app.views.chat.questions()[0]
    question.begin_editing()
    assert question.editor is not None
    qtbot.keyClicks(question.editor, "uno")
    qtbot.keyClick(question.editor, Qt.Key.Key_Escape)
    assert question.editor is None
    assert question.text.isVisible()
    assert len(chat.calls) == 1


def test_the_keys_walk_through_the_variants(app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Rest) -> None:
    ask(app, "one")
    for seed in (3, 4):
        chat.events = scripted_reply(9, seed=seed)
        app.controller.replies.regenerate_last()
        wait_for_rest(app)
    places = []
    for action in ("Previous variant", "Previous variant", "Previous variant", "Next variant"):
        next(found for found in app.window.actions() if found.text() == action).trigger()
        places.append(app.views.chat.replies()[0].bar.place.text())
    assert places == ["2/3", "1/3", "1/3", "2/3"]


def test_a_stopped_reply_goes_on_where_it_ended(stopped: Application, chat: ReplayChat, wait_for_rest: Rest) -> None:
    app = stopped
    reply = app.views.chat.replies()[0]
    half, steps = reply.text.text, app.views.panel.steps
    assert whole_text(chat).startswith(half)
    assert app.controller.turns[0].state is MessageState.STOPPED
    assert reply.continue_button.isVisible()
    reply.continue_button.click()
    assert app.controller.phase is Phase.REPLYING
    assert not reply.continue_button.isVisible()
    wait_for_rest(app)
    assert chat.written[-1] == tuple(token for step in steps for token in step.token_ids)
    assert chat.calls[-1][0] == [{"role": "user", "content": "one"}]
    assert app.views.chat.replies() == (reply,)
    assert reply.text.text == app.controller.turns[0].answer == whole_text(chat)
    assert app.controller.turns[0].reply_place == (0, 1)
    assert app.views.panel.steps == tuple(steps_of(chat))  # numbered through
    assert reply.footer.text().startswith(f"{sum(len(step.token_ids) for step in steps_of(chat))}\u00a0tokens")
    assert reply.text.step_at(len(half) + 2) == len(steps)
    assert not reply.continue_button.isVisible()


def test_only_the_last_reply_can_go_on(stopped: Application, ask: Ask) -> None:
    ask(stopped, "two")
    assert not stopped.views.chat.replies()[0].continue_button.isVisible()


def test_a_stopped_reply_goes_on_after_a_restart(
    stopped: Application, start_app: Start, chat: ReplayChat, wait_for_rest: Rest, qtbot: QtBot
) -> None:
    half = stopped.controller.turns[0].answer
    stopped.window.close()
    app = start_app()
    app.controller.conversations.open(app.store.conversations()[0].id)
    reply = app.views.chat.replies()[0]
    assert reply.text.text == half
    assert "stopped" in reply.footer.text()
    reply.continue_button.click()
    wait_for_rest(app)
    assert reply.text.text == whole_text(chat)
    saved = app.store.steps(app.controller.turns[0].reply or 0)
    assert [event for event in saved if isinstance(event, Step)] == steps_of(chat)  # as if never stopped


def test_steering_begins_a_variant_with_exactly_these_tokens(
    app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Rest
) -> None:
    ask(app, "one")
    first, steps = whole_text(chat), steps_of(chat)
    kept = [token for step in steps[:3] for token in step.token_ids]
    app.controller.steer(0, [*kept, 5, 6])
    wait_for_rest(app)
    assert chat.written[-1] == (*kept, 5, 6)
    turn = app.controller.turns[0]
    assert turn.reply_place == (1, 2)
    before = first[: steps[2].spans[-1][1]]
    assert turn.answer.startswith(before + " mat and")  # the words of the tokens 5 and 6 in the script
    assert app.views.chat.replies()[0].text.text == turn.answer
    assert app.views.panel.steps[:3] == tuple(steps[:3])
    assert [step.index for step in app.views.panel.steps] == list(range(len(app.views.panel.steps)))
    stored = app.store.messages.get(turn.reply or 0)
    assert (stored.text, stored.state) == (turn.answer, MessageState.COMPLETE)
    footer = app.views.chat.replies()[0].footer.text()
    assert "first" in footer
    assert footer == figures_line(stored.figures or Figures(), stored.state)  # the same when it is opened again
    app.controller.conversations.show_previous_variant()
    assert app.controller.turns[0].answer == first


def test_nothing_is_asked_while_a_reply_is_written(app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot) -> None:
    ask(app, "one")
    chat.seconds_per_step = 0.05
    ask(app, "two", wait=False)
    qtbot.waitUntil(lambda: len(chat.calls) == 2, timeout=60_000)
    for button in (
        app.views.chat.questions()[0].edit_button,
        app.views.chat.replies()[0].again_button,
        app.views.chat.replies()[0].remove_button,
    ):
        assert not button.isEnabled()
    assert app.views.chat.replies()[0].copy_button.isEnabled()
    app.controller.replies.regenerate_last()
    app.controller.steer(0, [1])
    app.controller.conversations.show_previous_variant()
    chat.seconds_per_step = 0.0
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=60_000)
    assert len(chat.calls) == 2


def test_copying_gives_what_was_written(app: Application, ask: Ask, chat: ReplayChat, qapp: QApplication) -> None:
    ask(app, "one **bold**")
    app.views.chat.questions()[0].copy_button.click()
    assert qapp.clipboard().text() == "one **bold**"
    app.views.chat.replies()[0].copy_button.click()
    assert qapp.clipboard().text() == whole_text(chat)
