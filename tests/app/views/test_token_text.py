"""Text shown exactly, with each step's characters known, whatever the characters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QTextCursor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.token_text import EDGE, CharacterIndex, StepSpan, TokenText, span_of
from medusa_core.events import Step
from medusa_core.testing import scripted_reply

SOME_STEP = next(event for event in scripted_reply(1) if isinstance(event, Step))


@pytest.fixture
def text(qtbot: QtBot, theme: Theme) -> TokenText:
    shown = TokenText(theme)
    qtbot.addWidget(shown)
    shown.resize(400, 10)
    shown.show()
    return shown


def append_tokens(text: TokenText, steps: list[list[str]]) -> None:
    """Append steps given as the texts of their tokens."""
    at = len(text.text)
    for tokens in steps:
        spans = []
        for token in tokens:
            spans.append((at, at + len(token)))
            at += len(token)
        text.append_steps([step_of("".join(tokens), spans)])


def step_of(written: str, spans: list[tuple[int, int]]) -> Step:
    """A step that wrote this."""
    return replace(SOME_STEP, text=written, spans=tuple(spans))


@pytest.mark.parametrize(
    "source",
    [
        "vector<int> a; if (x<y) { __init__(&self); }",
        "---\ntitle: x\n---\n# not a heading\n\n\n* one\n  two\n",
        "single\nline\nends, a\ttab,   spaces and <b>no tags</b> &amp; no entities",
        "👩‍👩‍👧 é 你好 שלום \u00a0no-break",
        "windows\r\nline ends",
    ],
)
def test_nothing_is_lost_or_read_as_markup(text: TokenText, source: str) -> None:
    for character in source:
        text.append_text(character)
    assert text.text == source
    assert text.toPlainText().replace("\u200b", "\r") == source.replace("\u00a0", " ")
    text.selectAll()
    assert text.createMimeDataFromSelection().text() == source


def test_a_part_is_copied_as_it_was_written(text: TokenText) -> None:
    text.append_text("a\u00a0👩b\r\nc")
    cursor = QTextCursor(text.document())
    cursor.setPosition(1)
    cursor.setPosition(6, QTextCursor.MoveMode.KeepAnchor)  # the no-break space, the wide 👩, b and \r
    text.setTextCursor(cursor)
    assert text.createMimeDataFromSelection().text() == "\u00a0👩b\r"


@given(st.text())
def test_offsets_and_positions_are_inverse(source: str) -> None:
    index = CharacterIndex()
    for piece in (source[:3], source[3:]):
        index.append(piece)
    for offset in range(len(source) + 1):
        position = len(source[:offset].encode("utf-16-le")) // 2
        assert index.position(offset) == position
        assert index.offset(position) == offset


def test_the_first_token_of_a_step_is_the_model_s_own() -> None:
    assert span_of([(3, 5), (5, 9), (9, 11)]) == StepSpan(3, 5, 11)
    assert span_of([(3, 5)]) == StepSpan(3, 5, 5)
    assert span_of([]) is None


def test_exactly_the_drafted_characters_are_tinted(text: TokenText) -> None:
    append_tokens(text, [["The", " cat", " 🐈 sat"], [" on"], [" the", " mat"], ["."]])
    assert [text.text[start:end] for start, end in text.drafted_spans()] == [" cat 🐈 sat", " mat"]


def test_a_step_that_wrote_the_same_words_as_another_is_not_confused(text: TokenText) -> None:
    append_tokens(text, [["no", " no"], [" no"], [" no", " no"]])
    assert text.drafted_spans() == [(2, 5), (11, 14)]


def test_the_tint_is_where_the_words_are(text: TokenText, theme: Theme) -> None:
    append_tokens(text, [["mmmm", " wwww"], [" mmmm"]])
    tint, plain = QColor(theme.accepted_tint), 0
    columns = tinted_columns(text, tint)
    space, model = text.fontMetrics().horizontalAdvance(" "), text.fontMetrics().horizontalAdvance("mmmm")
    drafted = text.fontMetrics().horizontalAdvance("wwww")
    assert min(columns) == pytest.approx(EDGE + model + space - 2, abs=2)  # edges are blended
    assert max(columns) == pytest.approx(EDGE + model + space + drafted + 2, abs=2)  # edges are blended
    text.set_tinted(False)
    assert len(tinted_columns(text, tint)) == plain


def tinted_columns(text: TokenText, tint: QColor) -> list[int]:
    image = text.grab().toImage()
    return [
        x
        for x in range(image.width())
        if any(image.pixelColor(x, y).rgb() == tint.rgb() for y in range(image.height()))
    ]


def test_every_character_finds_the_step_that_wrote_it(text: TokenText) -> None:
    steps = [event for event in scripted_reply(50) if isinstance(event, Step)]
    text.append_steps(steps)
    for step in steps:
        for offset in range(step.spans[0][0], step.spans[-1][1]):
            assert text.step_at(offset) == step.index
    assert text.step_at(len(text.text)) == -1


def test_a_step_without_whole_characters_owns_none(text: TokenText) -> None:
    text.append_steps([step_of("a", [(0, 1)])])
    text.append_steps([step_of("", [(1, 1)])])
    text.append_steps([step_of("é", [(1, 2)])])
    assert [text.step_at(offset) for offset in range(3)] == [0, 2, -1]


def test_holding_a_step_outlines_it(text: TokenText, theme: Theme) -> None:
    append_tokens(text, [["aaaa"], [" bbbb", " cccc"]])
    before = text.grab().toImage()
    text.hold_step(1)
    assert text.held_span() == (4, 14)
    assert text.held_rectangle() is not None
    assert text.grab().toImage() != before
    text.hold_step(-1)
    assert text.held_span() is None
    assert text.grab().toImage() == before


def test_a_click_gives_the_character_under_it(text: TokenText, qtbot: QtBot) -> None:
    text.append_text("mmmm mmmm")
    wide = text.fontMetrics().horizontalAdvance("m")
    for offset in range(4):
        for inside in (0.2, 0.8):
            with qtbot.waitSignal(text.token_chosen) as chosen:
                point = QPointF(EDGE + (offset + inside) * wide, 8).toPoint()
                qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=point)
            assert chosen.args == [offset]


def test_dragging_selects_and_chooses_nothing(text: TokenText, qtbot: QtBot) -> None:
    text.append_text("mmmm mmmm")
    with qtbot.assertNotEmitted(text.token_chosen):
        QTest.mousePress(text.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(2, 8))
        QTest.mouseMove(text.viewport(), QPoint(60, 8))
        QTest.mouseRelease(text.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(60, 8))


def test_enter_chooses_the_character_at_the_caret(text: TokenText, qtbot: QtBot) -> None:
    text.append_text("🐈 cat")
    cursor = text.textCursor()
    cursor.setPosition(3)
    text.setTextCursor(cursor)
    with qtbot.waitSignal(text.token_chosen) as chosen:
        qtbot.keyClick(text, Qt.Key.Key_Return)
    assert chosen.args == [2]


def test_it_is_as_high_as_its_text(text: TokenText) -> None:
    text.append_text("one")
    one = text.height()
    text.append_text("\ntwo\nthree")
    assert text.height() == pytest.approx(3 * (one - 2 * EDGE) + 2 * EDGE, abs=2)
    assert one - 2 * EDGE >= 1.4 * text.font().pixelSize()
