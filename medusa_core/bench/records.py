"""What is measured, as plain data: one answer, one reply of a system to a prompt, whether it loops.

A token counts as decoded when a pass after the one that read the prompt brought it; a stop token is one of them, the
first token is not. So one pass of plain decoding is one decoded token in every program. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.model_info import ChatMessage

_LAST = 64  # tokens of a reply's end that are looked at
_GRAM = 4
_DISTINCT = 0.5  # a smaller share of different 4-grams is a loop


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One conversation to answer, as every system gets it: token ids."""

    name: str
    category: str
    messages: tuple[ChatMessage, ...]
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system made of a prompt, and how long it took; times are wall times around it."""

    token_ids: tuple[int, ...]  # the reply without its stop token
    decoded: int  # tokens that passes after the prompt's brought, the stop token counted
    steps: int  # those passes
    first_token_seconds: float  # from the call until the first token is known
    decode_seconds: float  # from there to the end


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it is reported."""

    prompt: str
    category: str
    run: int
    order: int  # the how-manieth system it was to answer this prompt in this run
    prompt_tokens: int
    tokens: int
    decoded: int
    steps: int
    seconds: float  # of decoding, the prompt apart
    time_to_first_token: float
    tokens_per_second: float | None  # decoded tokens a second; None where nothing was decoded
    tokens_per_step: float | None
    looping: bool
    identical_to_plain: bool | None  # the same tokens; None where plain decoding did not answer


def loops(token_ids: Sequence[int]) -> bool:
    """Fewer than half of the 4-grams of the last 64 tokens differ from each other."""
    last = tuple(token_ids[-_LAST:])
    grams = [last[start : start + _GRAM] for start in range(len(last) - _GRAM + 1)]
    return len(set(grams)) < _DISTINCT * len(grams)


def make_reply(
    prompt: BenchPrompt, answer: Answer, *, run: int, order: int, plain: tuple[int, ...] | None = None
) -> Reply:
    """The record of an answer; `plain`: the tokens of plain decoding."""
    return Reply(
        prompt=prompt.name,
        category=prompt.category,
        run=run,
        order=order,
        prompt_tokens=len(prompt.token_ids),
        tokens=len(answer.token_ids),
        decoded=answer.decoded,
        steps=answer.steps,
        seconds=answer.decode_seconds,
        time_to_first_token=answer.first_token_seconds,
        tokens_per_second=answer.decoded / answer.decode_seconds if answer.decoded and answer.decode_seconds else None,
        tokens_per_step=answer.decoded / answer.steps if answer.steps else None,
        looping=loops(answer.token_ids),
        identical_to_plain=None if plain is None else answer.token_ids == plain,
    )
