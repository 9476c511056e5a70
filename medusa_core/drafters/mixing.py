"""What several sources say of one place, put together: how likely each token is, given who guessed it and who did not.

Logistic mixing, as compressors that mix contexts do it (PAQ; Mattern, 2012): a token's score is a weighted sum of the
log-odds that its sources give it, less something for every source that had an opinion and left it out; the softmax of
all scores, and of 0 for a token that nobody named, says how likely each is. Two sources that agree are worth more than
the better of them, one that is contradicted is worth less. The weights were fitted on replies that the default model
wrote, to prompts of this project; what is peculiar to a conversation is in the probabilities already, since every
source's are corrected by what they have been earning.
Shapes: S sources, G guesses of one source, O tokens offered, up to S G.
Knows nothing of trees, texts or of how a source guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.guessed import MOST, Floats, Wholes
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


class Voices(NamedTuple):
    """How much each source has to say."""

    bias: float
    slopes: Floats  # (S,)
    named: Floats  # (S,): for a token that it names, rather than being silent
    silent: Floats  # (S,): for all tokens, where it has an opinion


class Offers(NamedTuple):
    """Tokens that may follow a node, (O,) each."""

    tokens: Wholes
    worths: Floats
    sources: Wholes  # the number of the source that believes in the token most
    ranks: Wholes  # the token's among that source's guesses


def voices(sources: Sequence[Source]) -> Voices:
    """Of sources that guess together, in this order."""
    table = _WITH_HEADS if Source.HEAD in sources else _WITHOUT_HEADS
    of = [table.voices[source] for source in sources]
    return Voices(
        table.bias,
        np.array([voice.slope for voice in of]),
        np.array([voice.named - voice.silent for voice in of]),
        np.array([voice.silent for voice in of]),
    )


def new_offers(sources: int) -> Offers:
    """Room for all that so many sources can guess below one node."""
    room = sources * MOST
    return Offers(np.zeros(room, np.int32), np.zeros(room), np.zeros(room, np.int32), np.zeros(room, np.int32))


@compiled
def alone(tokens, probabilities, kinds, rates, offers):  # type: ignore[no-untyped-def]
    """What a single source guesses, (G,) each, corrected by what its kinds have been earning, `rates` (M,).

    Only one token can come: what goes beyond certainty is taken from all alike. Returns the number of `offers`.
    """
    count, total = tokens.shape[0], 0.0
    for k in range(count):
        worth = probabilities[k] * rates[kinds[k]]
        offers.tokens[k], offers.worths[k], offers.sources[k], offers.ranks[k] = tokens[k], worth, 0, k
        total += worth
    if total > _SURE:
        for k in range(count):
            offers.worths[k] *= _SURE / total
    return count


@compiled
def together(voices, counts, tokens, probabilities, kinds, rates, offers):  # type: ignore[no-untyped-def]
    """What all sources guess, `counts` (S,) and (S, G) each, and what their kinds have been earning, `rates` (S, M).

    Returns the number of `offers`.
    """
    count, common = 0, voices.bias
    believed = np.empty(offers.tokens.shape[0], np.float64)  # by who believes in it most
    for source in range(counts.shape[0]):
        if counts[source]:
            common += voices.silent[source]
        for rank in range(counts[source]):
            token, p = tokens[source, rank], probabilities[source, rank] * rates[source, kinds[source, rank]]
            p = min(max(p, _LEAST), _SURE)
            score = voices.named[source] + voices.slopes[source] * np.log(p / (1.0 - p))
            k = 0
            while k < count and offers.tokens[k] != token:
                k += 1
            if k == count:
                count += 1
                offers.tokens[k], offers.worths[k], believed[k] = token, score, p
                offers.sources[k], offers.ranks[k] = source, rank
                continue
            offers.worths[k] += score
            if believed[k] < p:
                believed[k], offers.sources[k], offers.ranks[k] = p, source, rank
    total = 1.0
    for k in range(count):
        offers.worths[k] = np.exp(common + offers.worths[k])
        total += offers.worths[k]
    for k in range(count):
        offers.worths[k] /= total
    return count
