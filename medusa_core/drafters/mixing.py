"""What several sources say of one place, put together: how likely each token is, given who guessed it and who did not.

Logistic mixing, as compressors that mix contexts do it (PAQ; Mattern, 2012): a token's score is a weighted sum of the
log-odds that its sources give it, less something for every source that had an opinion and left it out; the softmax of
all scores, and of 0 for a token that nobody named, says how likely each is. Two sources that agree are worth more than
the better of them, one that is contradicted is worth less. The weights were fitted on replies that the default model
wrote, to prompts of this project; what is peculiar to a conversation is in the probabilities already, since every
source's are corrected by what they have been earning.
Knows nothing of trees, texts or of how a source guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from medusa_core.drafters.base import Guess
from medusa_core.events import Source

_SURE = 0.98  # no source is believed more than this, and all tokens of a source that is alone together neither
_LEAST = 1e-4  # what a source believes less in counts as this much


@dataclass(frozen=True, slots=True)
class _Voice:
    """How much a source has to say where it is not alone."""

    slope: float  # of its own log-odds
    named: float  # for a token that it names
    silent: float  # for one that it leaves out, though it has an opinion


@dataclass(frozen=True, slots=True)
class _Table:
    """The voices of sources that guess together, and the score of a token before any of them is heard."""

    bias: float
    voices: Mapping[Source, _Voice]


_WITH_HEADS = _Table(
    -1.73,
    {
        Source.HEAD: _Voice(0.70, 2.30, -1.11),
        Source.LOOKUP: _Voice(0.61, 2.08, -0.02),
        Source.RECYCLING: _Voice(0.37, 1.67, -0.01),
    },
)
_WITHOUT_HEADS = _Table(-1.76, {Source.LOOKUP: _Voice(0.60, 2.11, 0.10), Source.RECYCLING: _Voice(0.60, 1.35, -0.64)})


Offer = tuple[float, int, int]
"""What a token is worth, the number of the source that believes in it most, and the token's rank among its guesses."""

Rates = Sequence[float]  # by kind of guess


def alone(guesses: Sequence[Guess], rates: Rates) -> dict[int, Offer]:
    """What a single source guesses, corrected by what its kinds have been earning; by token."""
    return _shared({token: (probability * rates[kind], 0, rank) for token, probability, kind, rank in guesses})


class Mixer:
    """Puts together what several sources guess, always the same ones in the same order."""

    def __init__(self, sources: Sequence[Source]) -> None:
        table = _WITH_HEADS if Source.HEAD in sources else _WITHOUT_HEADS
        self._bias = table.bias
        self._voices = tuple((v.slope, v.named - v.silent, v.silent) for v in (table.voices[s] for s in sources))

    def together(self, made: Sequence[Sequence[Guess]], rates: Sequence[Rates]) -> dict[int, Offer]:
        """Tokens by id, from the guesses of every source and what its kinds have been earning."""
        # Many times a step: a tuple is four times as fast as anything with names.
        heard: dict[int, tuple[float, float, int, int]] = {}  # score but for what is common, most believed, by whom
        common = self._bias
        for index, (guesses, own, (slope, named, silent)) in enumerate(zip(made, rates, self._voices, strict=True)):
            if guesses:
                common += silent
            for token, probability, kind, rank in guesses:
                p = probability * own[kind]
                p = _LEAST if p < _LEAST else min(p, _SURE)
                score = named + slope * log(p / (1.0 - p))
                before = heard.get(token)
                if before is None:
                    heard[token] = score, p, index, rank
                elif before[1] >= p:
                    heard[token] = before[0] + score, before[1], before[2], before[3]
                else:
                    heard[token] = before[0] + score, p, index, rank
        said = [(token, exp(common + score), index, rank) for token, (score, _, index, rank) in heard.items()]
        total = 1.0 + sum([weight for _, weight, _, _ in said])
        return {token: (weight / total, index, rank) for token, weight, index, rank in said}


def _shared(offers: dict[int, Offer]) -> dict[int, Offer]:
    """Only one token can come: what goes beyond certainty is taken from all alike."""
    total = sum([worth for worth, _, _ in offers.values()])
    if total <= _SURE:
        return offers
    share = _SURE / total
    return {token: (worth * share, index, rank) for token, (worth, index, rank) in offers.items()}
