"""A reply of a model that thinks aloud: folded, streamed, clicked, tinted, outlined, found, copied like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from app.conversations import Figures, MessageState, Turn
from app.find_controller import FindController
from app.theme import Theme, load_themes
from app.views.blocks import text_of
from app.views.chat import Chat
from app.views.reply import Reply
from app.views.reply_text import ReplyText
from app.views.source_text import SourceText
from app.views.thinking import thinking_words
from medusa_core.events import Finished, Prefilled, Step, StopReason
from medusa_core.metrics import ReplyMetrics
from medusa_core.testing import scripted_reply

SOME_STEP = next(event for event in scripted_reply(1) if isinstance(event, Step))
THOUGHT = "\nOkay, **why** 👩‍👩‍👧 is it?\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| c | needle |\n"
ANSWER = "\n\nBecause `<think>` is a tag, and a needle is </think> one.\n\n- So.\n"
TEXT = f"<think>{THOUGHT}</think>{ANSWER}"


def steps_of(text: str, size: int = 3, *, first: int = 0, start: int = 0, seconds: float = 1.0) -> list[Step]:
    """Steps of two tokens that write the text, so many characters a token."""
    steps = []
    for at in range(0, len(text), 2 * size):
        cuts = [min(len(text), at + size * number) + start for number in range(3)]
        spans = [(low, high) for low, high in pairwise(cuts) if low < high]
        piece = text[at : at + 2 * size]
        ids = tuple(range(len(spans)))
        steps.append(
            replace(SOME_STEP, index=first + len(steps), text=piece, spans=tuple(spans), token_ids=ids, seconds=seconds)
        )
    return steps


def finished(text: str, reason: StopReason = StopReason.STOP) -> Finished:
    return ReplyMetrics().finished(reason, [], text=text, prompt_tokens=1, prefill_seconds=0.0)


@pytest.fixture
def chat(qtbot: QtBot, theme: Theme) -> Chat:
    shown = Chat(theme, ())
    qtbot.addWidget(shown)
    shown.resize(640, 480)
    shown.show()
    shown.activateWindow()
    qtbot.waitUntil(shown.isActiveWindow)
    return shown


@pytest.fixture
def reply(chat: Chat) -> Reply:
    """A reply whose steps are known, folded."""
    return restored(chat, TEXT)


def restored(chat: Chat, text: str, *, opened: str = "", steps: bool = True) -> Reply:
    chat.show_turns([Turn("Why?", 1, answer=text, reply=2, figures=Figures("m", "greedy", tokens=9, opened=opened))])
    reply = chat.replies()[0]
    if steps:
        reply.add_steps(steps_of(text))
    settle(chat)
    return reply


def settle(chat: Chat) -> None:
    chat.settle()
    QApplication.processEvents()


def shown_words(texts: Sequence[SourceText]) -> str:
    return "\n".join(text.document().toPlainText() for text in texts)


def read(text: ReplyText) -> tuple[str, str]:
    """What the two parts show."""
    return shown_words(text.thinking.column.texts()), shown_words(text.answer.texts())


# Folding


def test_thinking_is_folded_away_above_the_answer(reply: Reply) -> None:
    thinking = reply.text.thinking
    assert thinking.isVisible()
    assert thinking.is_folded
    assert not any(text.isVisible() for text in thinking.column.texts())
    thought, answer = read(reply.text)
    assert thought.startswith("Okay, why")
    assert answer.startswith("Because <think> is a tag")
    assert all(text.isVisible() for text in reply.text.answer.texts())
    assert reply.text.text == reply.source() == TEXT


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
def test_the_keyboard_unfolds_it_and_folds_it_away(reply: Reply, qtbot: QtBot, key: Qt.Key) -> None:
    head = reply.text.thinking.head
    head.setFocus()
    folded = reply.height()
    qtbot.keyClick(head, key)
    assert not reply.text.thinking.is_folded
    assert all(text.isVisible() for text in reply.text.texts())
    assert reply.height() > folded + 100
    qtbot.keyClick(head, key)
    assert reply.text.thinking.is_folded
    assert reply.height() == folded


def test_a_click_unfolds_it_and_what_is_above_stays_where_it_is(chat: Chat, qtbot: QtBot) -> None:
    reply = restored(chat, TEXT.replace("Okay", "Okay. " * 300))
    head = reply.text.thinking.head
    assert chat.is_following()
    before = head.mapTo(chat, QPoint(0, 0))
    qtbot.mouseClick(head, Qt.MouseButton.LeftButton)
    settle(chat)
    assert head.mapTo(chat, QPoint(0, 0)) == before
    assert not chat.is_following()  # else the end of the answer would come into view
    qtbot.mouseClick(head, Qt.MouseButton.LeftButton)
    settle(chat)
    assert chat.is_following()


def test_each_reply_is_folded_by_itself(chat: Chat) -> None:
    figures = Figures("m", "greedy")
    chat.show_turns([Turn(str(number), 1, answer=TEXT, reply=2, figures=figures) for number in range(2)])
    one, two = chat.replies()
    one.text.thinking.unfold()
    assert two.text.thinking.is_folded


def test_the_keyboard_does_not_stay_in_what_is_folded_away(reply: Reply) -> None:
    thinking = reply.text.thinking
    thinking.unfold()
    thinking.column.texts()[0].setFocus()
    thinking.head.setChecked(False)
    assert thinking.head.hasFocus()


def test_tab_comes_to_the_line_then_to_what_was_thought_then_to_the_answer(chat: Chat, reply: Reply) -> None:
    thinking, passed = reply.text.thinking, []
    thinking.unfold()
    settle(chat)
    thinking.head.setFocus()
    for _ in range(8):
        passed.append(QApplication.focusWidget())
        chat.focusNextChild()
    texts = [widget for widget in passed if isinstance(widget, SourceText)]
    assert passed[0] is thinking.head
    assert texts == reply.text.texts()


@pytest.mark.parametrize("text", ["<think>\n\n</think>\n\nYes.", "<think></think>Yes.", "Yes, <think>so</think>."])
def test_thinking_of_nothing_is_not_shown(chat: Chat, text: str) -> None:
    reply = restored(chat, text)
    assert not reply.text.thinking.isVisible()
    assert not reply.answer_button.isVisible()
    assert reply.text.height() == sum(part.height() for part in reply.text.parts)


def test_a_reply_that_only_thought_has_no_answer(chat: Chat) -> None:
    reply = restored(chat, "<think>So, what")
    assert read(reply.text) == ("So, what", "")
    assert reply.text.thinking.head.text() == "Thinking, broken off after 3 s"


def test_a_new_theme_keeps_it_quiet(reply: Reply) -> None:
    dark = load_themes()["dark"]
    reply.set_theme(dark)

    def colour(text: SourceText) -> str:
        cursor = QTextCursor(text.document())
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        return cursor.charFormat().foreground().color().name()

    assert colour(reply.text.thinking.column.texts()[0]) == dark.text_muted
    assert colour(reply.text.answer.texts()[0]) == dark.text


# What the line says


@pytest.mark.parametrize(
    ("closed", "growing", "with_steps", "without"),
    [
        (False, True, "Thinking… 12 s · 1\u202f234 tokens", "Thinking…"),
        (True, True, "Thought for 12 s", "Thought in 56 words"),
        (True, False, "Thought for 12 s", "Thought in 56 words"),
        (False, False, "Thinking, broken off after 12 s", "Thinking, broken off after 56 words"),
    ],
)
def test_the_line_tells_how_long_it_took(closed: bool, growing: bool, with_steps: str, without: str) -> None:
    assert thinking_words(12.2, 1234, 0, is_closed=closed, is_growing=growing) == with_steps
    assert thinking_words(0.0, 0, 56, is_closed=closed, is_growing=growing) == without


def test_a_reply_of_an_earlier_time_counts_words_until_its_steps_are_known(chat: Chat) -> None:
    reply = restored(chat, "<think>one two three</think>Yes.", steps=False)
    head = reply.text.thinking.head
    assert head.text() == head.accessibleName() == "Thought in 3 words"
    reply.add_steps(steps_of(TEXT[:40], seconds=2.5))
    assert head.text() == "Thought for 10 s"  # 20 characters before the closing tag, 6 a step


# While it is written


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


# Steps


@pytest.mark.parametrize("word", ["why", "👩", "x = 1", "needle |", "Because", "So."])
def test_a_click_on_a_word_gives_the_step_that_wrote_it_in_both_parts(
    chat: Chat, reply: Reply, qtbot: QtBot, word: str
) -> None:
    reply.text.thinking.unfold()
    settle(chat)
    offset = TEXT.index(word)
    for text in reply.text.texts():
        for place in text.rectangles(offset, offset + 1):
            with qtbot.waitSignal(reply.step_chosen) as chosen:
                qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=place.center().toPoint())
            assert chosen.args == [offset // 6]
            return
    pytest.fail(f"{word} is nowhere to be clicked")


@pytest.mark.parametrize("word", ["why", "Because"])
def test_the_shown_step_is_outlined_in_its_part(chat: Chat, reply: Reply, word: str) -> None:
    reply.text.thinking.unfold()
    settle(chat)
    step = TEXT.index(word) // 6
    chat.hold_step(0, step)
    assert reply.text.held_span() == (6 * step, 6 * step + 6)
    place = reply.text.held_rectangle()
    assert place is not None
    column = reply.text.columns[word == "Because"]
    assert place.intersects(column.geometry().translated(column.parentWidget().mapTo(reply.text, QPoint(0, 0))))


def test_a_step_that_is_folded_away_outlines_the_line(chat: Chat, reply: Reply) -> None:
    head, place = reply.text.thinking.head, reply.text.thinking.head
    plain = head.grab().toImage()
    chat.hold_step(0, TEXT.index("why") // 6)
    assert head.grab().toImage() != plain
    held = reply.text.held_rectangle()
    assert held is not None
    assert held.toRect().size() == place.size()
    chat.hold_step(0, TEXT.index("Because") // 6)
    assert head.grab().toImage() == plain
    chat.hold_step(0, TEXT.index("why") // 6)
    reply.text.thinking.unfold()
    reply.text.thinking.head.setChecked(True)
    assert reply.text.held_rectangle() != held


def test_drafted_words_are_tinted_in_both_parts(chat: Chat, reply: Reply, theme: Theme) -> None:
    reply.text.thinking.unfold()
    settle(chat)
    for word in ("why", "Because"):
        offset = next(at for at in range(TEXT.index(word), len(TEXT)) if at % 6 >= 3 and TEXT[at].isalpha())
        text = next(text for text in reply.text.texts() if list(text.rectangles(offset, offset + 1)))
        spot = next(iter(text.rectangles(offset, offset + 1))).toRect()
        image = text.viewport().grab().toImage()
        ratio = image.devicePixelRatio()
        colours = {
            image.pixelColor(round(x * ratio), round((spot.top() + 1) * ratio)).name()
            for x in range(spot.left() + 1, spot.right())
        }
        assert theme.accepted_tint in colours
    reply.text.set_tinted(False)
    assert not any(text._marks.tinted for text in reply.text.texts())


# Finding


def test_what_is_folded_away_is_found_and_unfolded_when_one_goes_there(chat: Chat) -> None:
    reply = restored(chat, TEXT.replace("Okay", "Okay. " * 300))
    find = FindController(chat)
    chat.go_to(0)
    find.open()
    chat.find_bar.field.setText("needle")
    assert chat.find_bar.count.text() == "1 of 2"  # the line is in view, so what is under it comes first
    assert not reply.text.thinking.is_folded
    [text] = [text for text in chat.texts() if text.found.current]
    assert text in reply.text.thinking.column.texts()
    area = chat.findChild(QScrollArea)
    assert area is not None
    place = text.found.show(text.found.current).toAlignedRect()
    assert area.viewport().rect().contains(place.translated(text.viewport().mapTo(area.viewport(), QPoint(0, 0))))


def test_what_is_folded_away_stays_so_while_one_goes_elsewhere(chat: Chat, reply: Reply) -> None:
    find = FindController(chat)
    find.open()
    chat.find_bar.field.setText("Because")
    assert chat.find_bar.count.text() == "1 of 1"
    assert reply.text.thinking.is_folded


def test_the_place_is_in_view_though_the_reply_is_being_written(chat: Chat) -> None:
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    reply.show_events(list(steps_of("<think>the needle\n\n" + "Words.\n\n" * 200)))
    find = FindController(chat)
    chat.follow()
    find.open()
    chat.find_bar.field.setText("needle")
    assert not reply.text.thinking.is_folded
    assert chat.find_bar.count.text() == "1 of 1"
    assert chat.place < 300


# Copying


def test_a_copy_is_all_of_it_or_the_answer_alone(reply: Reply) -> None:
    reply.copy_button.click()
    assert QGuiApplication.clipboard().text() == TEXT
    reply.answer_button.click()
    assert QGuiApplication.clipboard().text() == ANSWER.lstrip("\n")


def test_only_a_reply_with_thinking_has_its_answer_to_copy(chat: Chat) -> None:
    assert restored(chat, TEXT).answer_button.isVisible()
    assert not restored(chat, "Yes.").answer_button.isVisible()


def test_a_selection_inside_it_is_copied_as_it_reads(reply: Reply) -> None:
    reply.text.thinking.unfold()
    prose = text_of(reply.text.thinking.column.parts[0])
    prose.selectAll()
    assert prose.selected_text() == "Okay, why 👩‍👩‍👧 is it?"


def test_a_reply_that_was_stopped_while_it_thought_can_go_on(chat: Chat) -> None:
    chat.add_question("Why?")
    reply = chat.begin_reply("greedy")
    reply.show_events([*steps_of("<think>So, "), finished("<think>So, ", StopReason.CANCELLED)])
    assert reply.state is MessageState.STOPPED
    assert reply.continue_button.isVisible()
    reply.go_on("greedy", "")
    assert reply.text.thinking.head.text().startswith("Thinking… 2 s")
