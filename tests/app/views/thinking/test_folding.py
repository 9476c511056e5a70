"""What a reply thought: folded away and unfolded, told of in one line, copied like any other text."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.conversations import Figures, Turn
from app.theme import load_themes
from app.views.blocks import text_of
from app.views.chat import Chat
from app.views.reply import Reply
from app.views.source_text import SourceText
from app.views.thinking import thinking_words
from tests.app.views.thinking.thoughts import ANSWER, TEXT, read, restored, settle, steps_of

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
