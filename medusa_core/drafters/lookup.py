"""Guess by looking up: what followed the longest earlier occurrence of the text's end, in prompt and reply.

Prompt lookup (Saxena, 2023) with a suffix automaton, as SAM decoding has it (Hu et al., 2024), and carried on below
every node of the tree, whoever guessed it. Knows nothing of heads.
"""

from __future__ import annotations

from medusa_core.drafters.base import Guess
from medusa_core.drafters.suffixes import Match, SuffixAutomaton
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

_ALTERNATIVES = 4  # continuations of one place
_LENGTHS = (1, 2, 3, 4, 6, 9, 14, 24)  # least length of match of each class
# What to believe before this conversation has said anything: by class of length, the newest continuation of the whole
# match where nothing else ever followed it, where something did, and any other continuation.
_ONLY = (0.18, 0.5, 0.68, 0.75, 0.82, 0.87, 0.92, 0.95)
_NEWEST = (0.18, 0.22, 0.35, 0.45, 0.48, 0.48, 0.48, 0.48)
_OTHER = (0.03, 0.07, 0.07, 0.06, 0.06, 0.08, 0.08, 0.08)
_BELIEF = (_ONLY, _NEWEST, _OTHER)
_CLASS_OF_LENGTH = tuple(sum(length >= least for least in _LENGTHS) - 1 for length in range(_LENGTHS[-1] + 1))


class LookupGuesser:
    """Keeps up with one conversation; where its beginning was edited it is read anew."""

    source = Source.LOOKUP
    kinds = len(_BELIEF) * len(_LENGTHS)

    def __init__(self) -> None:
        self._text = SuffixAutomaton()

    def begin(self, state: State) -> Match:
        """Read what is new in the context; the match of its end and the root."""
        self._follow(state.context, check=not state.reply)
        return self._text.advance(self._text.earlier, state.root)

    def advance(self, cursor: Match, token: int) -> Match:
        """The match of the path with `token` behind it."""
        return self._text.advance(cursor, token)

    def guesses(self, cursor: Match) -> list[Guess]:
        """What followed the match, the newest first, then what followed shorter ones."""
        found = self._text.continuations(cursor, _ALTERNATIVES)
        only = self._text.branches(cursor) == 1
        guesses = []
        for rank, (token, length) in enumerate(found):
            belief = 2 if rank else (0 if only else 1)
            group = _CLASS_OF_LENGTH[min(length, _LENGTHS[-1])]
            guesses.append(Guess(token, _BELIEF[belief][group], belief * len(_LENGTHS) + group, rank))
        return guesses

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """The next step reads it from the context."""

    def _follow(self, context: list[int], *, check: bool) -> None:
        """Add the tokens that are new. Only the start of a reply can have changed earlier ones, so only it checks."""
        known = self._text.tokens
        if len(known) > len(context) or (check and context[: len(known)] != known):
            self._text = SuffixAutomaton()  # nothing can be taken out of it
            known = self._text.tokens
        self._text.extend(context[len(known) :])
