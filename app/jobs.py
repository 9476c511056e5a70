"""What the worker is given to run: loading a model, and answering a conversation; and the words for both.

Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from medusa_core.config import DecodingConfig, GreedyAcceptance, ModelConfig, SamplingAcceptance
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
    """The acceptance rule in a word or two."""
    if isinstance(config.acceptance, SamplingAcceptance):
        return "exact sampling"
    return "greedy" if isinstance(config.acceptance, GreedyAcceptance) else "typical"


def decoding_words(config: DecodingConfig) -> str:
    """How a reply is decoded, a line for each thing that matters: what it takes to have it again."""
    numbers = {name.replace("_", " "): value for name, value in asdict(config.acceptance).items()}
    if isinstance(config.acceptance, SamplingAcceptance):
        unused = {"top k": 0, "min p": 0.0, "repetition penalty": 1.0}
        numbers = {name: value for name, value in numbers.items() if unused.get(name) != value}
        numbers["seed"] = config.seed
    lines = [f"Acceptance: {rule_name(config)}", *(f"{name.capitalize()}: {value}" for name, value in numbers.items())]
    return "\n".join(lines)


def model_words(info: ModelInfo) -> tuple[str, ...]:
    """A loaded model in a few words each: its name, its precision, where it runs, its heads."""
    name = f"{info.name}, adapted by its heads" if info.adapted else info.name
    return name, info.dtype, info.device, f"{info.num_heads} heads" if info.num_heads else "no heads"


def drafting_reason(info: ModelInfo, drafter: str) -> str:
    """Why nothing is drafted; "" where something is."""
    if drafter == "none":
        return "Drafting is off in the settings: each step writes one token."
    if drafter == "medusa" and not info.num_heads:
        return info.heads_problem or "Drafting is off: it is left to the heads, and none are loaded."
    return ""


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
