"""Find in the open chat: everything that can be read is found, counted, marked, brought into view, and kept right."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from app.conversations import Figures, MessageState, Turn
from app.find_controller import FindController
from app.theme import Theme, load_themes
from app.views.chat import Chat
from app.views.source_text import SourceText
from medusa_core.events import Step
from medusa_core.testing import scripted_reply

REPLY = """# A heading with needle

Some **nee**dle text, `needle()`, [a needle](https://example.org/needle), and no n-eedle.

1. An entry: NEEDLE

> A needle in a quote

```python
# needle, the first
x = "a very long line, a very long line, a very long line, a very long line, a very long line, needle"
```

| Needle | Hay |
|---|---|
| one needle | hay |
"""
IN_REPLY = 10


@pytest.fixture
def shown(qtbot: QtBot, theme: Theme) -> Chat:
    """A chat with two turns, its beginning in view."""
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    chat.resize(480, 400)
    chat.show()
    chat.activateWindow()
    qtbot.waitUntil(chat.isActiveWindow)
    show(chat, Turn("Where is the needle?", answer=REPLY, reply=1), Turn("Needle again?", answer=REPLY, reply=2))
    chat.go_to(0)
    return chat


@pytest.fixture
def find(shown: Chat) -> FindController:
    return FindController(shown)


def show(chat: Chat, *turns: Turn) -> None:
    for turn in turns:
        turn.figures, turn.state = Figures(rule="greedy"), MessageState.COMPLETE
    chat.show_turns(turns)


def look_for(chat: Chat, find: FindController, words: str) -> str:
    find.open()
    chat.find_bar.field.setText(words)
    return chat.find_bar.count.text()


def current(chat: Chat) -> list[tuple[SourceText, str]]:
    """The current place: one at most."""
    marked = [text for text in chat.texts() if text.found.current is not None]
    return [(text, text.document().toRawText()[slice(*text.found.current)]) for text in marked]


def box_of(chat: Chat) -> QRect:
    """Where the current place is painted, in the page's viewport."""
    [(text, _)] = current(chat)
    area = chat.findChild(QScrollArea)
    assert area is not None
    place = text.found.show(text.found.current).toAlignedRect()
    return place.translated(text.viewport().mapTo(area.viewport(), QPoint(0, 0)))


def is_in_view(chat: Chat) -> bool:
    area = chat.findChild(QScrollArea)
    assert area is not None
    return area.viewport().rect().contains(box_of(chat))


# What is found


def test_all_that_can_be_read_is_found_whatever_its_look(shown: Chat, find: FindController) -> None:
    assert look_for(shown, find, "needle") == f"1 of {2 * IN_REPLY + 2}"


def test_marks_of_the_source_that_are_not_shown_are_not_found(shown: Chat, find: FindController) -> None:
    for words in ("**", "](https", "```", "|---|"):
        assert look_for(shown, find, words) == "No results"
        assert not current(shown)


def test_nothing_is_found_in_an_empty_chat(shown: Chat, find: FindController) -> None:
    shown.clear()
    assert look_for(shown, find, "needle") == "No results"
    find.go_to_next()
    find.go_to_previous()
    assert shown.find_bar.count.text() == "No results"


def test_without_words_nothing_is_said_or_marked(shown: Chat, find: FindController) -> None:
    look_for(shown, find, "needle")
    assert look_for(shown, find, "") == ""
    assert not any(text.found.spans for text in shown.texts())


# Going from place to place


def test_next_and_previous_go_round_through_all_of_them_and_bring_each_into_view(
    shown: Chat, find: FindController
) -> None:
    look_for(shown, find, "needle")
    places = 2 * IN_REPLY + 2
    passed = []
    for number in range(1, places + 1):
        assert shown.find_bar.count.text() == f"{number} of {places}"
        [(text, words)] = current(shown)
        assert words.lower() == "needle"
        assert is_in_view(shown), number
        passed.append((id(text), text.found.current))
        find.go_to_next()
    assert len(set(passed)) == places
    assert shown.find_bar.count.text() == f"1 of {places}"
    find.go_to_previous()
    assert shown.find_bar.count.text() == f"{places} of {places}"
    assert is_in_view(shown)


def test_it_begins_where_the_reader_is(shown: Chat, find: FindController) -> None:
    shown.bring_to(1, reply=False)
    assert look_for(shown, find, "needle") == f"{IN_REPLY + 2} of {2 * IN_REPLY + 2}"


def test_more_letters_stay_at_the_place_and_a_wrong_one_does_not_lose_it(shown: Chat, find: FindController) -> None:
    look_for(shown, find, "needle")
    find.go_to_next()
    find.go_to_next()
    [(text, _)] = current(shown)
    place = text.found.current
    look_for(shown, find, "needlex")
    assert not current(shown)
    look_for(shown, find, "needle")
    assert current(shown)[0][0] is text
    assert text.found.current == place


def test_a_place_far_at_the_right_of_code_is_scrolled_to(shown: Chat, find: FindController) -> None:
    look_for(shown, find, "line, needle")
    [(text, _)] = current(shown)
    assert text.horizontalScrollBar().value() > 0
    assert text.viewport().rect().contains(text.found.show(text.found.current).toAlignedRect())


def test_selected_words_are_looked_for(shown: Chat, find: FindController) -> None:
    text = shown.questions()[0].text
    text.setFocus()
    cursor = text.textCursor()
    cursor.setPosition(6)
    cursor.setPosition(12, cursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)
    find.open()
    assert shown.find_bar.words == "is the"
    assert shown.find_bar.count.text() == "1 of 1"


def test_closing_takes_the_marks_away_and_the_next_key_brings_them_back(shown: Chat, find: FindController) -> None:
    look_for(shown, find, "needle")
    shown.find_bar.close_bar()
    assert not any(text.found.spans or text.found.current for text in shown.texts())
    find.go_to_next()
    assert shown.find_bar.isVisible()
    assert current(shown)


def test_the_bar_covers_nothing(shown: Chat, find: FindController) -> None:
    find.open()
    QApplication.processEvents()
    area = shown.findChild(QScrollArea)
    assert area is not None
    assert area.y() >= shown.find_bar.geometry().bottom()
    shown.jump_button.show()
    assert shown.jump_button.geometry().bottom() < shown.height()
    assert shown.jump_button.geometry().bottom() > area.geometry().bottom() - 16


# How it is marked


@pytest.mark.parametrize("name", ["light", "dark"])
def test_places_are_marked_and_the_current_one_is_boxed(shown: Chat, find: FindController, name: str) -> None:
    theme = load_themes()[name]
    shown.set_theme(theme)
    show(shown, Turn("A needle beside a needle"))
    question = shown.questions()[0].text
    assert not _has(question, theme.found)
    look_for(shown, find, "needle")
    assert _has(question, theme.found)
    assert _has(question, theme.found_line)
    first, second = question.found.spans
    assert _is_boxed(question, first, theme)
    assert not _is_boxed(question, second, theme)
    find.go_to_next()
    assert not _is_boxed(question, first, theme)
    assert _is_boxed(question, second, theme)
    shown.find_bar.close_bar()
    assert not _has(question, theme.found)


@pytest.mark.parametrize("words", ["the first", "one needle"])
def test_code_and_tables_are_marked_too(shown: Chat, find: FindController, theme: Theme, words: str) -> None:
    look_for(shown, find, words)
    [(text, _)] = current(shown)
    assert _has(text, theme.found)


def test_only_what_is_in_sight_is_painted(shown: Chat, find: FindController, monkeypatch: pytest.MonkeyPatch) -> None:
    show(shown, Turn("many", answer="\n\n".join(f"needle {number}" for number in range(2000)), reply=1))
    assert look_for(shown, find, "needle").endswith("of 2\u202f000")
    text = shown.texts()[1]
    shown.go_to(text.height() // 2)
    painted: list[object] = []
    original = text.found._rectangles
    monkeypatch.setattr(text.found, "_rectangles", lambda span: painted.append(span) or original(span))
    shown.grab()
    assert 0 < len(painted) < 60


def test_marks_stay_through_another_theme(shown: Chat, find: FindController) -> None:
    said = look_for(shown, find, "needle")
    before = [text.found.spans for text in shown.texts()]
    shown.set_theme(load_themes()["dark"])
    assert [text.found.spans for text in shown.texts()] == before
    find.count()
    assert shown.find_bar.count.text() == said


def _image(text: SourceText) -> QImage:
    area = text.viewport()
    return text.window().grab(QRect(area.mapTo(text.window(), QPoint(0, 0)), area.size())).toImage()


def _has(text: SourceText, colour: str) -> bool:
    image, wanted = _image(text), QColor(colour).rgb()
    return any(image.pixel(x, y) == wanted for y in range(image.height()) for x in range(image.width()))


def _is_boxed(text: SourceText, span: tuple[int, int], theme: Theme) -> bool:
    """Whether the middles of all four sides have the colour of the box."""
    [spot] = list(text.found._rectangles(span))
    box = spot.adjusted(-1, -1, 1, 1)
    image, ink, ground = _image(text), QColor(theme.text).lightness(), QColor(theme.found).lightness()
    sides = [(box.center().x(), box.top()), (box.center().x(), box.bottom()), (box.left(), box.center().y())]
    seen = [image.pixelColor(round(x), round(y)).lightness() for x, y in sides]
    return all(abs(lightness - ink) < abs(lightness - ground) for lightness in seen)


# What changes


def test_a_reply_that_is_written_is_marked_at_once_and_counted_soon(
    shown: Chat, find: FindController, qtbot: QtBot
) -> None:
    show(shown, Turn("Any token?"))
    assert look_for(shown, find, "token") == "1 of 1"
    said: list[str] = []
    events = scripted_reply(60)
    shown.begin_reply("greedy")
    words = next(event.text for event in events if isinstance(event, Step) and event.text.strip()).split()[0]
    assert look_for(shown, find, words).startswith(("No", "1 of"))
    show_count = shown.find_bar.show_count
    shown.find_bar.show_count = lambda *count: said.append(str(count)) or show_count(*count)  # type: ignore[method-assign]
    for event in events:
        shown.show_events([event])
    text = shown.replies()[0].source().lower()
    assert sum(len(text.found.spans) for text in shown.texts()[1:]) == text.count(words.lower()) > 1
    assert not said  # 60 batches, not one count: that has time
    qtbot.waitUntil(lambda: len(said) == 1)
    assert str(text.count(words.lower())) in shown.find_bar.count.text()


def test_a_reply_that_never_pauses_is_counted_all_the_same(shown: Chat, find: FindController, qtbot: QtBot) -> None:
    look_for(shown, find, "needle")
    timer = find._timer
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.setInterval(60_000)
    find.count_soon()
    qtbot.wait(50)
    find.count_soon()
    assert timer.remainingTime() < 60_000 - 25  # the second did not put the first off


def test_what_is_written_scrolls_nothing_and_the_current_place_stays(
    shown: Chat, find: FindController, qtbot: QtBot
) -> None:
    look_for(shown, find, "needle")
    find.go_to_next()
    place, number = shown.place, current(shown)
    shown.begin_reply("greedy").text.append_text("needle after needle. " * 50)
    qtbot.waitUntil(lambda: shown.find_bar.count.text() == f"2 of {IN_REPLY + 102}")
    assert (shown.place, current(shown)) == (place, number)


def test_another_conversation_is_counted_anew(shown: Chat, find: FindController, qtbot: QtBot) -> None:
    look_for(shown, find, "needle")
    show(shown, Turn("no", answer="a needle, two needles", reply=1))
    qtbot.waitUntil(lambda: shown.find_bar.count.text() == "2 found")
    find.go_to_previous()
    assert shown.find_bar.count.text() in ("1 of 2", "2 of 2")
    shown.clear()
    qtbot.waitUntil(lambda: shown.find_bar.count.text() == "No results")


def test_a_question_being_edited_is_not_counted(shown: Chat, find: FindController, qtbot: QtBot) -> None:
    look_for(shown, find, "where is")
    shown.questions()[0].begin_editing()
    qtbot.waitUntil(lambda: shown.find_bar.count.text() == "No results")
    shown.questions()[0].end_editing()
    qtbot.waitUntil(lambda: shown.find_bar.count.text() == "1 of 1")


def test_a_text_that_is_begun_anew_is_looked_through_anew(shown: Chat, find: FindController, qtbot: QtBot) -> None:
    look_for(shown, find, "needle")
    shown.replies()[0].rewrite("hay")
    qtbot.waitUntil(lambda: shown.find_bar.count.text() == f"1 of {IN_REPLY + 2}")
