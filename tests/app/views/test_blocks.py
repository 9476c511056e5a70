"""A reply as blocks: nothing lost, finished ones never touched again, a step's tokens found wherever they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextBlock
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.markdown import leaves, parse
from app.markdown.source_map import runs_of
from app.theme import Theme, load_themes
from app.views.blocks import BlockColumn, text_of
from app.views.code_block import CodeBlock
from app.views.prose import Prose
from app.views.source_text import SourceText
from app.views.table_block import TableBlock
from medusa_core.events import Step
from medusa_core.testing import scripted_reply

SOME_STEP = next(event for event in scripted_reply(1) if isinstance(event, Step))

EVERYTHING = """# Head *line*

Text with **bold**, `code`, 👩‍👩‍👧 and [a link](https://a.example/b_c), vector<int> &amp; \\(x\\).
Next line.

1. one
   ```py
   x = 1  # é
   ```
2. two
   - inner
     > quoted

| a | b |
|---|--:|
| `c` | 12 |
| d | 3 | more |

---
> Quote

```cpp
int main() {

  return 0;
}
```
שלום עולם
"""


@pytest.fixture
def column(qtbot: QtBot, theme: Theme) -> BlockColumn:
    shown = BlockColumn(theme)
    qtbot.addWidget(shown)
    shown.resize(480, 10)
    shown.show()
    return shown


def settle(column: BlockColumn) -> None:
    """Give it the height it asks for, as the page does."""
    column.resize(480, column.sizeHint().height())
    QApplication.processEvents()


def append_tokens(column: BlockColumn, steps: list[list[str]]) -> None:
    """Append steps given as the texts of their tokens."""
    at = len(column.text)
    for index, tokens in enumerate(steps):
        spans = []
        for token in tokens:
            spans.append((at, at + len(token)))
            at += len(token)
        step = replace(SOME_STEP, index=index, text="".join(tokens), spans=tuple(spans))
        column.append_steps([step])
    settle(column)


def raw(column: BlockColumn) -> list[tuple[type, str]]:
    return [(type(part), text_of(part).document().toRawText()) for part in column.parts]


def shown_offsets(column: BlockColumn) -> list[int]:
    return [
        piece.offset + number
        for part in column.parts
        for line in text_of(part).lines
        for piece in line.pieces
        if piece.offset >= 0
        for number in range(len(piece.text))
    ]


@pytest.mark.parametrize("size", [1, 7, 40])
def test_streamed_is_the_same_as_at_once(column: BlockColumn, qtbot: QtBot, theme: Theme, size: int) -> None:
    at_once = BlockColumn(theme)
    qtbot.addWidget(at_once)
    at_once.append_text(EVERYTHING)
    for start in range(0, len(EVERYTHING), size):
        column.append_text(EVERYTHING[start : start + size])
    assert column.text == EVERYTHING
    assert raw(column) == raw(at_once)
    for one, other in zip(column.parts, at_once.parts, strict=True):
        assert list(text_of(one).lines) == list(text_of(other).lines)


def test_every_character_of_the_blocks_is_shown_once_in_order(column: BlockColumn) -> None:
    column.append_text(EVERYTHING)
    expected = [
        run.offset + number
        for leaf in leaves(parse(EVERYTHING))
        for run in runs_of(leaf)
        for number, character in enumerate(run.text)
        if character != "\n"
    ]
    assert shown_offsets(column) == expected
    for part in column.parts:
        for line in text_of(part).lines:
            for piece in line.pieces:
                assert piece.offset < 0 or EVERYTHING[piece.offset :].startswith(piece.text)


def test_each_kind_of_block_has_its_widget(column: BlockColumn) -> None:
    column.append_text(EVERYTHING)
    assert [type(part) for part in column.parts] == [Prose, CodeBlock, Prose, TableBlock, Prose, CodeBlock, Prose]
    assert all(text_of(part).accessibleName() for part in column.parts)


def test_every_shown_character_has_a_place_and_is_found_there(column: BlockColumn) -> None:
    column.append_text(EVERYTHING)
    settle(column)
    for offset in shown_offsets(column):
        if EVERYTHING[offset].isspace() or EVERYTHING[offset] in "👩\u200d👧":
            continue
        (place,) = column.rectangles(offset, offset + 1)
        part = next(part for part in column.parts if part.geometry().contains(place.center().toPoint()))
        text = text_of(part)
        inside = place.center() - text.viewport().mapTo(column, text.rect().topLeft()).toPointF()
        assert text._offset_under(inside) == offset, EVERYTHING[offset:][:10]


def test_markup_alone_is_nowhere(column: BlockColumn) -> None:
    column.append_text("**a** b")
    settle(column)
    assert list(column.rectangles(0, 2)) == []
    assert len(list(column.rectangles(0, 7))) == 1


class Layouts:
    """Counts the characters whose layout a batch could touch: those of the paragraphs it changed."""

    def __init__(self, column: BlockColumn) -> None:
        self.column, self.counts = column, list[int]()
        self._known: set[SourceText] = set()

    def batch(self, text: str) -> None:
        touched: list[int] = []
        ends = {part: text_of(part).document().characterCount() for part in self.column.parts}
        for part in self.column.parts:
            if text_of(part) not in self._known:
                self._known.add(text_of(part))
                text_of(part).document().contentsChange.connect(self._note)
        self._touched = touched
        self.column.append_text(text)
        touched += [text_of(part).document().characterCount() for part in self.column.parts if part not in ends]
        self.counts.append(sum(touched))

    def _note(self, at: int, _gone: int, new: int) -> None:
        block = text_of(self.column.parts[-1]).document().findBlock(at)
        self._touched.append(sum(found.length() for found in _blocks(block, at + new)))


def _blocks(block: QTextBlock, end: int) -> Iterator[QTextBlock]:
    while block.isValid() and block.position() <= end:
        yield block
        block = block.next()


LONG = {
    "prose": "Twelve words stand in this sentence, which says nothing at all. " * 200,
    "one word": "x" * 12_000,
    "paragraphs": ("Some words, and *more* of them, in a paragraph. " * 6 + "\n\n") * 40,
    "list": "".join(f"{number}. An entry of a list that goes on and on\n" for number in range(1, 280)),
    "code": "```py\n" + "def f(x: int) -> int:\n    return x + 1\n\n" * 280 + "```\n",
    "table": "| a | b |\n|---|---|\n" + "| some words | `and code` |\n" * 400,
}


@pytest.mark.parametrize("source", LONG.values(), ids=LONG.keys())
def test_a_long_reply_costs_no_more_a_batch_than_a_short_one(column: BlockColumn, source: str) -> None:
    layouts = Layouts(column)
    for start in range(0, len(source), 80):
        layouts.batch(source[start : start + 80])
    early, late = layouts.counts[: len(layouts.counts) // 3], layouts.counts[2 * len(layouts.counts) // 3 : -1]
    assert max(late) <= 1.5 * max(early) + 100
    assert max(late) < 3000


def test_what_is_frozen_is_never_written_again(column: BlockColumn) -> None:
    column.append_text("First.\n\n```py\nx = 1\n```\n\nSecond.\n\nThird and")
    touched: list[str] = []
    for part in column.parts[:2]:
        text_of(part).document().contentsChange.connect(lambda *_: touched.append("frozen"))
    places: list[int] = []
    text_of(column.parts[2]).document().contentsChange.connect(lambda at, *_: places.append(at))
    parts = list(column.parts)
    for text in (" more", " **bold", "** words.\n\n", "| a |\n|---|\n", "| b |\n\n", "# End"):
        column.append_text(text)
    assert touched == []
    assert min(places) >= len("Second.\n")
    assert list(column.parts[:3]) == parts


def test_exactly_the_drafted_characters_are_tinted(column: BlockColumn) -> None:
    append_tokens(column, [["The", " cat", " 🐈 sat"], [" on"], [" the", " mat"], ["."]])
    assert [column.text[start:end] for start, end in column.drafted_spans()] == [" cat 🐈 sat", " mat"]


@pytest.mark.parametrize(
    ("first", "drafted"),
    [("plain ", "words"), ("- ", "entry"), ("```py\n", "x = 1"), ("| a |\n|---|\n| ", "cell"), ("> ", "quote")],
)
def test_the_tint_is_where_the_words_are(column: BlockColumn, theme: Theme, first: str, drafted: str) -> None:
    append_tokens(column, [[first, drafted]])
    text = text_of(column.parts[-1])
    (place,) = text.rectangles(len(first), len(first) + len(drafted))
    tint = QColor(theme.accepted_tint).rgb()
    image = text.grab().toImage()
    tinted = [
        (x, y) for x in range(image.width()) for y in range(image.height()) if image.pixelColor(x, y).rgb() == tint
    ]
    assert tinted
    assert all(place.adjusted(-1, -1, 1, 1).contains(x, y) for x, y in tinted)
    assert min(x for x, _ in tinted) < place.left() + 5
    assert max(x for x, _ in tinted) > place.right() - 5
    column.set_tinted(False)
    image = text.grab().toImage()
    assert not any(image.pixelColor(x, y).rgb() == tint for x, y in tinted)


def test_holding_a_step_outlines_it_over_blocks(column: BlockColumn) -> None:
    append_tokens(column, [["One"], [" two\n\n", "```\nthree"], ["\n```\n"]])
    before = column.grab().toImage()
    column.hold_step(1)
    assert column.held_span() == (3, 18)
    place = column.held_rectangle()
    assert place is not None
    assert place.top() < column.parts[0].geometry().bottom() < column.parts[1].geometry().top() < place.bottom()
    assert column.grab().toImage() != before
    column.hold_step(-1)
    assert column.held_span() is None
    assert column.grab().toImage() == before


def test_a_link_asks_instead_of_choosing_a_token(column: BlockColumn, qtbot: QtBot) -> None:
    column.append_text("See [this](https://a.example/x) and [that](javascript:no).")
    settle(column)
    text = text_of(column.parts[0])
    (place,) = text.rectangles(5, 9)
    with qtbot.waitSignal(column.link_chosen) as chosen, qtbot.assertNotEmitted(column.token_chosen):
        qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=place.center().toPoint())
    assert chosen.args == ["https://a.example/x"]
    text.setFocus()
    cursor = text.textCursor()
    cursor.setPosition(6)
    text.setTextCursor(cursor)
    with qtbot.waitSignal(column.link_chosen):
        qtbot.keyClick(text, Qt.Key.Key_Return)
    (place,) = text.rectangles(37, 41)
    with qtbot.waitSignal(column.token_chosen), qtbot.assertNotEmitted(column.link_chosen):
        qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=place.center().toPoint())


def test_no_image_is_ever_loaded(column: BlockColumn) -> None:
    column.append_text("![a cat](https://a.example/cat.png) ![b](file:///etc/passwd) <img src='x.png'>")
    text = text_of(column.parts[0])
    assert "\ufffc" not in text.document().toRawText()
    assert "a cat(https://a.example/cat.png)" in text.toPlainText()
    assert "<img src='x.png'>" in text.toPlainText()
    assert text.loadResource(2, "file:///etc/passwd") is None


def test_direction_is_each_block_s_own(column: BlockColumn) -> None:
    column.append_text("left\n\nשלום\n\n- שלום\n- left\n\n> שלום `code`")
    document = text_of(column.parts[0]).document()
    sides = [document.findBlockByNumber(number).textDirection() for number in range(document.blockCount())]
    left, right = Qt.LayoutDirection.LeftToRight, Qt.LayoutDirection.RightToLeft
    assert sides == [left, right, right, left, right]


def test_what_is_selected_is_copied_as_it_reads(column: BlockColumn) -> None:
    column.append_text("# Head\n\nSome **bold** text\nin two lines.\n\n- one\n  - inner\n- two\n\n> quote")
    text = text_of(column.parts[0])
    text.selectAll()
    copied = text.createMimeDataFromSelection().text()
    assert copied == "Head\nSome bold text\nin two lines.\n\n- one\n  - inner\n- two\n\nquote"


def test_a_new_theme_changes_colours_and_nothing_else(column: BlockColumn) -> None:
    column.append_text(EVERYTHING)
    settle(column)
    before, size, picture = raw(column), column.size(), column.grab().toImage()
    column.set_theme(load_themes()["dark"])
    assert raw(column) == before
    assert column.size() == size
    assert column.grab().toImage() != picture
