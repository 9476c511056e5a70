"""Questions and replies by themselves: their bars, their footers, and what a reply of an earlier time says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.conversations import Figures, MessageState, Turn
from app.theme import Theme, small_font
from app.views.chat import Chat
from app.views.figures_line import figures_line
from app.views.reply import Reply
from app.views.undo_bar import UndoBar
from medusa_core.events import Step, StopReason
from medusa_core.testing import scripted_reply

FIGURES = Figures("m", "exact sampling", 5, 81, 67.5, 2.02, 0.23, "stop")
LINE = "81 tokens · 67.5 tokens/s · 2.02 tokens per step · exact sampling · first token 0.23 s"


@pytest.mark.parametrize(
    ("figures", "state", "line"),
    [
        (FIGURES, MessageState.COMPLETE, LINE),
        (FIGURES, MessageState.STOPPED, LINE + " · stopped"),
        (replace(FIGURES, ending="length"), MessageState.CUT, LINE + " · cut at the longest reply allowed"),
        (replace(FIGURES, ending="context_full"), MessageState.CUT, LINE + " · cut: the context is full"),
        (replace(FIGURES, ending=""), MessageState.CUT, LINE + " · cut: it broke off"),
        (Figures(), MessageState.COMPLETE, ""),
        (Figures(tokens=1234567, rule="greedy"), MessageState.COMPLETE, None),
    ],
)
def test_the_footer_tells_the_figures_and_the_end(figures: Figures, state: MessageState, line: str | None) -> None:
    said = figures_line(figures, state).replace("\u00a0", " ")
    assert said == line or (line is None and said.startswith("1\u202f234\u202f567 tokens"))


def test_the_usual_footer_fits_into_one_line(qtbot: QtBot, theme: Theme) -> None:
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    chat.resize(640, 400)
    chat.show()
    chat.show_turns([Turn("q", 1, answer="a", reply=2, figures=FIGURES)])
    footer = chat.replies()[0].footer
    assert QFontMetrics(small_font()).horizontalAdvance(footer.text()) < footer.contentsRect().width()
    assert footer.height() < 2 * QFontMetrics(small_font()).lineSpacing()


def test_a_reply_of_an_earlier_time_says_what_it_takes_to_have_it_again(qtbot: QtBot, theme: Theme) -> None:
    reply = Reply(theme, "greedy")
    qtbot.addWidget(reply)
    reply.restore("text", FIGURES, MessageState.COMPLETE)
    assert reply.footer.toolTip().splitlines() == ["Model: m", "Acceptance: exact sampling", "Seed: 5"]
    events = scripted_reply(5)
    steps = [event for event in events if isinstance(event, Step)]
    other = Reply(theme, "greedy")
    qtbot.addWidget(other)
    other.restore("".join(step.text for step in steps), Figures("m", "greedy"), MessageState.CUT)
    assert other.footer.text().replace("\u00a0", " ") == "greedy · cut: it broke off"
    other.add_steps(steps)  # of a killed process nobody has counted the tokens
    assert other.footer.text().startswith(f"{sum(len(step.token_ids) for step in steps)}\u00a0tokens")
    assert other.text.step_at(1) == 0


def test_the_buttons_of_a_message_appear_with_the_pointer_and_with_the_keyboard(qtbot: QtBot, theme: Theme) -> None:
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    chat.resize(640, 400)
    chat.show()
    chat.show_turns([Turn("q", 1, answer="a", reply=2, reply_place=(1, 3), figures=FIGURES)])
    reply = chat.replies()[0]
    away = reply.bar.grab().toImage()
    QApplication.sendEvent(reply, QEvent(QEvent.Type.Enter))
    near = reply.bar.grab().toImage()
    assert near != away
    QApplication.sendEvent(reply, QEvent(QEvent.Type.Leave))
    assert reply.bar.grab().toImage() == away
    QApplication.sendEvent(reply.again_button, QEvent(QEvent.Type.FocusIn))
    assert reply.bar.grab().toImage() != away
    assert reply.bar.place.text() == "2/3"
    assert reply.bar.place.accessibleName() == "Variant 2 of 3"
    assert chat.questions()[0].bar.place.isHidden()  # a single one is not worth telling


def test_variants_are_asked_of_the_message_they_belong_to(qtbot: QtBot, theme: Theme) -> None:
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    turn = Turn("q", 1, answer="a", reply=2, reply_place=(1, 3), question_place=(0, 2), figures=FIGURES)
    chat.show_turns([turn, turn])
    for button, arguments in (
        (chat.replies()[1].bar.previous_button, [1, True, -1]),
        (chat.replies()[0].bar.next_button, [0, True, 1]),
        (chat.questions()[1].bar.next_button, [1, False, 1]),
    ):
        with qtbot.waitSignal(chat.variant_asked) as asked:
            button.click()
        assert asked.args == arguments
    assert not chat.questions()[1].bar.previous_button.isEnabled()
    with qtbot.waitSignal(chat.removal_asked) as removal:
        chat.replies()[0].remove_button.click()
    assert removal.args == [0, True]


def test_another_branch_leaves_the_reader_where_they_are(qtbot: QtBot, theme: Theme) -> None:
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    chat.resize(640, 300)
    chat.show()
    turns = [Turn(f"q{n}", n, answer="words " * 80, reply=n, figures=FIGURES) for n in range(1, 6)]
    chat.show_turns(turns)
    assert chat.is_following()
    chat.bring_to(2, reply=False)
    place = chat.place
    assert place > 100
    assert not chat.is_following()
    chat.show_from(2, turns[2:])
    assert chat.place == place
    assert len(chat.replies()) == 5


def test_an_opened_conversation_has_its_heights_at_once(qtbot: QtBot, theme: Theme) -> None:
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    chat.resize(640, 300)
    chat.show()
    text = "words and others " * 30 + "\n\n```python\nprint(1)\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n- a\n- b"
    turns = [Turn("a question " * 20, n, answer=text, reply=n, figures=FIGURES) for n in range(1, 5)]
    for _ in range(3):
        chat.show_turns(turns)
        for message in (*chat.questions(), *chat.replies()):
            assert message.height() >= message.minimumSizeHint().height()
        for reply in chat.replies():
            assert reply.text.height() == sum(part.height() for part in reply.text.parts)
        chat.show_from(2, turns[2:])
        for reply in chat.replies():
            assert reply.text.height() == sum(part.height() for part in reply.text.parts)


def test_an_empty_question_is_not_asked(qtbot: QtBot, theme: Theme) -> None:
    chat = Chat(theme, ())
    qtbot.addWidget(chat)
    chat.show()
    chat.add_question("q")
    question = chat.questions()[0]
    question.begin_editing()
    assert question.editor is not None
    with qtbot.assertNotEmitted(chat.edited):
        question.editor.setPlainText("  ")
        qtbot.keyClick(question.editor, Qt.Key.Key_Return)
    with qtbot.waitSignal(chat.edited) as edited:
        question.editor.setPlainText("better")
        qtbot.keyClick(question.editor, Qt.Key.Key_Return)
    assert edited.args == [0, "better"]


def test_the_end_of_a_reply_is_known_by_name() -> None:
    assert figures_line(replace(FIGURES, ending=StopReason.STOP), MessageState.COMPLETE).endswith(
        "first\u00a0token\u00a00.23\u00a0s"
    )


def test_the_undo_bar_stays_while_somebody_is_at_it(qtbot: QtBot, theme: Theme) -> None:
    bar = UndoBar(500)
    qtbot.addWidget(bar)
    bar.tell("Deleted “x”")
    bar._timer.timeout.emit()
    assert bar.text == ""
    bar.tell("Deleted “y”")
    with qtbot.waitSignal(bar.undo_asked):
        bar.undo_button.click()
