"""The conversations in the window: kept, found, renamed, deleted and brought back, taken out and read in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application
from app.conversations import Conversation, Hit, MessageState
from app.views import files
from app.views.conversation_model import Heading
from app.views.notices import Topic
from medusa_core.events import Step
from medusa_core.testing import ReplayChat

Ask = Callable[..., None]
Rest = Callable[[Application], None]
Start = Callable[..., Application]


def titles(app: Application) -> list[str]:
    return [row.title for row in app.views.sidebar.model.rows if isinstance(row, Conversation)]


def find(app: Application, qtbot: QtBot, words: str) -> list[Hit]:
    with qtbot.waitSignal(app.views.sidebar.search_changed):
        app.views.sidebar.search.setText(words)
    return [row for row in app.views.sidebar.model.rows if isinstance(row, Hit)]


def test_a_conversation_is_listed_under_its_first_question(app: Application, ask: Ask) -> None:
    assert app.views.sidebar.empty_text.startswith("No conversations yet")
    ask(app, "How do cats purr?")
    ask(app, "And lions?")
    app.window.new_chat_action.trigger()
    ask(app, "Something else")
    assert app.views.sidebar.model.rows[0] == Heading("Today")
    assert titles(app) == ["Something else", "How do cats purr?"]
    assert app.views.sidebar.empty_text == ""


def test_it_comes_back_with_its_steps_after_a_restart(
    start_app: Start, ask: Ask, chat: ReplayChat, qtbot: QtBot
) -> None:
    app = start_app()
    ask(app, "How do cats purr?")
    ask(app, "And lions?")
    first, footer = app.views.chat.replies()[0].text.text, app.views.chat.replies()[0].footer.text()
    app.window.close()
    app = start_app()
    assert titles(app) == ["How do cats purr?"]
    app.views.sidebar.list.clicked.emit(app.views.sidebar.model.index(1))
    assert [turn.question for turn in app.controller.turns] == ["How do cats purr?", "And lions?"]
    reply = app.views.chat.replies()[0]
    assert (reply.text.text, reply.footer.text()) == (first, footer)
    steps = [event for event in chat.events if isinstance(event, Step)]
    assert app.views.panel.steps == tuple(steps)
    qtbot.waitUntil(lambda: app.controller.turns[0].has_events, timeout=2000)  # the older ones a little later
    assert reply.text.drafted_spans() == app.views.chat.replies()[1].text.drafted_spans() != []
    app.views.chat.step_chosen.emit(0, 5)
    assert reply.text.held_span() == (steps[5].spans[0][0], steps[5].spans[-1][1])
    ask(app, "And tigers?")
    assert [message["content"] for message in chat.calls[-1][0]][::2] == [
        "How do cats purr?", "And lions?", "And tigers?"
    ]  # fmt: skip


def test_the_last_second_is_all_that_can_be_lost(app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot) -> None:
    chat.seconds_per_step = 0.05
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 5, timeout=5000)
    saved = app.store.messages.get(app.controller.turns[0].reply or 0)
    assert saved.state is MessageState.STREAMING
    assert saved.text == app.views.chat.replies()[0].text.text != ""


def test_leaving_during_a_reply_keeps_what_there_is(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    ask(app, "first")
    app.controller.new_chat()
    chat.seconds_per_step = 0.05
    ask(app, "second", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 2, timeout=5000)
    half, second = app.controller.turns[0].answer, app.controller.replies.transcript.conversation
    app.controller.conversations.open(app.store.conversations()[1].id)
    assert [turn.question for turn in app.controller.turns] == ["first"]
    wait_for_rest(app)
    assert second is not None
    app.controller.conversations.open(second)
    assert app.controller.turns[0].answer == half
    assert app.views.chat.replies()[0].continue_button.isVisible()


def test_searching_finds_titles_and_texts_and_opens_the_place(app: Application, ask: Ask, qtbot: QtBot) -> None:
    for text in ("Naive question", "and a zebra"):
        ask(app, text)
    app.controller.new_chat()
    ask(app, "other")
    app.controller.conversations.new_chat()
    (hit,) = find(app, qtbot, "zeb")
    assert ("zebra", True) in hit.snippet
    (hit,) = find(app, qtbot, "naïve")  # its title says nothing that the question does not
    assert hit.message is not None
    find(app, qtbot, "zeb")
    app.views.sidebar.list.clicked.emit(app.views.sidebar.model.index(0))
    assert [turn.question for turn in app.controller.turns] == ["Naive question", "and a zebra"]
    app.views.sidebar.search.setText("nothing like this")
    qtbot.waitUntil(lambda: app.views.sidebar.empty_text.startswith("Nothing found for “nothing like this”"))
    app.views.sidebar.search.clear()
    assert len(titles(app)) == 2


def test_a_hit_on_another_branch_shows_that_branch(
    app: Application, ask: Ask, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    ask(app, "zebra")
    app.controller.replies.edit(0, "lion")
    wait_for_rest(app)
    hits = [hit for hit in find(app, qtbot, "zebra") if hit.message is not None]
    app.controller.conversations.open(hits[0].conversation, hits[0].message)
    assert [turn.question for turn in app.controller.turns] == ["zebra"]


def test_renaming_pinning_and_duplicating(app: Application, ask: Ask) -> None:
    for text in ("one", "two"):
        app.controller.new_chat()
        ask(app, text)
    model = app.views.sidebar.model
    assert model.setData(model.index(2), "  Other\n name ")
    assert titles(app) == ["two", "Other name"]
    assert not model.setData(model.index(2), "  ")
    app.views.sidebar.pinning_asked.emit(model.rows[2].id, True)
    assert [row.title for row in model.rows] == ["Pinned", "Other name", "Today", "two"]
    app.views.sidebar.duplicate_asked.emit(model.rows[1].id)
    assert [row.title for row in model.rows] == ["Pinned", "Other name", "Today", "Other name", "two"]
    assert app.controller.replies.transcript.conversation == model.rows[3].id


def test_deleting_asks_nothing_and_can_be_undone(app: Application, ask: Ask) -> None:
    ask(app, "gone")
    number = app.store.conversations()[0].id
    app.views.sidebar.removal_asked.emit(number)
    assert titles(app) == []
    assert app.controller.turns == []
    assert app.views.undo.text == "Deleted “gone”"
    app.views.undo.undo_button.click()
    assert titles(app) == ["gone"]
    assert app.controller.turns[0].question == "gone"
    assert app.views.undo.text == ""
    app.controller.new_chat()
    ask(app, "another")
    app.views.sidebar.all_removal_asked.emit()
    assert titles(app) == []
    app.views.undo.undo_button.click()
    assert titles(app) == ["another", "gone"]


def test_deleting_a_message_takes_what_follows_and_can_be_undone(app: Application, ask: Ask) -> None:
    for text in ("one", "two", "three"):
        ask(app, text)
    app.views.chat.replies()[1].remove_button.click()
    assert [(turn.question, bool(turn.answer)) for turn in app.controller.turns] == [("one", True), ("two", False)]
    assert len(app.views.chat.replies()) == 1
    app.views.undo.undo_button.click()
    assert [turn.question for turn in app.controller.turns] == ["one", "two", "three"]
    app.views.chat.questions()[0].remove_button.click()
    assert app.controller.turns == []
    app.controller.new_chat()  # the undo goes with the conversation it was about
    assert app.views.undo.text == ""


def test_a_question_whose_reply_was_deleted_is_asked_again(
    app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Rest
) -> None:
    ask(app, "one")
    app.views.chat.replies()[0].remove_button.click()
    app.controller.replies.regenerate_last()
    wait_for_rest(app)
    assert app.controller.turns[0].answer
    assert chat.calls[-1][0] == [{"role": "user", "content": "one"}]


@pytest.mark.parametrize("form", ["markdown", "json"])
def test_one_or_all_are_exported(
    app: Application, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    for text in ("Cats / dogs?", "two"):
        app.controller.new_chat()
        ask(app, text)
    names: list[str] = []
    path = tmp_path / "exported é"

    def choose(_parent: object, _title: str, name: str, _kind: str, _ending: str) -> Path:
        names.append(name)
        return path

    monkeypatch.setattr(files, "ask_where_to_save", choose)
    app.views.sidebar.export_asked.emit([app.store.conversations()[1].id], form)
    assert names == ["Cats dogs"]
    text = path.read_text(encoding="utf-8")
    assert "Cats / dogs?" in text
    assert "two" not in text.replace("tokens", "")[:60]
    app.views.sidebar.export_asked.emit(None, form)
    text = path.read_text(encoding="utf-8")
    assert "Cats / dogs?" in text
    assert names[1] == "conversations"
    if form == "json":
        assert len(json.loads(text)["conversations"]) == 2
    else:
        assert text.count("\n# ") + text.startswith("# ") == 2
    (notice,) = app.views.notices.shown()
    assert notice.text.startswith("Wrote 2 conversations to")


def test_what_was_exported_is_imported(
    app: Application, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for_rest: Rest
) -> None:
    ask(app, "cats")
    app.controller.replies.regenerate_last()
    wait_for_rest(app)
    path = tmp_path / "all.json"
    monkeypatch.setattr(files, "ask_where_to_save", lambda *_: path)
    monkeypatch.setattr(files, "ask_what_to_open", lambda *_: path)
    app.views.sidebar.export_asked.emit(None, "json")
    app.views.sidebar.import_asked.emit()
    assert titles(app) == ["cats", "cats"]
    assert app.controller.turns[0].reply_place == (1, 2)  # the imported one is open, variants and all
    assert app.views.panel.steps == ()  # the steps are not in the file
    path.write_text('{"format": "something else"}', encoding="utf-8")
    app.views.sidebar.import_asked.emit()
    (notice,) = app.views.notices.shown()
    assert (notice.topic, notice.is_error) == (Topic.FILES, True)
    assert "nothing was imported" in notice.text
    assert len(titles(app)) == 2


def test_a_place_that_takes_no_file_is_told(
    app: Application, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(app, "cats")
    monkeypatch.setattr(files, "ask_where_to_save", lambda *_: tmp_path / "no folder" / "x.md")
    app.views.sidebar.export_asked.emit(None, "markdown")
    (notice,) = app.views.notices.shown()
    assert "could not be written" in notice.text
