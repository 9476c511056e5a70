"""The tree as a table: the same nodes, the same numbers, to be read, copied and chosen from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.views import tree_words as words
from app.views.step_table import COLUMNS, StepTable
from medusa_core.events import NodeState, Step, Verdict
from medusa_core.testing import scripted_reply

STEP = next(event for event in scripted_reply(3, seed=4) if isinstance(event, Step))


@pytest.fixture
def table(qtbot: QtBot) -> StepTable:
    table = StepTable()
    qtbot.addWidget(table)
    table.resize(420, 300)
    table.show()
    table.show_step(STEP)
    return table


def rows(table: StepTable) -> list[dict[str, str]]:
    names, *lines = [line.split("\t") for line in table.as_text().split("\n")]
    return [dict(zip(names, line, strict=True)) for line in lines]


def test_every_node_has_a_row_with_its_numbers(table: StepTable) -> None:
    found = rows(table)
    assert len(found) == len(STEP.nodes)
    assert found[0] == {
        **dict.fromkeys((name for name, _, _ in COLUMNS), ""),
        "token": words.visible(STEP.nodes[0].text),
        "ahead": "next",
        "verdict": "root",
        "source": "model",
    }
    tried = next(node for node in STEP.nodes if node.state is NodeState.REJECTED)
    row = next(row for row in found if row["verdict"] == "not kept" and row["token"] == words.visible(tried.text))
    assert row["needed"] == "9.0 %"
    assert row["entropy"] == "1.20"
    assert row["wanted"] == "␠old"
    assert row["source"] == "head"
    assert tried.verdict is not None
    assert row["p"] == words.percent(tried.verdict.probability or 0.0)


def test_a_token_that_was_drawn_is_what_was_wanted(table: StepTable) -> None:
    drawn = Verdict(False, 0.2, None, None, 7, " old", drawn=9, drawn_text=" new")
    nodes = (STEP.nodes[0], replace(STEP.nodes[1], verdict=drawn))
    table.show_step(replace(STEP, nodes=nodes, path=(0,)))
    assert rows(table)[1]["wanted"] == "␠new"
    assert rows(table)[1]["needed"] == ""


def test_selected_rows_are_copied_and_without_a_selection_all(table: StepTable, qtbot: QtBot) -> None:
    table.selectRow(2)
    qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().text().split("\n")
    assert len(copied) == 2
    assert copied[1] == table.as_text([2]).split("\n")[1]
    table.clearSelection()
    table.copy()
    assert QGuiApplication.clipboard().text() == table.as_text()


def test_enter_and_a_double_click_choose_the_node_of_the_row(table: StepTable, qtbot: QtBot) -> None:
    table.selectRow(3)
    table.setCurrentIndex(table.model().index(3, 0))
    node = table._rows.order[3]
    with qtbot.waitSignal(table.node_chosen) as chosen:
        qtbot.keyClick(table, Qt.Key.Key_Return)
    assert chosen.args == [node]
    assert table.place_of(node).y() > table.place_of(0).y()


def test_screen_readers_get_the_whole_sentence(table: StepTable) -> None:
    index = table.model().index(1, 0)
    said = table.model().data(index, Qt.ItemDataRole.AccessibleDescriptionRole)
    assert said == words.details(STEP, table._rows.order[1])
    head = table.model().headerData(6, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
    assert "model" in head


def test_nothing_is_a_table_too(table: StepTable) -> None:
    table.show_step(None)
    assert table.model().rowCount() == 0
    assert table.as_text().count("\n") == 0
