"""Every substring of a growing sequence, in linear space: a suffix automaton that remembers what followed, newest last.

One token is added, and one token is matched, in constant time on average. Knows nothing of models or trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_REFRESHED = 24  # suffixes whose newest continuation is noted: longer runs of one token would cost quadratic time


class Match(NamedTuple):
    """The longest suffix of some sequence that occurs in the text: its state, and its length in tokens."""

    state: int
    length: int


NOTHING = Match(0, 0)


class SuffixAutomaton:
    """States stand for sets of substrings that end at the same places; state 0 is the empty one.

    Blumer et al. (1985), built online. The transitions of a state are what followed its substrings: a dict in the
    order in which they were last seen.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._last = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Append to the text."""
        for token in tokens:
            self._append(token)

    @property
    def earlier(self) -> Match:
        """The longest suffix of the text that also occurs before its end."""
        state = max(self._link[self._last], 0)
        return Match(state, self._length[state])

    def advance(self, match: Match, token: int) -> Match:
        """The longest suffix of (what was matched, then `token`) that occurs in the text."""
        state, length = match
        while token not in self._next[state]:
            if state == 0:
                return NOTHING
            state = self._link[state]
            length = self._length[state]
        return Match(self._next[state][token], length + 1)

    def continuations(self, match: Match, count: int) -> list[tuple[int, int]]:
        """What followed the match: up to `count` tokens and the length of context each was seen after.

        What followed the whole match comes first, then what followed only shorter suffixes of it; the newest first.
        The empty suffix, after which everything was seen, is not asked.
        """
        found: dict[int, int] = {}
        state, length = match
        while state > 0:
            for token in reversed(self._next[state]):
                if token not in found:
                    found[token] = length
                    if len(found) == count:
                        return list(found.items())
            state = self._link[state]
            length = self._length[state]
        return list(found.items())

    def branches(self, match: Match) -> int:
        """How many different tokens have followed the whole match."""
        return len(self._next[match.state])

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        new = self._state(self._length[self._last] + 1, {})
        state = self._last
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state < 0:
            self._link[new] = 0
        else:
            target = self._next[state][token]
            if self._length[target] != self._length[state] + 1:
                target = self._split(state, token, target)
            self._link[new] = target
            self._refresh(state, token)
        self._last = new

    def _split(self, state: int, token: int, target: int) -> int:
        """The shorter substrings of `target` now end in one more place: they get a state of their own."""
        clone = self._state(self._length[state] + 1, dict(self._next[target]))
        self._link[clone] = self._link[target]
        self._link[target] = clone
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _refresh(self, state: int, token: int) -> None:
        """`token` has followed these suffixes before; now it is the newest that did."""
        for _ in range(_REFRESHED):
            if state <= 0:
                return
            following = self._next[state]
            following[token] = following.pop(token)
            state = self._link[state]

    def _state(self, length: int, following: dict[int, int]) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(-1)
        return len(self._length) - 1
