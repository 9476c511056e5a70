"""Let several systems answer the same prompts in turn: prompt by prompt, who begins changing with every prompt.

So whatever else the machine does meets all of them alike. What was measured stays when a run is interrupted.
Knows nothing of any particular system.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from medusa_core.bench.records import Answer, BenchPrompt, Reply, make_reply
from medusa_core.config import BenchConfig
from medusa_core.events import Progress

PLAIN = "plain"


class System(Protocol):
    """Something that answers prompts."""

    @property
    def name(self) -> str:
        """Its name in tables and files."""
        ...

    @property
    def about(self) -> dict[str, str]:
        """What it runs with: precision, versions, what was loaded for it."""
        ...

    def warm_up(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        """Load what is not loaded, choose what is to be chosen, and answer once."""
        ...

    def begin_run(self) -> None:
        """Forget everything earlier replies have taught."""
        ...

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """Reply to a prompt, read from its beginning."""
        ...


class Bench:
    """One measurement; `replies` and `answers` grow while it runs."""

    def __init__(self, systems: Sequence[System], prompts: Sequence[BenchPrompt], config: BenchConfig) -> None:
        self._systems, self._prompts, self._config = systems, prompts, config
        self.replies: dict[str, list[Reply]] = {system.name: [] for system in systems}
        self.answers: dict[tuple[str, str, int], Answer] = {}  # by system, prompt and run
        self.complete = False

    def run(self) -> Generator[Progress, None, None]:
        """Warm every system up on the last prompt, then measure; one event before each answer."""
        total = len(self._systems) * len(self._prompts) * self._config.runs
        for number, system in enumerate(self._systems):
            yield Progress(f"Warming up {system.name}", number, len(self._systems))
            system.warm_up(self._prompts[-1].token_ids, self._config.warm_up)
        done = 0
        for run in range(self._config.runs):
            for system in self._systems:
                system.begin_run()
            for index, prompt in enumerate(self._prompts):
                for order, system in enumerate(rotated(self._systems, index + run)):
                    yield Progress(self._place(run, index, system), done, total)
                    if self._config.forget:
                        system.begin_run()
                    answer = system.answer(prompt.token_ids, self._config.max_new_tokens)
                    self.answers[system.name, prompt.name, run] = answer
                    self.replies[system.name].append(make_reply(prompt, answer, run=run, order=order))
                    done += 1
        self.complete = True

    def compared(self) -> dict[str, list[Reply]]:
        """The replies, each now beside plain decoding's where that answered the same prompt in the same run."""
        prompts = {prompt.name: prompt for prompt in self._prompts}
        return {
            name: [
                make_reply(
                    prompts[reply.prompt],
                    self.answers[name, reply.prompt, reply.run],
                    run=reply.run,
                    order=reply.order,
                    plain=self._plain(reply),
                )
                for reply in replies
            ]
            for name, replies in self.replies.items()
        }

    def _plain(self, reply: Reply) -> tuple[int, ...] | None:
        answer = self.answers.get((PLAIN, reply.prompt, reply.run))
        return None if answer is None else answer.token_ids

    def _place(self, run: int, index: int, system: System) -> str:
        runs = f"run {run + 1} of {self._config.runs}, " if self._config.runs > 1 else ""
        return f"{runs}prompt {index + 1} of {len(self._prompts)}, {system.name}:"


def rotated(systems: Sequence[System], by: int) -> list[System]:
    """The same order, begun `by` further on."""
    start = by % len(systems)
    return [*systems[start:], *systems[:start]]
