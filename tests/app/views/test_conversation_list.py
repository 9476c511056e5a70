"""The list of conversations by keyboard and by pointer, and what it shows where there is nothing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.conversations import Conversation, Group, Hit
from app.theme import Theme
from app.views.conversation_delegate import _marked
from app.views.conversation_list import ConversationList

GROUPS = [
    Group("Pinned", (Conversation(1, "Cats", 0.0, 0.0, pinned=True),)),
    Group("Today", (Conversation(2, "Dogs", 0.0, 0.0), Conversation(3, "שלום", 0.0, 0.0))),
]
HITS = [
    Hit(2, "Dogs", None, (("Dogs", True),), 0.0),
    Hit(3, "שלום", 7, (("a long text that stands before the word \n", False), ("dog", True), (" barks", False)), 0.0),
]


@pytest.fixture
def sidebar(qtbot: QtBot, theme: Theme) -> ConversationList:
    shown = ConversationList(theme)
    qtbot.addWidget(shown)
    shown.resize(220, 400)
    shown.show()
    shown.show_groups(GROUPS)
    return shown


def menu(sidebar: ConversationList, row: int) -> dict[str, QAction]:
    found = sidebar.menu_for(sidebar.model.index(row))
    assert found is not None
    return {action.text(): action for action in found.actions() if action.text()}


def test_the_model_keeps_qts_rules(sidebar: ConversationList) -> None:
    tester = QAbstractItemModelTester(sidebar.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    sidebar.show_hits("dog", HITS)
    sidebar.show_groups([])
    sidebar.show_groups(GROUPS)
    del tester


def test_the_keyboard_walks_the_list_past_the_headings(qtbot: QtBot, sidebar: ConversationList) -> None:
    qtbot.keyClick(sidebar.search, Qt.Key.Key_Down)
    assert sidebar.list.currentIndex().row() == 1
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Down)
    assert sidebar.list.currentIndex().row() == 3  # row 2 is a heading
    with qtbot.waitSignal(sidebar.opened) as opened:
        qtbot.keyClick(sidebar.list, Qt.Key.Key_Return)
    assert opened.args == [2, None]
    with qtbot.waitSignal(sidebar.removal_asked) as removed:
        qtbot.keyClick(sidebar.list, Qt.Key.Key_Delete)
    assert removed.args == [2]
    with qtbot.assertNotEmitted(sidebar.removal_asked):
        qtbot.keyClick(sidebar.list, Qt.Key.Key_Backspace)  # cats walk on keyboards


def test_a_title_is_changed_in_its_place(qtbot: QtBot, sidebar: ConversationList) -> None:
    sidebar.list.setCurrentIndex(sidebar.model.index(3))
    menu(sidebar, 3)["Rename"].trigger()
    editor = sidebar.list.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == "Dogs"
    editor.setText("Wolves")
    with qtbot.waitSignal(sidebar.renamed) as renamed:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert renamed.args == [2, "Wolves"]


def test_the_menu_of_a_row(qtbot: QtBot, sidebar: ConversationList) -> None:
    assert sidebar.menu_for(sidebar.model.index(0)) is None  # a heading
    assert "Unpin" in menu(sidebar, 1)
    for text, signal, arguments in (
        ("Pin", sidebar.pinning_asked, [2, True]),
        ("Duplicate", sidebar.duplicate_asked, [2]),
        ("Export as Markdown…", sidebar.export_asked, [[2], "markdown"]),
        ("Export as JSON…", sidebar.export_asked, [[2], "json"]),
        ("Delete", sidebar.removal_asked, [2]),
    ):
        with qtbot.waitSignal(signal) as asked:
            menu(sidebar, 3)[text].trigger()
        assert asked.args == arguments


def test_the_menu_of_all(qtbot: QtBot, sidebar: ConversationList) -> None:
    actions = {action.text(): action for action in sidebar.more_menu.actions() if action.text()}
    for text, signal, arguments in (
        ("Import…", sidebar.import_asked, []),
        ("Export all as Markdown…", sidebar.export_asked, [None, "markdown"]),
        ("Export all as JSON…", sidebar.export_asked, [None, "json"]),
        ("Delete all", sidebar.all_removal_asked, []),
    ):
        with qtbot.waitSignal(signal) as asked:
            actions[text].trigger()
        assert asked.args == arguments


def test_searching_waits_for_the_end_of_a_word_but_not_for_the_end_of_the_search(
    qtbot: QtBot, sidebar: ConversationList
) -> None:
    said: list[str] = []
    sidebar.search_changed.connect(said.append)
    with qtbot.waitSignal(sidebar.search_changed):
        qtbot.keyClicks(sidebar.search, "dog")
    assert said == ["dog"]
    sidebar.show_hits("dog", HITS)
    with qtbot.waitSignal(sidebar.opened) as opened:
        sidebar.list.clicked.emit(sidebar.model.index(1))
    assert opened.args == [3, 7]
    qtbot.keyClick(sidebar.search, Qt.Key.Key_Escape)
    assert said == ["dog", ""]


def test_what_was_found_is_spoken_and_stands_out(qtbot: QtBot, sidebar: ConversationList) -> None:
    sidebar.show_hits("dog", HITS)
    index = sidebar.model.index(1)
    spoken = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "שלום: a long text that stands before the word  dog barks"
    assert sidebar.model.index(0).data(Qt.ItemDataRole.AccessibleTextRole) == "Dogs"
    before = sidebar.list.viewport().grab().toImage()
    sidebar.show_hits("dog", [HITS[0], Hit(3, "שלום", 7, ((spoken[6:], False),), 0.0)])
    assert sidebar.list.viewport().grab().toImage() != before


def test_an_empty_list_says_what_to_do(sidebar: ConversationList) -> None:
    assert sidebar.empty_text == ""
    sidebar.show_hits("zebra", [])
    assert "“zebra”" in sidebar.empty_text
    sidebar.show_groups([])
    assert sidebar.empty_text.startswith("No conversations yet")


def test_the_open_conversation_stays_marked_when_the_list_changes(sidebar: ConversationList) -> None:
    sidebar.show_current(3)
    assert sidebar.list.currentIndex().row() == 4
    sidebar.show_groups(GROUPS[1:])
    assert sidebar.list.currentIndex().row() == 2
    sidebar.show_current(None)
    assert not sidebar.list.currentIndex().isValid()


def test_a_pinned_one_is_spoken_as_such(sidebar: ConversationList) -> None:
    assert sidebar.model.index(1).data(Qt.ItemDataRole.AccessibleTextRole) == "Cats, pinned"


def test_a_snippet_begins_with_a_whole_word() -> None:
    hit = Hit(1, "title", 2, (("Write a short story about a ", False), ("lighthouse", True), (" keeper", False)), 0.0)
    text, ((start, length),) = _marked(hit)
    assert text == "…a short story about a lighthouse keeper"
    assert text[start : start + length] == "lighthouse"
    unspaced = Hit(1, "title", 2, (("東" * 40, False), ("京", True)), 0.0)
    assert _marked(unspaced)[0] == "…" + "東" * 24 + "京"
