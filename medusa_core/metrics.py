"""Fold step events into the figures people read: tokens a second, tokens a step, acceptance per head.

Definitions, used everywhere in the project: a step is one verification pass and its tokens count the root once;
*acceptance of head k* is the share of steps in which at least k guesses were kept; tokens per step is tokens divided
by steps. Knows nothing of how the events came about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from medusa_core.events import Finished, Step, StopReason


@dataclass(slots=True)
class ReplyMetrics:
    """The running figures of one reply."""

    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0  # decoding only
    kept_guesses: Counter[int] = field(default_factory=Counter)  # steps by number of guesses kept
    deepest: int = 0  # depth of the deepest tree seen

    def add(self, step: Step) -> None:
        """Count one step in."""
        self.tokens += len(step.token_ids)
        self.steps += 1
        self.seconds += step.seconds
        self.kept_guesses[len(step.path) - 1] += 1
        self.deepest = max(self.deepest, max(node.depth for node in step.nodes))

    @property
    def tokens_per_step(self) -> float:
        """Tokens per verification pass; 0 before the first step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Decoding speed, prefill apart; 0 before the first step."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def acceptance_per_head(self) -> tuple[float, ...]:
        """For k = 1, 2, ... the share of steps in which at least k guesses were kept."""
        if not self.steps:
            return ()
        return tuple(
            sum(count for kept, count in self.kept_guesses.items() if kept >= k) / self.steps
            for k in range(1, self.deepest + 1)
        )

    def finished(
        self,
        reason: StopReason,
        token_ids: Sequence[int],
        *,
        prompt_tokens: int,
        prefill_seconds: float,
        text: str = "",
        message: str = "",
    ) -> Finished:
        """The last event of the reply, with the figures of all its steps."""
        return Finished(
            reason=reason,
            token_ids=tuple(token_ids),
            text=text,
            tail="",
            tokens=self.tokens,
            steps=self.steps,
            tokens_per_step=self.tokens_per_step,
            tokens_per_second=self.tokens_per_second,
            acceptance_per_head=self.acceptance_per_head,
            prompt_tokens=prompt_tokens,
            prefill_seconds=prefill_seconds,
            decode_seconds=self.seconds,
            message=message,
        )
