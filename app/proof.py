"""Whether drafting changed a reply: the same question with and without it, token for token, and both speeds.

Knows nothing of widgets, of threads, or of how the second reply is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from medusa_core.config import Acceptance, GreedyAcceptance, TypicalAcceptance
from medusa_core.events import Finished, Step, StopReason
from medusa_core.model_info import Weight

_CONTEXT_TOKENS = 6  # shown before the place where two replies part


class Claim(Enum):
    """What the acceptance rule promises of a reply with drafting."""

    GREEDY = auto()  # the model's own greedy reply
    SAMPLED = auto()  # the same seed gives the same reply
    APPROXIMATE = auto()  # nothing: typical acceptance keeps what is likely enough


PROMISES = {
    Claim.GREEDY: "Greedy: with and without drafting, the reply must be the same, token for token.",
    Claim.SAMPLED: "Exact sampling: the same seed must give the same reply, whoever drafts.",
    Claim.APPROXIMATE: "Typical acceptance is approximate: it keeps guesses that are likely enough, so the replies may "
    "differ.",
}


def claim_of(acceptance: Acceptance) -> Claim:
    """What the rule promises."""
    if isinstance(acceptance, GreedyAcceptance):
        return Claim.GREEDY
    return Claim.APPROXIMATE if isinstance(acceptance, TypicalAcceptance) else Claim.SAMPLED


@dataclass(frozen=True, slots=True)
class Run:
    """One of the two replies."""

    token_ids: tuple[int, ...]
    texts: tuple[str, ...]  # of every token
    tokens: int  # that its steps wrote
    seconds: float
    reason: StopReason

    @property
    def tokens_per_second(self) -> float:
        """Decoding only."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def whole(self) -> bool:
        """Whether its end is the model's own, or the limit that both runs have."""
        return self.reason in (StopReason.STOP, StopReason.LENGTH)


def run_of(events: Sequence[object], begun: Sequence[int] = ()) -> Run | None:
    """A reply from its events; None before it has finished. `begun`: the tokens it was told to begin with."""
    finished = next((event for event in reversed(events) if isinstance(event, Finished)), None)
    if finished is None:
        return None
    steps = [event for event in events if isinstance(event, Step)]
    texts = [step.nodes[index].text for step in steps for index in step.path[: len(step.token_ids)]]
    return Run(
        token_ids=finished.token_ids[len(begun) :],
        texts=tuple(texts),
        tokens=finished.tokens,
        seconds=finished.decode_seconds,
        reason=finished.reason,
    )


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place at which two replies differ."""

    index: int  # tokens that are the same before it
    before: str  # the last words they share
    drafted: str  # "" where that reply ends there
    plain: str
    drafted_weight: Weight | None = None  # what the model thinks of both, where there are two
    plain_weight: Weight | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome."""

    claim: Claim
    drafted: Run
    plain: Run
    compared: int  # tokens that both have, or had before one was cut short
    parting: Parting | None

    @property
    def identical(self) -> bool:
        """As far as was compared."""
        return self.parting is None

    @property
    def held(self) -> bool:
        """Whether what the rule promises was seen."""
        return self.identical or self.claim is Claim.APPROXIMATE

    @property
    def complete(self) -> bool:
        """Whether both replies were compared to their ends."""
        return self.drafted.whole and self.plain.whole

    @property
    def speed_up(self) -> float:
        """With drafting against without; 0 where either took no time."""
        plain = self.plain.tokens_per_second
        return self.drafted.tokens_per_second / plain if plain else 0.0


def parting_of(drafted: Run, plain: Run) -> Parting | None:
    """Where the replies part; None where they agree as far as both go, the end of a whole one included."""
    shared = min(len(drafted.token_ids), len(plain.token_ids))
    pairs = zip(drafted.token_ids, plain.token_ids, strict=False)
    index = next((place for place, (one, other) in enumerate(pairs) if one != other), shared)
    lengths = (len(drafted.token_ids), len(plain.token_ids))
    shorter = drafted if lengths[0] <= lengths[1] else plain
    if index == shared and (lengths[0] == lengths[1] or not shorter.whole):
        return None
    texts = [run.texts[index] if index < len(run.texts) else "" for run in (drafted, plain)]
    return Parting(index, "".join(drafted.texts[max(0, index - _CONTEXT_TOKENS) : index]), *texts)


def compare(claim: Claim, drafted: Run, plain: Run) -> Proof:
    """The outcome, without weights."""
    parting = parting_of(drafted, plain)
    shared = min(len(drafted.token_ids), len(plain.token_ids))
    return Proof(claim, drafted, plain, shared if parting is None else parting.index, parting)
