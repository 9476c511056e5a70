"""The open conversation: its shown branch as turns, and the reply that is being written into it.

Errors of the store come out of every method that writes; what is shown is right all the same, and what could not be
saved goes with the next try. Knows nothing of models, or of widgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from app.conversations.records import Figures, Message, MessageState, Role
from app.conversations.store import ConversationStore
from app.conversations.writer import ReplyWriter
from medusa_core.events import Event, Step

Place = tuple[int, int]  # (0-based number among the variants, how many there are)


@dataclass
class Turn:
    """One question and what came back."""

    question: str
    asked: int = 0  # the question's message
    question_place: Place = (0, 1)
    answer: str = ""
    reply: int | None = None  # the reply's message
    reply_place: Place = (0, 1)
    state: MessageState = MessageState.COMPLETE  # of the reply
    figures: Figures = field(default_factory=Figures)  # of the reply
    events: list[Event] = field(default_factory=list)
    has_events: bool = True  # False until those of a saved reply are asked for

    @property
    def written(self) -> tuple[tuple[int, ...] | str, ...]:
        """The reply in order: tokens as far as its steps tell, and text where they do not.

        A killed process may have saved more text than steps, and words that a person chose are of no step.
        """
        parts: list[tuple[int, ...] | str] = []
        end = 0
        for step in (event for event in self.events if isinstance(event, Step) and event.spans):
            if step.spans[0][0] > end:
                parts.append(self.answer[end : step.spans[0][0]])
            parts.append(step.token_ids)
            end = step.spans[-1][1]
        # Half a character at the end is part of a token that is there already.
        if rest := self.answer[end:].rstrip("\ufffd"):
            parts.append(rest)
        return tuple(parts)


class Transcript:
    """What is shown of one conversation; none at first."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self.conversation: int | None = None
        self.turns: list[Turn] = []
        self._writer: ReplyWriter | None = None  # of the last turn's reply
        self._unfinished: list[tuple[ReplyWriter, MessageState, Figures]] = []  # could not be saved yet

    # Which one

    def new(self) -> None:
        """None of those there are."""
        self.conversation, self.turns = None, []

    def open(self, conversation: int, message: int | None = None) -> None:
        """Show a conversation; with `message`, the branch it is on."""
        if message is not None:
            self.store.messages.reveal(message)
        self.turns = _turns(self.store.messages.branch(conversation))
        self.conversation = conversation

    def load_events(self, turn: Turn) -> None:
        """Fetch the events of a saved reply. Raises StoreError where they cannot be read."""
        if not turn.has_events and turn.reply is not None:
            turn.has_events = True  # also where it fails: once is enough
            turn.events = self.store.steps(turn.reply)

    # Asking

    def ask(self, question: str) -> Turn:
        """A question at the end; the first one begins a conversation."""
        message = self.store.messages.ask(question, self.conversation)
        self.conversation = message.conversation
        self.turns.append(Turn(message.text, message.id))
        return self.turns[-1]

    def edit(self, number: int, question: str) -> Turn:
        """Another wording of a question; what followed the old one is no longer shown."""
        message = self.store.messages.edit(self.turns[number].asked, question)
        self.turns[number:] = [Turn(message.text, message.id, (message.variant, message.variants))]
        return self.turns[-1]

    # The reply that is being written

    @property
    def is_writing(self) -> bool:
        """Whether a reply has begun and not ended."""
        return self._writer is not None

    def begin_reply(self, number: int, figures: Figures, text: str = "", events: Sequence[Event] = ()) -> Turn:
        """A new reply to a question, beside those it has; it may begin with a text and the steps that wrote it."""
        old = self.turns[number]
        turn = Turn(old.question, old.asked, old.question_place, figures=figures, state=MessageState.STREAMING)
        self._writer = self.store.messages.begin_reply(old.asked, figures)
        turn.reply = self._writer.message
        self.turns[number:] = [turn]
        message = self.store.messages.get(turn.reply)
        turn.reply_place = (message.variant, message.variants)
        self.write(text, events)
        return turn

    def continue_reply(self) -> Turn:
        """Go on with the last reply."""
        turn = self.turns[-1]
        if turn.reply is None:
            raise ValueError("there is no reply to go on with")
        self._writer = self.store.messages.continue_reply(turn.reply)
        turn.state = MessageState.STREAMING
        return turn

    def write(self, text: str, events: Iterable[Event] = ()) -> None:
        """Add to the reply."""
        events = list(events)
        turn = self.turns[-1]
        turn.answer += text
        turn.events += events
        if self._writer is not None:
            self._writer.append(text, events)

    def begin_inside(self, opened: str) -> None:
        """The reply, of which nothing is written yet, begins inside a tag of thinking that its prompt ended with."""
        turn = self.turns[-1]
        if turn.answer or turn.figures.opened == opened:
            return
        turn.figures = replace(turn.figures, opened=opened)
        if self._writer is not None:
            self._writer.tell(turn.figures)

    def agree_on(self, text: str) -> bool:
        """The reply so far is this text. Returns False where other text had been shown, and not merely less."""
        turn = self.turns[-1]
        if text.startswith(turn.answer):
            self.write(text[len(turn.answer) :])
            return True
        turn.answer = text
        if self._writer is not None:
            self._writer.restart(text)
        return False

    def finish(self, state: MessageState, ending: str = "") -> None:
        """The reply has ended."""
        if self._writer is None:
            return
        turn, writer = self.turns[-1], self._writer
        turn.state, turn.figures = state, turn.figures.measured(turn.events, ending)
        self._writer = None
        self._unfinished.append((writer, state, turn.figures))
        self.save_rest()

    @property
    def has_unsaved(self) -> bool:
        """Whether the end of a reply could not be saved yet."""
        return bool(self._unfinished)

    def save_rest(self) -> None:
        """Save what could not be saved before."""
        if self._writer is not None:
            self._writer.append("")
        while self._unfinished:
            writer, state, figures = self._unfinished[0]
            writer.finish(state, figures)
            del self._unfinished[0]

    # Variants and removal

    def choose(self, number: int, by: int, *, of_reply: bool) -> bool:
        """Show the variant before (`by` -1) or after a message; False where there is none."""
        turn = self.turns[number]
        message = turn.reply if of_reply else turn.asked
        if message is None or self.conversation is None:
            return False
        if self.store.messages.beside(message, by).id == message:
            return False
        self.open(self.conversation)
        return True

    def remove(self, number: int, *, of_reply: bool) -> int:
        """Take a message away, and what follows it; returns its id, for the store's `restore`."""
        turn = self.turns[number]
        message = turn.reply if of_reply else turn.asked
        if message is None or self.conversation is None:
            raise ValueError(f"turn {number} has no reply to remove")
        self.store.messages.remove(message)
        self.open(self.conversation)
        return message


def _turns(messages: Sequence[Message]) -> list[Turn]:
    """Questions with their replies. A reply without a question can only be imported; it answers an empty one."""
    turns: list[Turn] = []
    for message in messages:
        place = (message.variant, message.variants)
        if message.role is Role.USER:
            turns.append(Turn(message.text, message.id, place))
            continue
        if not turns or turns[-1].reply is not None:
            turns.append(Turn("", message.id))
        turn = turns[-1]
        turn.answer, turn.reply, turn.reply_place = message.text, message.id, place
        turn.state, turn.figures, turn.has_events = message.state, message.figures or Figures(), False
    return turns
