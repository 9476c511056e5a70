"""What several sources say of one place, put together: how likely each token is, given who guessed it and who did not.

Logistic mixing, as compressors that mix contexts do it (PAQ; Mattern, 2012): the log-odds of a token are a weighted sum
of the log-odds that its sources give it, less something for every source that had an opinion and left it out. Two
sources that agree are worth more than the better of them, one that is contradicted is worth less. The weights were
fitted on replies that the default model wrote, to prompts of this project; what is peculiar to a conversation is in the
probabilities already, since every source's are corrected by what they have been earning.
Knows nothing of trees, texts or of how a source guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

from medusa_core.drafters.base import Guess
from medusa_core.events import Source

_SURE = 0.98  # nothing is believed in more than this, and all tokens of one place together neither
_LEAST = 1e-4  # what a source believes less in counts as this much


@dataclass(frozen=True, slots=True)
class _Voice:
    """How much a source has to say where it is not alone."""

    slope: float  # of its own log-odds
    named: float  # for a token that it names
    silent: float  # for one that it leaves out, though it has an opinion


@dataclass(frozen=True, slots=True)
class _Table:
    """The voices of sources that guess together, and the log-odds of a token before any of them is heard."""

    bias: float
    voices: Mapping[Source, _Voice]


_WITH_HEADS = _Table(
    -2.30,
    {
        Source.HEAD: _Voice(0.83, 2.08, -1.44),
        Source.LOOKUP: _Voice(0.70, 1.83, -0.44),
        Source.RECYCLING: _Voice(0.47, 1.27, -0.52),
    },
)
_WITHOUT_HEADS = _Table(-1.41, {Source.LOOKUP: _Voice(0.69, 1.80, -0.45), Source.RECYCLING: _Voice(0.73, 0.75, -1.60)})


class Offer(NamedTuple):
    """A token that may follow a node."""

    worth: float  # how likely it is, from all that was said
    guesser: int  # by number, the one that believes in it most
    rank: int  # among its guesses here


Rates = Sequence[float]  # by kind of guess


def alone(guesses: Sequence[Guess], rates: Rates) -> dict[int, Offer]:
    """What a single source guesses, corrected by what its kinds have been earning; by token."""
    return _shared({token: Offer(p * rates[kind], 0, rank) for token, p, kind, rank in guesses})


class Mixer:
    """Puts together what several sources guess, always the same ones in the same order."""

    def __init__(self, sources: Sequence[Source]) -> None:
        table = _WITH_HEADS if Source.HEAD in sources else _WITHOUT_HEADS
        self._bias, self._voices = table.bias, tuple(table.voices[source] for source in sources)

    def together(self, made: Sequence[Sequence[Guess]], rates: Sequence[Rates]) -> dict[int, Offer]:
        """Tokens by id, from the guesses of every source and what its kinds have been earning."""
        heard: dict[int, tuple[float, float, int, int]] = {}  # log-odds beside the common ones, most believed, by whom
        common = self._bias
        for index, (guesses, own, voice) in enumerate(zip(made, rates, self._voices, strict=True)):
            if not guesses:
                continue
            common += voice.silent
            named, slope = voice.named - voice.silent, voice.slope
            for token, probability, kind, rank in guesses:
                p = min(max(probability * own[kind], _LEAST), _SURE)
                odds = named + slope * log(p / (1 - p))
                before = heard.get(token)
                if before is None:
                    heard[token] = (odds, p, index, rank)
                else:
                    believer = before[1:] if before[1] >= p else (p, index, rank)
                    heard[token] = (before[0] + odds, *believer)
        return _shared(
            {
                token: Offer(1 / (1 + exp(-common - odds)), index, rank)
                for token, (odds, _, index, rank) in heard.items()
            }
        )


def _shared(offers: dict[int, Offer]) -> dict[int, Offer]:
    """Only one token can come: what goes beyond certainty is taken from all alike."""
    total = sum(offer.worth for offer in offers.values())
    if total <= _SURE:
        return offers
    share = _SURE / total
    return {token: Offer(worth * share, index, rank) for token, (worth, index, rank) in offers.items()}
