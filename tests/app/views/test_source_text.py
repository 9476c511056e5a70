"""Lines with each character's place in the source known, whatever the characters."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.lines import Line, Piece, cut, length_of, offset_at, plain, ranges
from app.views.marks import Marks
from app.views.source_text import EDGE, SourceText
from medusa_core.events import Step
from medusa_core.testing import scripted_reply


@pytest.fixture
def text(qtbot: QtBot, theme: Theme) -> SourceText:
    shown = SourceText(Marks(theme))
    qtbot.addWidget(shown)
    shown.resize(400, 10)
    shown.show()
    return shown


SOURCES = [
    "vector<int> a; if (x<y) { __init__(&self); }",
    "---\ntitle: x\n---\n# not a heading\n\n\n* one\n  two\n",
    "single\nline\nends, a\ttab,   spaces and <b>no tags</b> &amp; no entities",
    "👩‍👩‍👧 é 你好 שלום \u00a0no-break",
    "windows\r\nline ends, \u2028 and \u2029, \0 and \ufffc",
]


@pytest.mark.parametrize("source", SOURCES)
def test_plain_text_stands_as_it_was_typed_and_is_copied_so(text: SourceText, source: str) -> None:
    text.set_lines(0, plain(source))
    text.selectAll()
    assert text.createMimeDataFromSelection().text() == source
    shown = text.toPlainText()
    assert len(shown.encode("utf-16-le")) == len(source.encode("utf-16-le"))


@pytest.mark.parametrize("source", SOURCES)
def test_growing_character_by_character_gives_the_same(text: SourceText, source: str) -> None:
    for end in range(len(source) + 1):
        text.set_lines(0, plain(source[:end]))
    grown = text.document().toRawText()
    text.set_lines(0, [])
    text.set_lines(0, plain(source))
    assert text.document().toRawText() == grown


@given(st.text(), st.text())
def test_offsets_and_positions_are_inverse(before: str, after: str) -> None:
    before, after = before.replace("\n", ""), after.replace("\n", "")
    gap = 3  # characters of markup between the two
    line = Line(0, (Piece(before, 0), Piece(" "), Piece(after, len(before) + gap)))
    for offset in range(len(after)):
        source = len(before) + gap + offset
        position = len((before + " " + after[:offset]).encode("utf-16-le")) // 2
        assert [first for first, _ in ranges(line, source, source + 1)] == [position]
        assert offset_at(line, position) == source
    assert cut(line, 0, length_of(line)) == f"{before} {after}"


def test_only_what_differs_is_written(text: SourceText) -> None:
    changes: list[tuple[int, int, int]] = []
    text.set_lines(0, plain("one\ntwo\nthree"))
    text.document().contentsChange.connect(lambda *change: changes.append(change))
    text.set_lines(0, plain("one\ntwo\nthree and four"))
    text.set_lines(2, plain("three and four\nfive", 8))
    text.set_lines(2, plain("three and four\nfive", 8))
    assert [(at, new) for at, _, new in changes] == [(13, len(" and four")), (22, len("\nfive") + 1)]


@pytest.mark.parametrize(
    "words", ["a quick ", "wide-open ", "Donaudampfschifffahrtsgesellschaftskapitän ", "שלום a ", "你好，"]
)
def test_tints_stand_where_they_would_had_the_text_come_at_once(text: SourceText, qtbot: QtBot, words: str) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    holder.resize(400, 800)
    QVBoxLayout(holder).addWidget(text, 0, Qt.AlignmentFlag.AlignTop)
    holder.show()
    marks = text._marks
    tokens = [piece for word in words.split(" ") for piece in (word[:3], word[3:], " ") if piece]
    source, chance = "An opening line.\n", random.Random(words)
    for number in range(90):  # two tokens a step, the second one drafted; every step seen before the next one comes
        first, second = chance.choices(tokens, k=2)
        start = len(source)
        source += first + second
        middle = start + len(first)
        marks.steps.append([step_of(number, ((start, middle), (middle, len(source))))])
        # The end of a line may change its look, as an emphasis does that is closed.
        looked = source + "*" if number % 7 == 3 else source
        text.set_lines(0, plain(looked))
        text.set_lines(0, plain(source))
        holder.layout().activate()
        kept = [text._tints(step) for step in range(len(marks.steps))]
        assert kept == [list(text.rectangles(*span)) for span in marks.steps.drafted()], number
    text.setParent(None)


def step_of(index: int, spans: tuple[tuple[int, int], ...]) -> Step:
    return replace(next(event for event in scripted_reply(1) if isinstance(event, Step)), index=index, spans=spans)


def test_the_reader_s_caret_and_selection_stay(text: SourceText) -> None:
    text.set_lines(0, plain("one two"))
    cursor = text.textCursor()
    cursor.setPosition(4)
    cursor.setPosition(7, QTextCursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)
    text.set_lines(0, plain("one two three\nfour"))
    assert (text.textCursor().anchor(), text.textCursor().position()) == (4, 7)
    text.set_lines(0, plain("one"))
    assert text.textCursor().position() == 3


def test_a_part_is_copied_as_it_was_written(text: SourceText) -> None:
    text.set_lines(0, plain("a\u00a0👩b\r\nc"))
    cursor = text.textCursor()
    cursor.setPosition(1)
    cursor.setPosition(6, QTextCursor.MoveMode.KeepAnchor)  # the no-break space, the wide 👩, b and \r
    text.setTextCursor(cursor)
    assert text.createMimeDataFromSelection().text() == "\u00a0👩b\r"


def test_a_click_gives_the_character_under_it(text: SourceText, qtbot: QtBot) -> None:
    text.set_lines(0, plain("mmmm mmmm", 10))
    wide = text.fontMetrics().horizontalAdvance("m")
    for offset in range(4):
        for inside in (0.2, 0.8):
            with qtbot.waitSignal(text.offset_chosen) as chosen:
                point = QPointF(EDGE + (offset + inside) * wide, 8).toPoint()
                qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=point)
            assert chosen.args == [10 + offset]


def test_dragging_selects_and_chooses_nothing(text: SourceText, qtbot: QtBot) -> None:
    text.set_lines(0, plain("mmmm mmmm"))
    with qtbot.assertNotEmitted(text.offset_chosen):
        QTest.mousePress(text.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(2, 8))
        QTest.mouseMove(text.viewport(), QPoint(60, 8))
        QTest.mouseRelease(text.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(60, 8))


def test_enter_chooses_the_character_at_the_caret(text: SourceText, qtbot: QtBot) -> None:
    text.set_lines(0, plain("🐈 cat"))
    cursor = text.textCursor()
    cursor.setPosition(3)
    text.setTextCursor(cursor)
    with qtbot.waitSignal(text.offset_chosen) as chosen:
        qtbot.keyClick(text, Qt.Key.Key_Return)
    assert chosen.args == [2]


def test_it_is_as_high_as_its_text(text: SourceText) -> None:
    text.set_lines(0, plain("one"))
    one = text.height()
    text.set_lines(0, plain("one\ntwo\nthree"))
    assert text.height() == pytest.approx(3 * (one - 2 * EDGE) + 2 * EDGE, abs=2)
    assert one - 2 * EDGE >= 1.4 * text.font().pixelSize()
