"""What the worker is given to run: loading a model, and answering a conversation; and the words for both.

Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from medusa_core.config import DecodingConfig, GreedyAcceptance, ModelConfig
from medusa_core.events import Event, Progress
from medusa_core.model_info import ChatMessage, ModelInfo

StopCheck = Callable[[], bool]


class ChatModel(Protocol):
    """The part of the library's chat that the app uses."""

    info: ModelInfo

    def reply(self, messages: Sequence[ChatMessage], config: DecodingConfig, stop: StopCheck) -> Iterator[Event]: ...


Opener = Callable[[ModelConfig, Path], Generator[Progress, None, ChatModel]]


@dataclass
class Turn:
    """One question and what came back."""

    question: str
    answer: str = ""
    events: list[object] = field(default_factory=list)


def messages_of(turns: Sequence[Turn], system_prompt: str) -> list[ChatMessage]:
    """What the model is told: a question that was never answered is left out, unless it is the newest."""
    messages: list[ChatMessage] = []
    if prompt := system_prompt.strip():
        messages.append({"role": "system", "content": prompt})
    for turn in turns:
        if turn.answer or turn is turns[-1]:
            messages.append({"role": "user", "content": turn.question})
        if turn.answer:
            messages.append({"role": "assistant", "content": turn.answer})
    return messages


def rule_name(config: DecodingConfig) -> str:
    """The acceptance rule in one word."""
    return "greedy" if isinstance(config.acceptance, GreedyAcceptance) else "typical"


def drafting_reason(info: ModelInfo) -> str:
    """Why nothing is drafted; "" where drafting is on."""
    if info.num_heads:
        return ""
    return info.heads_problem or "Drafting is off: no heads are loaded, so each step writes one token."


def loading(opener: Opener, config: ModelConfig, cache: Path) -> Callable[[StopCheck], Generator[Any, None, Any]]:
    def job(stop: StopCheck) -> Generator[Any, None, ChatModel | None]:
        events = opener(config, cache)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return None if stop() else end.value
            yield event
            if stop():
                events.close()
                return None

    return job


def replying(
    model: ChatModel, messages: list[ChatMessage], config: DecodingConfig
) -> Callable[[StopCheck], Generator[Any, None, None]]:
    def job(stop: StopCheck) -> Generator[Any, None, None]:
        yield from model.reply(messages, config, stop)

    return job
