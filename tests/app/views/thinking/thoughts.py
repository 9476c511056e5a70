"""A reply that thinks aloud, the steps that write it, and what its two parts show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from PySide6.QtWidgets import QApplication

from app.conversations import Figures, Turn
from app.views.chat import Chat
from app.views.reply import Reply
from app.views.reply_text import ReplyText
from app.views.source_text import SourceText
from medusa_core.events import Finished, Step, StopReason
from medusa_core.metrics import ReplyMetrics
from medusa_core.testing import scripted_reply

SOME_STEP = next(event for event in scripted_reply(1) if isinstance(event, Step))
THOUGHT = "\nOkay, **why** 👩‍👩‍👧 is it?\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| c | needle |\n"
ANSWER = "\n\nBecause `<think>` is a tag, and a needle is </think> one.\n\n- So.\n"
TEXT = f"<think>{THOUGHT}</think>{ANSWER}"


def steps_of(text: str, size: int = 3, *, first: int = 0, start: int = 0, seconds: float = 1.0) -> list[Step]:
    """Steps of two tokens that write the text, so many characters a token."""
    steps = []
    for at in range(0, len(text), 2 * size):
        cuts = [min(len(text), at + size * number) + start for number in range(3)]
        spans = [(low, high) for low, high in pairwise(cuts) if low < high]
        piece = text[at : at + 2 * size]
        ids = tuple(range(len(spans)))
        steps.append(
            replace(SOME_STEP, index=first + len(steps), text=piece, spans=tuple(spans), token_ids=ids, seconds=seconds)
        )
    return steps


def finished(text: str, reason: StopReason = StopReason.STOP) -> Finished:
    return ReplyMetrics().finished(reason, [], text=text, prompt_tokens=1, prefill_seconds=0.0)


def restored(chat: Chat, text: str, *, opened: str = "", steps: bool = True) -> Reply:
    chat.show_turns([Turn("Why?", 1, answer=text, reply=2, figures=Figures("m", "greedy", tokens=9, opened=opened))])
    reply = chat.replies()[0]
    if steps:
        reply.add_steps(steps_of(text))
    settle(chat)
    return reply


def settle(chat: Chat) -> None:
    chat.settle()
    QApplication.processEvents()


def shown_words(texts: Sequence[SourceText]) -> str:
    return "\n".join(text.document().toPlainText() for text in texts)


def read(text: ReplyText) -> tuple[str, str]:
    """What the two parts show."""
    return shown_words(text.thinking.column.texts()), shown_words(text.answer.texts())
