"""The bar's keys, its count, and whom the keyboard goes back to."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.find_bar import FindBar

SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def page(qtbot: QtBot, theme: Theme) -> QWidget:
    """A field, and the bar above it."""
    shown = QWidget()
    qtbot.addWidget(shown)
    column = QVBoxLayout(shown)
    column.addWidget(FindBar(theme, 500))
    column.addWidget(QLineEdit(objectName="other"))
    shown.show()
    shown.activateWindow()
    qtbot.waitUntil(shown.isActiveWindow)
    other_of(page=shown).setFocus()
    return shown


def bar_of(page: QWidget) -> FindBar:
    bar = page.findChild(FindBar)
    assert bar is not None
    return bar


def other_of(page: QWidget) -> QLineEdit:
    other = page.findChild(QLineEdit, "other")
    assert isinstance(other, QLineEdit)
    return other


def test_it_is_hidden_until_it_is_opened_and_then_has_the_keyboard(page: QWidget) -> None:
    bar = bar_of(page)
    assert not bar.isVisible()
    bar.open()
    assert bar.isVisible()
    assert bar.field.hasFocus()


def test_the_last_words_are_there_again_and_selected(page: QWidget) -> None:
    bar = bar_of(page)
    bar.open("one")
    bar.close_bar()
    bar.open()
    assert bar.words == "one"
    assert bar.field.selectedText() == "one"
    bar.open("two")
    assert bar.words == "two"


@pytest.mark.parametrize("way", ["key", "button", "key on a button"])
def test_closing_gives_the_keyboard_back(page: QWidget, qtbot: QtBot, way: str) -> None:
    bar, other = bar_of(page), other_of(page)
    bar.open()
    bar.open()  # asked for once more from inside
    with qtbot.waitSignal(bar.closed):
        if way == "button":
            qtbot.mouseClick(bar.close_button, Qt.MouseButton.LeftButton)
        elif way == "key":
            qtbot.keyClick(bar.field, Qt.Key.Key_Escape)
        else:
            bar.close_button.setFocus()
            qtbot.keyClick(bar.close_button, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert other.hasFocus()


def test_closing_does_not_mind_that_the_place_before_is_gone(page: QWidget, qtbot: QtBot) -> None:
    bar, other = bar_of(page), other_of(page)
    bar.open()
    with qtbot.waitSignal(other.destroyed):
        other.deleteLater()
    bar.close_bar()
    assert not bar.isVisible()


def test_closing_leaves_the_keyboard_where_the_reader_took_it(page: QWidget) -> None:
    bar, other = bar_of(page), other_of(page)
    third = QLineEdit()
    page.layout().addWidget(third)
    third.show()
    bar.open()
    third.setFocus()
    bar.close_bar()
    assert third.hasFocus()
    assert not other.hasFocus()


def test_enter_asks_for_the_next_and_with_shift_for_the_one_before(page: QWidget, qtbot: QtBot) -> None:
    bar = bar_of(page)
    bar.open()
    heard: list[str] = []
    bar.next_asked.connect(lambda: heard.append("next"))
    bar.previous_asked.connect(lambda: heard.append("previous"))
    qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    qtbot.keyClick(bar.field, Qt.Key.Key_Enter)
    qtbot.keyClick(bar.field, Qt.Key.Key_Return, SHIFT)
    bar.show_count(1, 2)
    qtbot.mouseClick(bar.next_button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(bar.previous_button, Qt.MouseButton.LeftButton)
    assert heard == ["next", "next", "previous", "next", "previous"]


@pytest.mark.parametrize(
    ("words", "number", "places", "said"),
    [
        ("a", 3, 17, "3 of 17"),
        ("a", 0, 17, "17 found"),
        ("a", 1234, 5678, "1\u202f234 of 5\u202f678"),
        ("a", 0, 0, "No results"),
        (" ", 0, 0, ""),
    ],
)
def test_the_count_is_shown_and_told_to_who_cannot_see_it(
    page: QWidget, words: str, number: int, places: int, said: str
) -> None:
    bar = bar_of(page)
    bar.open(words)
    bar.show_count(number, places)
    assert bar.count.text() == said
    assert bar.field.accessibleDescription() == said
    assert bar.next_button.isEnabled() is bar.previous_button.isEnabled() is (places > 0)


def test_everything_has_a_name_and_is_reached_with_tab(page: QWidget, qtbot: QtBot) -> None:
    bar = bar_of(page)
    bar.open("a")
    bar.show_count(1, 2)
    names = [bar.field.accessibleName()]
    for _ in range(3):
        focused = page.focusWidget()
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
        names.append(page.focusWidget().accessibleName())
    assert names == ["Find in this chat", "Previous place", "Next place", "Close"]
