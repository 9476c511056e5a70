"""A reply that thinks aloud while it is written: all of it in its part, none of it written twice."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.conversations import MessageState
from app.theme import Theme
from app.views.chat import Chat
from app.views.reply import Reply
from app.views.reply_text import ReplyText
from medusa_core.events import Prefilled, StopReason
from tests.app.views.thinking.thoughts import TEXT, THOUGHT, finished, read, restored, steps_of


def test_streamed_it_says_how_long_it_thinks_and_then_how_long_it_thought(chat: Chat) -> None:
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    reply.show_events([Prefilled(1, 0, 100, 0.1)])
    said = []
    for step in steps_of(TEXT):
        reply.show_events([step])
        words, visible = reply.text.thinking.head.text(), reply.text.thinking.isVisible()
        said.append(words if visible else "")
    reply.show_events([finished(TEXT)])
    assert said[0] == ""  # nothing is thought yet
    assert said[1] == "Thinking… 2 s · 4 tokens"
    steps = -(-(len("<think>") + len(THOUGHT)) // 6)
    assert said[-1] == reply.text.thinking.head.text() == f"Thought for {steps} s"
    assert reply.answer_button.isVisible()


PIECES = ["<think>", "</think>", "<thi", "</thi", "nk>", "a", " b ", "\n\n", "`", "```\n", "| c |\n|---|\n", "1. d\n"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14), opened=st.sampled_from(["", "think"]))
def test_however_it_comes_in_it_reads_the_same_in_the_end_and_nothing_shown_is_taken_away(
    qtbot: QtBot, theme: Theme, pieces: list[str], opened: str
) -> None:
    text, at_once = ReplyText(theme), ReplyText(theme)
    for widget in (text, at_once):
        qtbot.addWidget(widget)
        widget.begin_inside(opened)
    for piece in pieces:
        thought, answer = (column.text[column.start :] for column in text.columns)
        text.append_text(piece)
        assert text.columns[0].text[text.columns[0].start :].startswith(thought)
        assert text.columns[1].text[text.columns[1].start :].startswith(answer)
    text.set_growing(False)
    at_once.append_text("".join(pieces))
    at_once.set_growing(False)
    assert read(text) == read(at_once)
    assert text.text == at_once.text == "".join(pieces)


def test_half_a_tag_is_held_back_and_shown_where_the_reply_ends_with_it(chat: Chat) -> None:
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    reply.show_events(list(steps_of("<thi")))
    assert read(reply.text) == ("", "")
    reply.show_events([finished("<thi", StopReason.CANCELLED)])
    assert read(reply.text) == ("", "<thi")
    reply.go_on("greedy", "")
    reply.show_events(list(steps_of("nk>So</think>Yes", first=1, start=4)))
    assert read(reply.text) == ("So", "Yes")


def test_where_the_prompt_opened_the_tag_the_reply_begins_inside_it(chat: Chat) -> None:
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    reply.show_events([Prefilled(1, 0, 100, 0.1, opened="think"), *steps_of("Okay, so")])
    assert read(reply.text) == ("Okay, so", "")
    reply.show_events(list(steps_of(".</think>Yes", first=2, start=8)))
    assert read(reply.text) == ("Okay, so.", "Yes")
    assert read(restored(chat, "Okay, so.</think>Yes", opened="think").text) == ("Okay, so.", "Yes")


def test_other_words_than_were_shown_take_their_place_in_both_parts(reply: Reply) -> None:
    reply.rewrite("<think>So</think>Yes")
    assert read(reply.text) == ("So", "Yes")
    reply.rewrite("No")
    assert read(reply.text) == ("", "No")
    assert not reply.text.thinking.isVisible()


@pytest.mark.parametrize("unfolded", [False, True])
def test_finished_blocks_are_never_written_again(chat: Chat, unfolded: bool) -> None:
    """A long thought costs no more a batch at its end than at its beginning, folded or not."""
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    paragraph = "Some words, and *more* of them, in a paragraph. " * 5 + "\n\n"
    reply.show_events(list(steps_of("<think>\n" + paragraph)))
    if unfolded:
        reply.text.thinking.unfold()
    written, start, seconds = [], len("<think>\n" + paragraph), []
    for number in range(50):
        watched = reply.text.texts()
        sizes: list[int] = []
        for text in watched:
            text.document().contentsChange.connect(lambda _at, gone, new, sizes=sizes: sizes.append(gone + new))
        begun = perf_counter()
        reply.show_events(list(steps_of(paragraph, first=number, start=start)))
        seconds.append(perf_counter() - begun)
        written.append(sum(sizes))
        start += len(paragraph)
    assert max(written[30:]) <= 1.5 * max(written[:20]) + 100
    assert len(reply.text.text) > 12_000


def test_a_reply_that_was_stopped_while_it_thought_can_go_on(chat: Chat) -> None:
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    reply.show_events([*steps_of("<think>So, "), finished("<think>So, ", StopReason.CANCELLED)])
    assert reply.state is MessageState.STOPPED
    assert reply.continue_button.isVisible()
    reply.go_on("greedy", "")
    assert reply.text.thinking.head.text().startswith("Thinking… 2 s")
