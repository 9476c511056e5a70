"""Which conversations a model has with itself: where each prompt comes from, how warm the reply, whether it goes on.

Three sources, mixed by shares: a user's file, the project's generator, and nothing at all (the model then writes the
user's message itself). The list is endless and the same for the same configuration; several writers take every n-th.
Knows nothing of models or tokenizers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medusa_core.config import DistillConfig
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt
from medusa_core.train import prompts


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation to have: its number, how it begins and how it goes on."""

    number: int
    messages: tuple[ChatMessage, ...]  # empty: the model writes the user's message itself
    temperature: float
    followup: str  # the user's second message; "" for none

    def job(self, turn: int) -> int:
        """The number its reply of turn 0 or 1 is stored under."""
        return 2 * self.number + turn


def conversation_of(job: int) -> int:
    """The number of the conversation that a stored reply belongs to."""
    return job // 2


def plan(
    config: DistillConfig, file: Sequence[FilePrompt] = (), *, rank: int = 0, ranks: int = 1
) -> Iterator[Conversation]:
    """The endless list, or of `ranks` writers the part of writer number `rank`.

    Each prompt of the file is asked once, at the share the configuration gives the file; then the other sources go on
    alone.
    """
    rng = random.Random(config.seed)
    written = prompts.generate(prompts.MAX_PROMPTS, config.seed)
    own = iter(file)
    number = 0
    while True:
        from_file, itself, further = (
            rng.random() < share for share in (config.from_file, config.self_written, config.multi_turn)
        )
        entry = next(own, None) if from_file else None
        followup = prompts.followup(config.seed + number) if further else ""
        messages: tuple[ChatMessage, ...] = ()
        if entry is not None:
            messages, followup = entry.messages, entry.followup or followup
        elif not itself:
            prompt = next(written, None)
            if prompt is None:
                written = prompts.generate(prompts.MAX_PROMPTS, config.seed + number)
                prompt = next(written)
            messages = (ChatMessage(role="user", content=prompt),)
        temperature = rng.choice(config.temperatures)
        if number % ranks == rank:
            yield Conversation(number, messages, temperature, followup)
        number += 1
