"""A model that thinks aloud in the whole app: what it is told again, what is kept, and what comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.conversations import MessageState, Turn
from app.conversations.records import Figures
from app.jobs import messages_of
from medusa_core.events import Event, Finished, Prefilled, Step
from medusa_core.testing import ReplayChat
from tests.app.views.thinking.thoughts import finished, read, steps_of

Ask = Callable[..., None]
Rest = Callable[[Application], None]
Start = Callable[..., Application]

TAGGED = "<think>\nSo, a **cat**.\n</think>\n\nIt purrs."
OPENED = "So, a **cat**.\n</think>\n\nIt purrs."


def thinking(text: str, opened: str = "") -> list[Event]:
    return [Prefilled(24, 0, 8192, 0.2, opened=opened), *steps_of(text), finished(text)]


@pytest.fixture(params=[(TAGGED, ""), (OPENED, "think")], ids=["its own tag", "the prompt's tag"])
def thinker(request: pytest.FixtureRequest, chat: ReplayChat) -> tuple[str, str]:
    """What the model writes, and the tag that its prompts end with."""
    text, opened = request.param
    chat.events = thinking(text, opened)
    return text, opened


def test_the_model_is_told_its_answers_and_not_what_it_thought(
    app: Application, ask: Ask, chat: ReplayChat, thinker: tuple[str, str]
) -> None:
    ask(app, "one")
    ask(app, "two")
    assert [message["content"] for message in chat.calls[-1][0]] == ["one", "It purrs.", "two"]
    assert [turn.answer for turn in app.controller.turns] == [thinker[0]] * 2


@pytest.mark.parametrize(
    ("answer", "opened", "told"),
    [
        (TAGGED, "", "It purrs."),
        (OPENED, "think", "It purrs."),
        (OPENED, "", OPENED),
        ("Write <think>x</think>.", "", "Write <think>x</think>."),
        ("<think>So", "", ""),
        ("  plain\n", "", "  plain\n"),
    ],
)
def test_only_thinking_is_left_out_of_what_the_model_is_told(answer: str, opened: str, told: str) -> None:
    turns = [Turn("<think>q</think>", answer=answer, figures=Figures(opened=opened)), Turn("next")]
    assert [message["content"] for message in messages_of(turns, "")] == ["<think>q</think>", told, "next"]


def test_it_is_folded_the_same_after_a_restart_and_its_steps_tell_how_long_it_took(
    start_app: Start, ask: Ask, qtbot: QtBot, thinker: tuple[str, str]
) -> None:
    app = start_app()
    ask(app, "How do cats purr?")
    parts, line = read(app.views.chat.replies()[0].text), app.views.chat.replies()[0].text.thinking.head.text()
    assert parts == ("So, a cat.", "It purrs.")
    assert line.startswith("Thought for ")
    app.window.close()
    app = start_app()
    app.views.sidebar.list.clicked.emit(app.views.sidebar.model.index(1))
    reply = app.views.chat.replies()[0]
    assert reply.text.thinking.is_folded
    assert read(reply.text) == parts
    qtbot.waitUntil(lambda: reply.text.thinking.head.text() == line, timeout=5000)
    assert app.controller.turns[0].figures.opened == thinker[1]


def test_where_it_begins_is_saved_before_its_first_word(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    """A killed process has saved what the reply is, not only its text."""
    chat.events, chat.seconds_per_step = thinking(OPENED, "think"), 0.05
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: bool(app.controller.turns[0].answer), timeout=5000)
    reply = app.controller.turns[0].reply
    assert reply is not None
    saved = app.controller.replies.transcript.store.messages.get(reply)
    assert saved.state is MessageState.STREAMING
    assert saved.figures is not None
    assert saved.figures.opened == "think"
    app.controller.stop()
    wait_for_rest(app)


@pytest.mark.parametrize("after", [1, 4])
def test_steering_inside_it_and_going_on_keep_it_what_it_is(
    app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Rest, after: int
) -> None:
    chat.events = thinking(OPENED, "think")
    ask(app, "one")
    steps = [event for event in app.controller.turns[0].events if isinstance(event, Step)]
    kept = [token for step in steps[:after] for token in step.token_ids]
    app.controller.steer(0, kept)
    wait_for_rest(app)
    turn, reply = app.controller.turns[0], app.views.chat.replies()[0]
    assert turn.reply_place == (1, 2)
    assert turn.figures.opened == "think"
    assert reply.text.thinking.isVisible()
    assert reply.text.text == turn.answer
    assert app.controller.phase is Phase.READY


def test_a_click_in_what_was_thought_shows_its_step_in_the_panel(
    app: Application, ask: Ask, thinker: tuple[str, str], qtbot: QtBot
) -> None:
    ask(app, "one")
    reply = app.views.chat.replies()[0]
    reply.text.thinking.head.click()
    offset = thinker[0].index("cat")
    text = reply.text.thinking.column.texts()[0]
    text.offset_chosen.emit(offset)
    assert reply.text.held_span() == (6 * (offset // 6), 6 * (offset // 6) + 6)


def test_a_reply_that_thinks_is_stored_as_it_was_written(app: Application, ask: Ask, chat: ReplayChat) -> None:
    chat.events = thinking(TAGGED)
    ask(app, "one")
    last = chat.events[-1]
    assert isinstance(last, Finished)
    reply = app.controller.turns[0].reply
    assert reply is not None
    assert app.controller.replies.transcript.store.messages.get(reply).text == last.text == TAGGED
