"""Places in a reply that thinks aloud, folded away or not: steps clicked, outlined, tinted; words found."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QScrollArea
from pytestqt.qtbot import QtBot

from app.find_controller import FindController
from app.theme import Theme
from app.views.chat import Chat
from app.views.reply import Reply
from tests.app.views.thinking.thoughts import TEXT, restored, settle, steps_of

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
