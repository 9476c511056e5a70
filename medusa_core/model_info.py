"""What people are told about a loaded model, as plain data. Knows nothing of tensors or of how it was loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict


class ChatMessage(TypedDict):
    """One message of a conversation, in the form chat templates take."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Weight:
    """What the model thinks of one token at one place."""

    token_id: int
    logit: float
    probability: float  # at temperature 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured before anything is decoded: passes on this machine, and the heads on held-out replies.

    K heads, R ranks. Anything that was never measured is empty.
    """

    machine: str = ""  # the device's name, for people
    rows: tuple[int, ...] = ()  # of a pass, ascending; the first is a plain step's
    pass_seconds: tuple[float, ...] = ()  # of a pass with so many rows
    draft_seconds: float = 0.0  # of the heads' guesses
    accuracies: tuple[tuple[float, ...], ...] = ()  # (K, R): head k's accuracy at rank r alone
    sizes: tuple[int, ...] = ()  # draft nodes that acceptance is expected for, ascending
    greedy: tuple[tuple[float, ...], ...] = ()  # [size][k]: share of steps in which at least k guesses are kept
    sampled: tuple[tuple[float, ...], ...] = ()  # the same over replies drawn at random

    @property
    def plain_tokens_per_second(self) -> float:
        """Decoding speed without drafting; 0 where no pass was measured."""
        return 1 / self.pass_seconds[0] if self.pass_seconds else 0.0

    def overhead(self, draft_nodes: int) -> float:
        """Time of a step with so many draft nodes in plain steps; 1 where no pass was measured."""
        if not self.pass_seconds or draft_nodes < 1:
            return 1.0
        rows = draft_nodes + 1
        last = next((i for i in range(1, len(self.rows)) if rows <= self.rows[i]), len(self.rows) - 1)
        if last < 1:
            return 1.0
        low, high = self.rows[last - 1], self.rows[last]
        slope = (self.pass_seconds[last] - self.pass_seconds[last - 1]) / (high - low)
        seconds = self.pass_seconds[last - 1] + slope * (rows - low)
        return (seconds + self.draft_seconds) / self.pass_seconds[0]

    def acceptance(self, draft_nodes: float, *, sampled: bool) -> tuple[float, ...]:
        """Of heads alone with about so many draft nodes; () where they were never measured."""
        shares = self.sampled if sampled else self.greedy
        if not shares:
            return ()
        nearest = min(range(len(self.sizes)), key=lambda index: abs(self.sizes[index] - draft_nodes))
        return shares[nearest]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded chat model and its heads."""

    name: str  # for people: "SmolLM2-135M-Instruct"
    dtype: str  # "int8", "bf16", "fp32", "fp16", "nf4"; with the reason behind it where int8 was not to be had
    device: str  # "cpu", "cuda:0 (NVIDIA ...)"
    parameters: int
    context_size: int  # tokens
    num_heads: int  # 0: no heads loaded, decoding is plain
    heads_name: str  # "default", "paper", a name of the library, a folder, or "none"
    heads_problem: str = ""  # one sentence where heads were asked for and could not be used
    drafting_problem: str = ""  # one sentence where the model cannot verify what is drafted: a token a step then
    heads_note: str = ""  # what to know of the heads in use: never measured, or measured in another precision
    adapted: bool = False  # the heads brought adapters that changed the model: it is no longer the original
    measured: Measured = Measured()
