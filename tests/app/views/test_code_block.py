"""A code block: copied raw, scrolled aside, reached with the keyboard; a table that grows row by row."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.blocks import text_of
from app.views.code_block import CodeBlock
from app.views.reply import Reply
from app.views.table_block import TableBlock, TableText
from medusa_core.events import Finished
from medusa_core.testing import scripted_reply

FINISHED = next(event for event in scripted_reply(1) if isinstance(event, Finished))


@pytest.fixture
def reply(qtbot: QtBot, theme: Theme) -> Reply:
    shown = Reply(theme, "greedy")
    qtbot.addWidget(shown)
    shown.resize(400, 300)
    shown.show()
    return shown


def test_its_button_copies_the_code_as_it_was_written(reply: Reply, qapp: QApplication) -> None:
    reply.text.append_text("Text\n\n```py\nx =\u00a01\t# é\n\n  y\n```\nmore")
    block = reply.text.parts[1]
    assert isinstance(block, CodeBlock)
    assert block.copy_button.accessibleName() == "Copy the code"
    block.copy_button.click()
    assert qapp.clipboard().text() == "x =\u00a01\t# é\n\n  y"
    block.text.selectAll()
    assert block.text.createMimeDataFromSelection().text() == "x =\u00a01\t# é\n\n  y"


def test_long_lines_scroll_aside_and_do_not_wrap(reply: Reply) -> None:
    reply.text.append_text("```\nshort\n```\n\n```\n" + "long " * 100 + "\n```\n")
    QApplication.processEvents()
    short, long = (text_of(part) for part in reply.text.parts)
    assert short.horizontalScrollBar().maximum() == 0
    assert long.horizontalScrollBar().maximum() > 0
    assert long.document().firstBlock().layout().lineCount() == 1
    assert long.height() > short.height()
    assert long.verticalScrollBar().maximum() == 0


def test_tab_goes_through_the_parts_in_order_to_the_button_of_the_whole(reply: Reply) -> None:
    reply.text.append_text("One\n\n```py\nx = 1\n```\n\nTwo\n\n| a |\n|---|\n| b |\n")
    one, code, two, table = reply.text.parts
    assert isinstance(code, CodeBlock)
    stops = [one, code.copy_button, code.text, two, text_of(table), reply.copy_button]
    order, stop = [], one
    while len(order) < len(stops):
        if stop in stops:
            order.append(stop)
        stop = stop.nextInFocusChain()
    assert order == stops


def test_a_table_is_copied_as_cells(reply: Reply) -> None:
    reply.text.append_text("| a | **b** |\n|---|---|\n| `c` | d |\n| e |\n")
    (table,) = reply.text.parts
    assert isinstance(table, TableBlock)
    table.text.selectAll()
    assert table.text.createMimeDataFromSelection().text().rstrip("\t") == "a\tb\nc\td\ne"


def test_a_table_that_goes_on_keeps_the_columns(reply: Reply) -> None:
    reply.text.append_text("| name | value |\n|---|---|\n" + "| some | thing |\n" * 150 + "| x | y |\n")
    QApplication.processEvents()
    tables = [part.text for part in reply.text.parts if isinstance(part, TableBlock)]
    assert len(tables) > 1
    assert all(isinstance(table, TableText) for table in tables)
    widths = [table.column_widths() for table in tables]
    assert all(width == pytest.approx(widths[0], abs=1) for width in widths)


def test_the_footer_says_what_the_reply_took(reply: Reply) -> None:
    reply.show_events(list(scripted_reply(5)))
    footer = reply.footer.text().replace("\u00a0", " ")
    for words in ("tokens ·", "tokens/s", "tokens per step", "greedy", "first token"):
        assert words in footer
