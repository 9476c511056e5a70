"""The running figures of a reply that its charts draw: kept guesses by who proposed them, lengths, and times.

Adds to `ReplyMetrics` what only charts need. Knows nothing of Qt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from medusa_core.events import Source, Step
from medusa_core.metrics import ReplyMetrics

GUESSERS = (Source.HEAD, Source.LOOKUP, Source.RECYCLING)
COLUMNS = (
    "step",
    "tokens",
    "guesses_kept",
    "draft_nodes",
    "seconds",
    "draft_seconds",
    "verify_seconds",
    "accept_seconds",
    "kept_of_heads",
    "kept_of_lookup",
    "kept_of_recycling",
)


@dataclass(slots=True)
class StepFigures:
    """Folds the steps of one reply."""

    metrics: ReplyMetrics = field(default_factory=ReplyMetrics)
    kept: Counter[tuple[int, Source]] = field(default_factory=Counter)  # steps by (k, who proposed the k-th kept guess)
    seen: set[Source] = field(default_factory=set)  # who has proposed anything
    draft_nodes: int = 0
    drafted_steps: int = 0
    times: list[tuple[float, float, float]] = field(default_factory=list)  # draft, verify, accept of every step, in s

    def add(self, step: Step) -> None:
        """Count one step in."""
        self.metrics.add(step)
        for depth, index in enumerate(step.path[1:], 1):
            self.kept[depth, step.nodes[index].source] += 1
        self.seen.update(node.source for node in step.nodes[1:])
        self.draft_nodes += len(step.nodes) - 1
        self.drafted_steps += len(step.nodes) > 1
        self.times.append((step.draft_seconds, step.verify_seconds, step.accept_seconds))

    @property
    def shares(self) -> tuple[float, ...]:
        """For k = 1, 2, ... the share of steps in which at least k guesses were kept."""
        return self.metrics.acceptance_per_head

    def parts(self, k: int) -> dict[Source, float]:
        """The share of steps in which at least k guesses were kept, by who proposed the k-th."""
        return {source: self.kept[k, source] / self.metrics.steps for source in GUESSERS if self.kept[k, source]}

    @property
    def lengths(self) -> tuple[float, ...]:
        """The share of steps in which exactly 0, 1, 2, ... guesses were kept."""
        counts, steps = self.metrics.kept_guesses, self.metrics.steps
        return tuple(counts[kept] / steps for kept in range(max(counts) + 1)) if steps else ()

    @property
    def mean_draft_nodes(self) -> float:
        """Of the steps that drafted anything."""
        return self.draft_nodes / self.drafted_steps if self.drafted_steps else 0.0

    @property
    def mean_times(self) -> tuple[float, float, float]:
        """Draft, verify and accept, in seconds a step."""
        count = max(len(self.times), 1)
        draft, verify, accept = (sum(times[part] for times in self.times) / count for part in range(3))
        return draft, verify, accept


def table(steps: Sequence[Step]) -> list[list[str]]:
    """The figures step by step, the first row being `COLUMNS`. Steps count from 1 for people."""
    rows = [list(COLUMNS)]
    for step in steps:
        sources = Counter(step.nodes[index].source for index in step.path[1:])
        seconds = (step.seconds, step.draft_seconds, step.verify_seconds, step.accept_seconds)
        rows.append(
            [
                *map(str, (step.index + 1, len(step.token_ids), len(step.path) - 1, len(step.nodes) - 1)),
                *(f"{value:.6f}" for value in seconds),
                *(str(sources[source]) for source in GUESSERS),
            ]
        )
    return rows
