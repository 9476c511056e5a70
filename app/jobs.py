"""What the worker is given to run: loading a model, and answering a conversation; and the words for both.

Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from app.conversations import Turn
from medusa_core.config import DecodingConfig, GreedyAcceptance, ModelConfig, SamplingAcceptance
from medusa_core.events import Event, Progress, Step
from medusa_core.model_info import ChatMessage, ModelInfo, Weight
from medusa_core.thinking import answer_of

StopCheck = Callable[[], bool]


class ChatModel(Protocol):
    """The part of the library's chat that the app uses."""

    info: ModelInfo

    def reply(
        self, messages: Sequence[ChatMessage], config: DecodingConfig, stop: StopCheck, written: Sequence[int]
    ) -> Iterator[Event]: ...

    def reply_ids(self, text: str) -> list[int]: ...

    def weigh(
        self, messages: Sequence[ChatMessage], written: Sequence[int], token_ids: Sequence[int]
    ) -> tuple[Weight, ...]: ...


Opener = Callable[[ModelConfig, Path], Generator[Progress, None, ChatModel]]


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a reply that goes on begins with."""

    parts: tuple[tuple[int, ...] | str, ...] = ()  # tokens, and text whose tokens are not known
    steps: int = 0  # that wrote it

    def token_ids(self, model: ChatModel) -> list[int]:
        """All of it as tokens of this model."""
        return [token for part in self.parts for token in (model.reply_ids(part) if isinstance(part, str) else part)]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reply was made of: with it, the same reply can be had again."""

    turn: int  # number of its turn
    reply: int | None  # its message
    messages: tuple[ChatMessage, ...]
    config: DecodingConfig
    beginning: Beginning


def messages_of(turns: Sequence[Turn], system_prompt: str) -> list[ChatMessage]:
    """What the model is told to answer the last turn: a question that was never answered is left out.

    So is what it thought before it answered, whether its chat template would take that out or not.
    """
    messages: list[ChatMessage] = []
    if prompt := system_prompt.strip():
        messages.append({"role": "system", "content": prompt})
    for turn in turns:
        if turn is turns[-1]:
            messages.append({"role": "user", "content": turn.question})
        elif turn.answer:
            messages.append({"role": "user", "content": turn.question})
            messages.append({"role": "assistant", "content": answer_of(turn.answer, turn.figures.opened)})
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
    if info.drafting_problem:
        return info.drafting_problem
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
    model: ChatModel, messages: list[ChatMessage], config: DecodingConfig, beginning: Beginning | None = None
) -> Callable[[StopCheck], Generator[Any, None, None]]:
    """The events of a reply; one that goes on numbers its steps through."""
    begun = beginning or Beginning()

    def job(stop: StopCheck) -> Generator[Any, None, None]:
        for event in model.reply(messages, config, stop, begun.token_ids(model)):
            yield replace(event, index=event.index + begun.steps) if isinstance(event, Step) else event

    return job
