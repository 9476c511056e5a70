"""The status line: facts give way to a narrow window, and a reason is never lost."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.memory import in_words, resident_bytes
from app.theme import Theme
from app.views.status_line import StatusLine

REASON = "Drafting does not pay here at present: about 10.0 tokens/s with it, 12.0 without."


@pytest.fixture
def line(qtbot: QtBot, theme: Theme) -> StatusLine:
    shown = StatusLine()
    qtbot.addWidget(shown)
    shown.resize(1200, 24)
    shown.show()
    return shown


def test_the_reason_is_shown_whole_where_there_is_room_else_in_the_tooltip(line: StatusLine, qtbot: QtBot) -> None:
    line.show_facts("Tiny  ·  fp32", "Context 5 of 10 tokens", REASON)
    qtbot.waitUntil(lambda: line.reason.text() == REASON)
    line.resize(420, 24)
    qtbot.waitUntil(lambda: line.reason.text().endswith("…"))
    assert line.reason.toolTip() == REASON
    assert line.reason.full == REASON


def test_waiting_hides_the_reason_and_offers_to_cancel(line: StatusLine, qtbot: QtBot) -> None:
    line.show_facts("Tiny", "", REASON)
    line.show_work("Loading the model", 1, 4)
    assert (line.facts.full, line.reason.full) == ("Loading the model", "")
    assert line.progress.value() == 250
    with qtbot.waitSignal(line.cancel_asked):
        line.cancel_button.click()
    line.show_facts("Tiny", "", "")
    assert not line.progress.isVisible()


def test_memory_is_that_of_this_process_in_words() -> None:
    assert resident_bytes() > 10_000_000
    assert in_words(812_400_000) == "812 MB"
    assert in_words(1_440_000_000) == "1.4 GB"
