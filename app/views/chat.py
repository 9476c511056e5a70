"""The conversation as a scrolling page: questions, replies, and a hint where there is nothing yet.

Knows nothing of models, threads or settings, or of how conversations are saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.conversations import MessageState, Turn
from app.theme import Theme
from app.views.find_bar import FindBar
from app.views.message import Message
from app.views.page import FollowingPage, column_width
from app.views.question import Question
from app.views.reply import Reply
from app.views.source_text import SourceText
from app.views.welcome import Welcome


@dataclass(slots=True)
class _Shown:
    question: Question
    reply: Reply | None = None


class Chat(FollowingPage):
    """Every message of the conversation."""

    suggestion_chosen = Signal(str)
    models_asked = Signal()
    recording_asked = Signal()
    # Of a message, by the number of its turn:
    step_chosen = Signal(int, int)  # and the index of the step
    edited = Signal(int, str)  # and the question's new wording
    regeneration_asked = Signal(int)
    continuation_asked = Signal()  # of the last one
    variant_asked = Signal(int, bool, int)  # and whether it is the reply; -1 for the one before, 1 for the one after
    removal_asked = Signal(int, bool)  # and whether it is the reply
    texts_changed = Signal()

    def __init__(self, theme: Theme, suggestions: Sequence[str]) -> None:
        super().__init__()
        self._theme = theme
        self._tinted = True
        self._usable = self._can_ask = True
        self._turns: list[_Shown] = []
        self._held: Reply | None = None
        self._words: re.Pattern[str] | None = None  # that are looked for
        self.find_bar = FindBar(theme, column_width(self))
        self.set_head(self.find_bar)
        self._welcome = Welcome(suggestions)
        self._welcome.chosen.connect(self.suggestion_chosen)
        self._welcome.models_asked.connect(self.models_asked)
        self._welcome.recording_asked.connect(self.recording_asked)
        self.fill(self._welcome)

    # What it shows

    def set_hint(self, title: str, text: str, *, suggest: bool, without_model: bool = False) -> None:
        """What an empty conversation says; with `suggest`, questions to begin with; else what to do without a model."""
        self._welcome.say(title, text, suggest=suggest, without_model=without_model)

    def clear(self) -> None:
        """Back to an empty conversation."""
        self.cut_to(0)
        self._held = None
        self.follow()

    def show_turns(self, turns: Sequence[Turn]) -> None:
        """A conversation from its beginning, its end in view."""
        self.clear()
        with self.filling():
            for turn in turns:
                self.add_turn(turn)
        self.follow()

    def add_turn(self, turn: Turn) -> None:
        """One more question, and its reply where it has one."""
        self._welcome.hide()
        question = Question(self._theme, turn.question)
        question.edited.connect(self._report_edit)
        question.bar.set_place(*turn.question_place)
        self._turns.append(_Shown(question))
        self._add(question)
        if turn.reply is not None:
            reply = self._add_reply(Reply(self._theme, turn.figures.rule))
            reply.restore(turn.answer, turn.figures, turn.state)
            reply.bar.set_place(*turn.reply_place)
        self._mark_last()

    def add_question(self, text: str) -> None:
        """The person's next message; brings the end into view."""
        self.add_turn(Turn(text))
        self.follow()

    def cut_to(self, number: int) -> None:
        """Take away every turn from that number on."""
        for turn in self._turns[number:]:
            for message in (turn.reply, turn.question):
                if message is not None:
                    self._take_away(message)
        del self._turns[number:]
        self._welcome.setVisible(not self._turns)
        self._mark_last()

    def begin_reply(self, rule: str, details: str = "") -> Reply:
        """An empty reply for the events to come, in place of one the last question has.

        `details` of how it is decoded are for its footer's tooltip.
        """
        self.drop_reply()
        reply = self._add_reply(Reply(self._theme, rule, details))
        self._mark_last()
        return reply

    def drop_reply(self) -> None:
        """Take the last question's reply away."""
        turn = self._turns[-1]
        if turn.reply is not None:
            self._take_away(turn.reply)
            turn.reply = None

    def show_events(self, events: list[object]) -> None:
        """Write what a batch of events added to the newest reply."""
        reply = self._turns[-1].reply
        if reply is None:
            return
        before = reply.height()
        reply.show_events(events)
        if not self._following and reply.sizeHint().height() > before:
            self.jump_button.show()

    def fail_reply(self) -> None:
        """Mark the newest reply as broken off."""
        reply = self._turns[-1].reply
        if reply is not None:
            reply.fail()

    def hold_step(self, turn: int, step: int) -> None:
        """Outline what a step of a reply wrote; -1 for none."""
        if self._held is not None:
            self._held.text.hold_step(-1)
        self._held = self.reply_of(turn)
        if self._held is None:
            return
        self._held.text.hold_step(step)
        if step >= 0 and (place := self._held.text.held_rectangle()):
            self.bring_into_view(self._held.text, place)

    def set_usable(self, usable: bool, *, can_ask: bool) -> None:
        """Whether messages can be changed now, and whether the model can be asked."""
        self._usable, self._can_ask = usable, can_ask
        for message in self._messages():
            message.set_usable(usable, can_ask=can_ask)

    def show_from(self, number: int, turns: Sequence[Turn]) -> None:
        """Show these turns instead of those from that number on; the reader stays where they are."""
        place = self.place
        self.cut_to(number)
        for turn in turns:
            self.add_turn(turn)
        self.go_to(place)

    def bring_to(self, number: int, *, reply: bool) -> None:
        """Bring the beginning of a message into view."""
        self.go_to_widget(self._message(number, reply=reply))

    def focus_message(self, number: int, *, reply: bool) -> None:
        """Give a message the keyboard."""
        self._message(number, reply=reply).copy_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def _message(self, number: int, *, reply: bool) -> Message:
        turn = self._turns[number]
        return turn.reply if reply and turn.reply is not None else turn.question

    def turn_with_keyboard(self) -> tuple[int, bool]:
        """The turn whose message has the keyboard, and whether that is its reply; (-1, False) for none."""
        for number, turn in enumerate(self._turns):
            for message in (turn.question, turn.reply):
                if message is not None and message.has_keyboard():
                    return number, message is turn.reply
        return -1, False

    def set_tinted(self, tinted: bool) -> None:
        """Whether drafted tokens carry a tint."""
        self._tinted = tinted
        for reply in self.replies():
            reply.text.set_tinted(tinted)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.find_bar.set_theme(theme)
        for message in self._messages():
            message.set_theme(theme)

    # What is looked for

    def open_find_bar(self) -> None:
        """Show the bar, with the words that are selected here."""
        focused = QApplication.focusWidget()
        selected = focused.selected_text() if isinstance(focused, SourceText) and self.isAncestorOf(focused) else ""
        self.find_bar.open("" if "\n" in selected else selected)

    def look_for(self, words: re.Pattern[str] | None) -> None:
        """Mark these words wherever they stand; None: nothing is looked for."""
        self._words = words
        for message in self._messages():
            message.look_for(words)

    def texts(self) -> list[SourceText]:
        """Everything that can be read, in order."""
        return [text for message in self._messages() for text in message.texts()]

    def first_in_view(self, texts: Sequence[SourceText]) -> tuple[int, int]:
        """The text that the first line in view belongs to, and the position of that line in it."""
        for number, text in enumerate(texts):
            seen: QWidget = text
            while not seen.isVisibleTo(self):
                seen = seen.parentWidget()  # what the text is folded away in
            if self.top_in(seen) < seen.height():
                return number, text.found.position_at(max(0, self.top_in(text))) if seen is text else 0
        return max(0, len(texts) - 1), 0

    def reveal(self, text: SourceText) -> None:
        """Unfold what hides a text."""
        for message in self._messages():
            if message.isAncestorOf(text) and message.reveal(text):
                self.reshape(message)

    # Its messages

    def replies(self) -> Sequence[Reply]:
        """The replies in order."""
        return tuple(turn.reply for turn in self._turns if turn.reply is not None)

    def questions(self) -> Sequence[Question]:
        """The questions in order; their number is that of the turn."""
        return tuple(turn.question for turn in self._turns)

    def reply_of(self, turn: int) -> Reply | None:
        """The reply of a turn, where it has one."""
        return self._turns[turn].reply if 0 <= turn < len(self._turns) else None

    def _messages(self) -> Iterator[Message]:
        for turn in self._turns:
            yield turn.question
            if turn.reply is not None:
                yield turn.reply

    def _add_reply(self, reply: Reply) -> Reply:
        reply.text.set_tinted(self._tinted)
        reply.step_chosen.connect(self._report_step)
        reply.regeneration_asked.connect(self._report_regeneration)
        reply.continuation_asked.connect(self.continuation_asked)
        self._turns[-1].reply = reply
        self._add(reply)
        return reply

    def _add(self, message: Message) -> None:
        message.caret_moved.connect(self.follow_caret)
        message.variant_asked.connect(self._report_variant)
        message.removal_asked.connect(self._report_removal)
        message.text_changed.connect(self.texts_changed)
        message.reshaped.connect(self._keep_place)
        message.look_for(self._words)
        message.set_usable(self._usable, can_ask=self._can_ask)
        self.add(message)
        self.texts_changed.emit()

    def _take_away(self, message: Message) -> None:
        self._held = None if self._held is message else self._held
        self.take_away(message)
        self.texts_changed.emit()

    def _mark_last(self) -> None:
        for turn in self._turns[-2:]:  # those before are marked already
            if turn.reply is not None:
                turn.reply.set_last(turn is self._turns[-1])

    def _keep_place(self) -> None:
        """A message was folded or unfolded; while its end is followed, that stays in view, and else its beginning."""
        message = self.sender()
        is_written = isinstance(message, Reply) and message.state is MessageState.STREAMING
        if isinstance(message, Message) and not (is_written and self.is_following()):
            self.reshape(message)

    # Which message asks

    def _asking(self) -> tuple[int, bool]:
        """The turn of the message whose signal is being heard, and whether that is its reply."""
        asking = self.sender()
        for number, turn in enumerate(self._turns):
            if asking is turn.question or asking is turn.reply:
                return number, asking is turn.reply
        return -1, False

    def _report_step(self, step: int) -> None:
        self.step_chosen.emit(self._asking()[0], step)

    def _report_edit(self, text: str) -> None:
        self.edited.emit(self._asking()[0], text)

    def _report_regeneration(self) -> None:
        self.regeneration_asked.emit(self._asking()[0])

    def _report_variant(self, by: int) -> None:
        self.variant_asked.emit(*self._asking(), by)

    def _report_removal(self) -> None:
        self.removal_asked.emit(*self._asking())
