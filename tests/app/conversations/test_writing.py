"""A reply on its way into the store: there as soon as it is written, steps and all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations import ConversationStore, Figures, MessageState, StoreError, state_after
from app.conversations.store import FILE_NAME
from medusa_core.events import Finished, Step, StopReason
from medusa_core.testing import scripted_reply


def test_text_is_there_as_soon_as_it_is_appended(store: ConversationStore, folder: Path) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id, Figures(model="m", rule="greedy", seed=7))
    for text in ("Hello ", "", "wörld\0 ", "👩‍👧"):
        writer.append(text)
    other = sqlite3.connect(folder / FILE_NAME)
    pieces = other.execute("SELECT text FROM piece ORDER BY id").fetchall()
    other.close()
    assert "".join(piece[0] for piece in pieces) == "Hello wörld\0 👩‍👧"
    reply = store.messages.branch(question.conversation)[1]
    assert (reply.text, reply.state) == ("Hello wörld\0 👩‍👧", MessageState.STREAMING)
    figures = Figures("m", "greedy", 7, 4, 20.0, 2.0, 0.1, "stop")
    writer.finish(MessageState.COMPLETE, figures)
    reply = store.messages.branch(question.conversation)[1]
    assert (reply.text, reply.state, reply.figures) == ("Hello wörld\0 👩‍👧", MessageState.COMPLETE, figures)
    assert store.database.read("SELECT * FROM piece") == []


def test_a_token_costs_one_new_row_however_long_the_text(store: ConversationStore) -> None:
    writer = store.messages.begin_reply(store.messages.ask("q").id)
    writer.append("x" * 100_000)
    statements: list[str] = []
    connection = store.database._connection
    connection.set_trace_callback(statements.append)
    writer.append("y")
    connection.set_trace_callback(None)
    assert [statement.split()[0] for statement in statements] == ["BEGIN", "INSERT", "COMMIT"]


def test_a_reply_of_a_dead_process_is_cut_and_can_go_on(
    store: ConversationStore, open_store: Callable[[], ConversationStore]
) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id, Figures(model="m"))
    events = scripted_reply(40)
    writer.append("half ", events[:30])
    store = open_store()
    assert store.cut_replies == [writer.message]
    reply = store.messages.get(writer.message)
    assert (reply.text, reply.state, reply.figures) == ("half ", MessageState.CUT, Figures(model="m"))
    assert [hit.message for hit in store.search("half")] == [reply.id]
    steps = [event for event in store.steps(reply.id) if isinstance(event, Step)]
    assert len(steps) >= 16
    writer = store.messages.continue_reply(reply.id)
    first = next(event for event in events if isinstance(event, Step) and event.spans)
    writer.append("done", [first])
    writer.finish(MessageState.COMPLETE, replace(writer.figures, tokens=2))
    assert store.messages.get(reply.id).text == "half done"
    assert store.steps(reply.id)[-1] == first
    assert open_store().cut_replies == []


def test_steps_come_back_as_they_were_and_take_little_room(store: ConversationStore) -> None:
    writer = store.messages.begin_reply(store.messages.ask("q").id)
    events = scripted_reply(60)
    for event in events:
        writer.append("t", [event])
    finished = events[-1]
    assert isinstance(finished, Finished)
    writer.finish(state_after(finished.reason), writer.figures.measured(events, "stop"))
    steps = store.steps(writer.message)
    assert [event for event in steps if isinstance(event, Step | Finished)] == [
        event for event in events if isinstance(event, Step | Finished)
    ]
    figures = store.messages.get(writer.message).figures
    assert figures is not None
    assert (figures.tokens, figures.tokens_per_step) == (finished.tokens, finished.tokens_per_step)
    assert figures.first_token_seconds == pytest.approx(0.2 + 0.03)
    assert figures.ending == "stop"
    size = store.database.read("SELECT sum(length(events)) FROM steps")[0][0]
    assert size / sum(isinstance(event, Step) for event in steps) < 1500  # bytes


def test_damaged_steps_are_named_and_leave_the_text(store: ConversationStore) -> None:
    writer = store.messages.begin_reply(store.messages.ask("q").id)
    writer.append("text", scripted_reply(3))
    writer.finish(MessageState.COMPLETE)
    with store.database.writing() as connection:
        connection.execute("UPDATE steps SET events = x'00'")
    with pytest.raises(StoreError, match="text is not affected"):
        store.steps(writer.message)
    assert store.messages.get(writer.message).text == "text"


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (StopReason.STOP, MessageState.COMPLETE),
        (StopReason.CANCELLED, MessageState.STOPPED),
        (StopReason.LENGTH, MessageState.CUT),
        (StopReason.CONTEXT_FULL, MessageState.CUT),
    ],
)
def test_how_a_reply_ended(reason: StopReason, state: MessageState) -> None:
    assert state_after(reason) is state


def test_text_that_utf8_cannot_hold_keeps_its_length(store: ConversationStore) -> None:
    assert store.messages.ask("a\ud83d b").text == "a\ufffd b"
