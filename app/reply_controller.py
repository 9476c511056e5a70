"""Asking, and the reply: one method per intent, and what its events do to the views and to what is saved.

Knows nothing of how a model is loaded, or of which conversations there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.conversations import Figures, MessageState, Transcript, Turn, state_after
from app.jobs import Asked, Beginning, ChatModel, decoding_words, messages_of, replying, rule_name
from app.saving import Saving
from app.screen import Views
from app.settings import Settings
from app.throttle import Throttle
from app.views.notices import Notice, Topic, Way
from app.worker import Failure, Worker
from medusa_core.config import DecodingConfig, SamplingAcceptance
from medusa_core.events import Event, Finished, Prefilled, Step, StopReason

Written = tuple[tuple[int, ...] | str, ...]


class ReplyController(QObject):
    """The running reply, and the conversation it belongs to."""

    began = Signal()
    changed = Signal()  # something was asked or answered
    facts_changed = Signal()  # the context has grown, or why nothing was drafted

    def __init__(
        self, views: Views, worker: Worker, throttle: Throttle, transcript: Transcript, saving: Saving
    ) -> None:
        super().__init__()
        self._views, self._worker, self._throttle = views, worker, throttle
        self.transcript, self._saving = transcript, saving
        self.settings = Settings()
        self.model: ChatModel | None = None
        self.can_ask = False  # there is a model, and it has nothing to do
        self.context_tokens = 0
        self.asked: Asked | None = None  # the newest reply, and what it takes to have it again
        self.step_note = ""  # why the newest step drafted nothing
        self._is_going_on = False  # the running reply began with something
        self._dropping = False  # the running reply belongs to a conversation that is no longer shown
        self._shown_turn = -1  # whose steps the panel holds

    # Intents

    def send(self, question: str) -> None:
        """Ask; the reply is decoded with the settings of this moment."""
        turn: Turn | None = None
        if self.can_ask:
            with self._saving.guarded():
                turn = self.transcript.ask(question)
        if turn is None:
            self._views.composer.set_text(question)
            return
        self._views.chat.add_turn(turn)
        self._begin(len(self.transcript.turns) - 1)

    def edit(self, number: int, question: str) -> None:
        """Ask in other words; the old branch stays as a variant."""
        if not self.can_ask:
            return
        turn: Turn | None = None
        with self._saving.guarded():
            turn = self.transcript.edit(number, question)
        if turn is not None:
            self._views.chat.show_from(number, [turn])
            self._begin(number)

    def regenerate(self, number: int) -> None:
        """Another reply to the same question, beside those it has."""
        if self.can_ask and 0 <= number < len(self.transcript.turns):
            self._begin(number)

    def regenerate_last(self) -> None:
        """Another reply to the last question."""
        self.regenerate(len(self.transcript.turns) - 1)

    def ask_again(self) -> None:
        """Try the last question once more; a reply that broke off before its first word leaves no variant."""
        turns = self.transcript.turns
        if self.can_ask and turns:
            if turns[-1].reply is not None and not turns[-1].answer:
                with self._saving.guarded():
                    self.transcript.store.messages.remove(turns[-1].reply)
            self.regenerate_last()

    def continue_reply(self) -> None:
        """Go on with the last reply where it was cut or stopped."""
        number = len(self.transcript.turns) - 1
        if not self.can_ask or number < 0 or self.transcript.turns[-1].reply is None:
            return
        self.load_steps(number)
        turn = self.transcript.turns[-1]
        config = self._config()
        begun = False
        with self._saving.guarded():
            self.transcript.continue_reply()
            begun = True
        reply = self._views.chat.reply_of(number)
        if begun and reply is not None:
            turn.figures = replace(turn.figures, rule=rule_name(config), seed=_seed(config))
            reply.go_on(rule_name(config), decoding_words(config))
            self._run(config, turn.written)

    def steer(self, number: int, token_ids: Sequence[int]) -> None:
        """Have a reply begin with exactly these tokens and go on from there, as a new variant."""
        if not self.can_ask or not 0 <= number < len(self.transcript.turns):
            return
        self.load_steps(number)
        old = self.transcript.turns[number]
        kept = _steps_within(old.events, token_ids)
        ends = [step.spans[-1][1] for step in kept if isinstance(step, Step) and step.spans]
        self._begin(number, (tuple(token_ids),), old.answer[: ends[-1] if ends else 0], kept)

    def leave(self) -> None:
        """The conversation is no longer shown: a reply under way is stopped, and what there is of it is kept."""
        self._views.undo.settle()
        self._views.notices.settle(Topic.REPLY)
        self._throttle.flush()
        if self.transcript.is_writing:
            self._dropping = True
            with self._saving.guarded():
                self.transcript.finish(MessageState.STOPPED)
            self._worker.stop()

    def show(self) -> None:
        """Another conversation is shown, or another branch of it."""
        turns = self.transcript.turns
        self._shown_turn = -1
        self.context_tokens, self.step_note = 0, ""
        self._views.panel.clear()
        if turns and turns[-1].reply is not None:
            self._show_in_panel(len(turns) - 1)
            steps = [event for event in turns[-1].events if isinstance(event, Step)]
            self.context_tokens = steps[-1].context_tokens if steps else 0
        self.facts_changed.emit()

    def load_steps(self, number: int) -> None:
        """Bring back the steps of a saved reply."""
        turn, reply = self.transcript.turns[number], self._views.chat.reply_of(number)
        if turn.has_events:
            return
        with self._saving.guarded():
            self.transcript.load_events(turn)
        if reply is not None:
            reply.add_steps([event for event in turn.events if isinstance(event, Step)])

    # The panel

    def hold_step(self, step: int) -> None:
        """The panel shows a step; -1: it shows the newest."""
        self._views.chat.hold_step(self._shown_turn, step)

    def show_step(self, number: int, step: int) -> None:
        """Show in the panel the step that wrote a token of the transcript."""
        self._views.window.panel_action.setChecked(True)
        if number != self._shown_turn:
            if self.transcript.is_writing:
                return  # the panel belongs to the reply being written
            self._views.chat.hold_step(number, -1)
            self._show_in_panel(number)
        self._views.panel.show_step(step)

    @property
    def shown_turn(self) -> int:
        """The turn whose steps the panel holds; -1 for none."""
        return self._shown_turn

    def _show_in_panel(self, number: int) -> None:
        self.load_steps(number)
        self._shown_turn = number
        events = self.transcript.turns[number].events
        if events:
            self._views.panel.begin_reply()
            self._views.panel.show_events(events)
        else:
            self._views.panel.clear()

    # Running

    def _config(self) -> DecodingConfig:
        return self.settings.decoding(explain=self._views.window.panel_action.isChecked())

    def _begin(self, number: int, written: Written = (), text: str = "", events: Sequence[Event] = ()) -> None:
        """A new reply to a question; it may begin with tokens, of which a text and steps are known already."""
        assert self.model is not None
        config = self._config()
        opened = self.transcript.turns[number].figures.opened if text else ""
        figures = Figures(model=self.model.info.name, rule=rule_name(config), seed=_seed(config), opened=opened)
        begun = False
        with self._saving.guarded():
            turn = self.transcript.begin_reply(number, figures)
            begun = True
        if not begun:
            return
        chat = self._views.chat
        chat.cut_to(number + 1)
        reply = chat.begin_reply(rule_name(config), decoding_words(config))
        reply.bar.set_place(*turn.reply_place)
        if text or events:
            with self._saving.guarded():
                self.transcript.write(text, events)
            reply.begin_inside(opened)
            reply.text.append_text(text)
            reply.add_steps([event for event in events if isinstance(event, Step)])
        self._run(config, written)

    def _run(self, config: DecodingConfig, written: Written) -> None:
        """Let the model answer the last turn; the reply begins with what is written."""
        assert self.model is not None
        turns = self.transcript.turns
        self._views.notices.settle(Topic.REPLY)
        self._views.undo.settle()
        self._views.chat.hold_step(-1, -1)
        self._views.chat.follow()
        self._views.panel.begin_reply()
        if turns[-1].events:
            self._views.panel.show_events(turns[-1].events)
        self._shown_turn = len(turns) - 1
        self._is_going_on = bool(written)
        self.step_note = ""
        self.began.emit()
        self.changed.emit()
        steps = sum(isinstance(event, Step) for event in turns[-1].events)
        messages = messages_of(turns, self.settings["system_prompt"])
        beginning = Beginning(written, steps)
        self.asked = Asked(len(turns) - 1, turns[-1].reply, tuple(messages), config, beginning)
        self._worker.run(replying(self.model, messages, config, beginning))

    # Reports

    def take_events(self, events: list[object]) -> None:
        """What the running reply yielded since the last batch."""
        if self._dropping or not self.transcript.is_writing:
            return
        kept = [event for event in events if isinstance(event, Prefilled | Step | Finished)]
        text = ""
        for event in kept:
            if isinstance(event, Prefilled):
                self.context_tokens = event.prompt_tokens
                self._begin_inside(event.opened)
                if self._is_going_on:
                    self._agree_on(event.text)
            elif isinstance(event, Step):
                self.context_tokens, self.step_note = event.context_tokens, event.note
                text += event.text
            else:
                text += event.tail
        with self._saving.guarded():
            self.transcript.write(text, kept)
        self._views.chat.show_events(events)
        self._views.panel.show_events(kept)
        if kept and isinstance(kept[-1], Finished):
            with self._saving.guarded():
                self.transcript.finish(state_after(kept[-1].reason), str(kept[-1].reason))
            if kept[-1].reason is StopReason.CONTEXT_FULL:
                self._views.notices.tell(
                    Notice(Topic.REPLY, kept[-1].message, ways=(Way.NEW_CHAT, Way.OPEN_SETTINGS), is_error=False)
                )
        self.facts_changed.emit()

    def _begin_inside(self, opened: str) -> None:
        """The prompt ended with this tag of thinking, or with none."""
        with self._saving.guarded():
            self.transcript.begin_inside(opened)
        self._views.chat.replies()[-1].begin_inside(self.transcript.turns[-1].figures.opened)

    def _agree_on(self, text: str) -> None:
        """The words of the tokens that the reply begins with, and those shown so far, may differ at their end."""
        shown, reply = self.transcript.turns[-1].answer, self._views.chat.replies()[-1]
        merely_more = text.startswith(shown)
        with self._saving.guarded():
            self.transcript.agree_on(text)
        if merely_more:
            reply.text.append_text(text[len(shown) :])
        else:
            reply.rewrite(text)

    def take_failure(self, failure: Failure) -> None:
        """The running reply has broken off."""
        if not self._dropping:
            with self._saving.guarded():
                self.transcript.finish(MessageState.CUT)
            self._views.chat.fail_reply()
            ways = (Way.ASK_AGAIN, Way.OPEN_SETTINGS)
            self._views.notices.tell(Notice(Topic.REPLY, failure.message, failure.details, ways))

    def end(self) -> None:
        """The job is over, however it ended."""
        self._dropping = False
        self.changed.emit()


def _seed(config: DecodingConfig) -> int | None:
    return config.seed if isinstance(config.acceptance, SamplingAcceptance) else None


def _steps_within(events: Sequence[Event], token_ids: Sequence[int]) -> list[Event]:
    """The steps from the beginning on, as long as all that they wrote is among these tokens."""
    kept: list[Event] = []
    done = 0
    for step in (event for event in events if isinstance(event, Step)):
        if tuple(token_ids[done : done + len(step.token_ids)]) != step.token_ids:
            break
        done += len(step.token_ids)
        kept.append(step)
    return kept
