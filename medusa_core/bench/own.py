"""This library as a system of the bench: a backbone, a drafter and a rule, every reply over an empty cache.

Knows nothing of prompts' texts or of the other systems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

from medusa_core.backbone.base import Backbone
from medusa_core.bench.records import Answer
from medusa_core.bench.runner import PLAIN
from medusa_core.chat import Chat, rule_for
from medusa_core.config import DecodingConfig, DrafterName
from medusa_core.drafters.base import Drafter
from medusa_core.drafters.choice import Drafters
from medusa_core.engine import Engine
from medusa_core.events import Finished, Prefilled
from medusa_core.state import State

_DRAFTERS: dict[str, DrafterName] = {
    PLAIN: "none",
    "hybrid": "hybrid",
    "medusa": "medusa",
    "lookup": "lookup",
    "recycling": "recycling",
}


class DrafterChoice(Protocol):
    """Has the drafter of every reply; what it learns stays with it."""

    def drafter(self, config: DecodingConfig) -> Drafter:
        """For one reply."""
        ...


@dataclass(frozen=True, slots=True)
class FixedDrafter:
    """The same drafter for every reply."""

    only: Drafter

    def drafter(self, config: DecodingConfig) -> Drafter:
        """That one."""
        return self.only


class EngineSystem:
    """Decodes as one DecodingConfig says."""

    def __init__(
        self,
        name: str,
        backbone: Backbone,
        stop_ids: frozenset[int],
        config: DecodingConfig,
        drafters: Callable[[], DrafterChoice],
        about: dict[str, str],
    ) -> None:
        """`drafters` makes some that have learnt nothing yet."""
        self._name, self._backbone, self._stop_ids = name, backbone, stop_ids
        self.config, self._fresh, self._about = config, drafters, about
        self._drafters = drafters()

    @property
    def name(self) -> str:
        """Its name in tables and files."""
        return self._name

    @property
    def about(self) -> dict[str, str]:
        """Precision and options."""
        return self._about

    def warm_up(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        """Answer once: kernels are compiled and passes of new shapes prepared."""
        self.answer(prompt, max_new_tokens)

    def begin_run(self) -> None:
        """New drafters."""
        self._drafters = self._fresh()

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """Decode one reply, its text left out. A step brings the tokens of its path, the root among them.

        The last step's own choice, which no longer belongs to the reply, stands in for the first token, which the
        prompt's pass brought: so as many tokens are decoded as the reply has.
        """
        engine = Engine(
            self._backbone,
            self._drafters.drafter(self.config),
            rule_for(self.config.acceptance, self.config.seed, explain=False),
            stop_ids=self._stop_ids,
            max_new_tokens=max_new_tokens,
        )
        state = State(self._backbone.new_cache())
        finished: Finished | None = None
        started = first = perf_counter()
        for event in engine.generate(state, prompt):
            if isinstance(event, Prefilled):
                first = perf_counter()
            elif isinstance(event, Finished):
                finished = event
        ended = perf_counter()
        assert finished is not None, "every reply ends with Finished"
        return Answer(finished.token_ids, finished.tokens, finished.steps, first - started, ended - first)


def own_system(name: str, chat: Chat, config: DecodingConfig) -> EngineSystem:
    """ "ours": as `config` says; the other names put their drafter in its place."""
    if name in _DRAFTERS:
        config = replace(config, drafter=_DRAFTERS[name])
    about = {
        "program": "medusa-chat",
        "precision": chat.info.dtype,
        "drafter": config.drafter,
        "heads": chat.info.heads_name,
        "draft_nodes": "0" if config.drafter == "none" else str(config.nodes or "measured"),
        "acceptance": str(config.acceptance),
    }
    return EngineSystem(name, chat.backbone, chat.text.stop_ids, config, lambda: learnt_nothing(chat), about)


def learnt_nothing(chat: Chat) -> Drafters:
    """Drafters over the chat's heads and costs that have seen no reply."""
    return Drafters(chat.checkpoint, chat.backbone.spec.vocab_size, chat.costs, trees=not chat.backbone.spec.no_trees)
