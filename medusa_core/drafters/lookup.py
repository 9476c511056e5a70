"""Guess by looking up: what followed the longest earlier occurrence of the text's end, in prompt and reply.

Prompt lookup (Saxena, 2023) with a suffix automaton, as SAM decoding has it (Hu et al., 2024), and carried on below
every node of the tree, whoever guessed it. Knows nothing of heads.
"""

from __future__ import annotations

import numpy as np

from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.suffixes import LONG, SuffixAutomaton, Suffixes, branches, continuations
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

_CHECKED = 32  # of the tokens read last, that still are what they were
ALTERNATIVES = 4  # continuations of one place
_LENGTHS = (1, 2, 3, 4, 6, 9, 14, 24)  # least length of match of each class
# What to believe before this conversation has said anything: by class of length, the newest continuation of the whole
# match where nothing else ever followed it, where something did, and any other continuation.
_ONLY = (0.18, 0.5, 0.68, 0.75, 0.82, 0.87, 0.92, 0.95)
_NEWEST = (0.18, 0.22, 0.35, 0.45, 0.48, 0.48, 0.48, 0.48)
_OTHER = (0.03, 0.07, 0.07, 0.06, 0.06, 0.08, 0.08, 0.08)
_BELIEF = np.array((_ONLY, _NEWEST, _OTHER))
_CLASSES = len(_LENGTHS)
_LONGEST = _LENGTHS[-1]
_CLASS_OF_LENGTH = np.array([sum(length >= least for least in _LENGTHS) - 1 for length in range(_LONGEST + 1)])


@compiled
def guess(suffixes, state, length, tokens, probabilities, kinds):  # type: ignore[no-untyped-def]
    """What followed a match, the newest first, then what followed shorter ones. Returns how many guesses.

    `tokens`, `probabilities` and `kinds` (G,) take them.
    """
    lengths = np.empty(ALTERNATIVES, np.int64)
    count = continuations(suffixes, state, length, tokens[:ALTERNATIVES], lengths)
    for k in range(count):
        belief = 2 if k else (0 if branches(suffixes, state) == 1 else 1)
        group = _CLASS_OF_LENGTH[min(lengths[k], _LONGEST)]
        probabilities[k] = _BELIEF[belief, group]
        kinds[k] = belief * _CLASSES + group
    return count


class LookupGuesser:
    """Keeps up with one conversation; where its beginning was edited it is read anew."""

    source = Source.LOOKUP
    kinds = _BELIEF.size

    def __init__(self) -> None:
        self._text = SuffixAutomaton()

    def begin(self, state: State) -> Suffixes:
        """Read what is new in the context."""
        known = self._text.tokens
        # Only the start of a reply can have changed earlier tokens, so only it checks them all; but it may have gone by
        # while nothing was drafted.
        first = max(len(known) - _CHECKED, 0) if state.reply else 0
        if state.context[first : len(known)] != known[first:]:
            self._text = SuffixAutomaton()  # nothing can be taken out of it
            known = self._text.tokens
        self._text.extend(state.context[len(known) :])
        return self._text.suffixes

    def prepare(self) -> None:
        """What reads a text that outgrows its room."""
        SuffixAutomaton().extend([0] * LONG)

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """The next step reads it from the context."""
