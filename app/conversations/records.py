"""The nouns of the store, frozen: conversations, messages, search hits. Knows nothing of SQLite."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from medusa_core.events import Prefilled, Step, StopReason
from medusa_core.metrics import ReplyMetrics

_TITLE_LENGTH = 60  # characters
_SURROGATES = re.compile("[\ud800-\udfff]")


class Role(StrEnum):
    """Who wrote a message."""

    USER = "user"
    ASSISTANT = "assistant"


class MessageState(StrEnum):
    """How far a message got."""

    COMPLETE = "complete"
    STREAMING = "streaming"  # being written at this moment
    CUT = "cut"  # broken off: a crash, a failure, the longest reply allowed, a full context
    STOPPED = "stopped"  # by the person


@dataclass(frozen=True, slots=True)
class Figures:
    """What the footer of a reply says. The model, the rule and the seed are known from its beginning."""

    model: str = ""
    rule: str = ""
    seed: int | None = None
    tokens: int = 0
    tokens_per_second: float = 0.0
    tokens_per_step: float = 0.0
    first_token_seconds: float | None = None
    ending: str = ""  # a StopReason, or "" where the reply never came to an end
    opened: str = ""  # the tag of thinking that the prompt ended with: the reply begins inside it

    def measured(self, events: Iterable[object], ending: str = "") -> Figures:
        """The same, with what the events of the reply tell: of all its steps, also where it was continued."""
        metrics, first = ReplyMetrics(), None
        read: float | None = None  # how long the reading took, of a run whose first step is still to come
        for event in events:
            if isinstance(event, Prefilled):
                read = event.seconds
            elif isinstance(event, Step):
                if first is None and read is not None:
                    first = read + event.seconds
                metrics.add(event)
        return replace(
            self,
            tokens=metrics.tokens,
            tokens_per_second=metrics.tokens_per_second,
            tokens_per_step=metrics.tokens_per_step,
            first_token_seconds=first,
            ending=ending,
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Figures:
        """Keys this version does not know are passed over: a newer one may have written them."""
        known = {field.name for field in fields(Figures)}
        return Figures(**{key: value for key, value in values.items() if key in known})


def state_after(reason: StopReason) -> MessageState:
    """What a reply is, given why it ended."""
    if reason is StopReason.STOP:
        return MessageState.COMPLETE
    return MessageState.STOPPED if reason is StopReason.CANCELLED else MessageState.CUT


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of the conversation list."""

    id: int
    title: str
    created: float  # seconds since 1970, UTC; the other times too
    updated: float  # when a message was last written
    pinned: bool = False
    deleted: float | None = None  # when; it can be restored until it is purged


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Its variants are the messages with the same parent: other tries at the same place."""

    id: int
    conversation: int
    parent: int | None  # the message it answers or follows; None for a first question
    role: Role
    text: str  # as it was written, markup and all
    state: MessageState
    figures: Figures | None  # of a reply
    created: float
    variant: int  # 0-based place among its variants, oldest first
    variants: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where the words searched for were found."""

    conversation: int
    title: str
    message: int | None  # None: in the title
    snippet: tuple[tuple[str, bool], ...]  # (text, whether it is one of the words)
    created: float


def title_from(text: str) -> str:
    """The first line of a message with words in it, cut at a word to a title's length."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    if len(line) <= _TITLE_LENGTH:
        return line
    start, space, _rest = line[: _TITLE_LENGTH + 1].rpartition(" ")
    return (start if space and len(start) > _TITLE_LENGTH // 2 else line[:_TITLE_LENGTH]).rstrip(" ,;:.-") + "…"


def storable(text: str) -> str:
    """The text, lone surrogates replaced one for one: UTF-8 has no room for them, so the file could not hold them."""
    return _SURROGATES.sub("\ufffd", text)
