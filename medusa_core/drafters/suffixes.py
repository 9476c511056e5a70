"""Every substring of a growing sequence, in linear space: a suffix automaton that remembers what followed, newest last.

One token is added, and one token is matched, in constant time on average. It lies in arrays, so that kernels read it;
the transitions of all states are found through one table of hashes.
Knows nothing of models or trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.guessed import Ints, Wholes

_REFRESHED = 24  # suffixes whose newest continuation is noted: longer runs of one token would cost quadratic time
_ROOM = 1024  # tokens that an empty automaton has room for
LONG = _ROOM + 1  # tokens that it must make room for
_STATES, _EDGES, _SLOTS = 2, 3, 8  # of each there are at most so many a token, and slots in the table
_LINK, _LENGTH, _NEWEST, _BRANCHES = range(4)  # columns of a state
_OWNER, _TOKEN, _TARGET, _OLDER, _NEWER = range(5)  # columns of an edge
_STATE_COUNT, _EDGE_COUNT, _LAST = range(3)


class Suffixes(NamedTuple):
    """States stand for sets of substrings that end at the same places; state 0 is the empty one.

    Blumer et al. (1985), built online. The edges of a state are what followed its substrings, a list in the order in
    which they were last seen.
    """

    states: Wholes  # (states, 4): suffix link, longest length, newest edge or -1, number of edges
    edges: Wholes  # (edges, 5): state, token, state it leads to, the next older and next newer edge of the state or -1
    slots: Wholes  # edges by hash of state and token, or -1; a power of two of them
    counts: Ints  # (3,): states, edges, and the state of the whole text


@compiled
def _slot(s, state, token):  # type: ignore[no-untyped-def]
    """Where the table has the edge, or would have it."""
    mask = s.slots.shape[0] - 1
    mixed = int(state) * 0x9E3779B1 + int(token) * 0x85EBCA77
    k = (mixed ^ (mixed >> 15)) & mask
    while s.slots[k] >= 0:
        edge = s.edges[s.slots[k]]
        if edge[_OWNER] == state and edge[_TOKEN] == token:
            break
        k = (k + 1) & mask
    return k


@compiled
def _edge(s, state, token):  # type: ignore[no-untyped-def]
    """The edge of a state, or -1."""
    return s.slots[_slot(s, state, token)]


@compiled
def _append_newest(s, edge):  # type: ignore[no-untyped-def]
    """Put an edge at the newer end of its state's list."""
    state = s.states[s.edges[edge, _OWNER]]
    newest = state[_NEWEST]
    s.edges[edge, _OLDER], s.edges[edge, _NEWER] = newest, -1
    if newest >= 0:
        s.edges[newest, _NEWER] = edge
    state[_NEWEST] = edge


@compiled
def _new_edge(s, state, token, target):  # type: ignore[no-untyped-def]
    edge = s.counts[_EDGE_COUNT]
    s.counts[_EDGE_COUNT] += 1
    s.slots[_slot(s, state, token)] = edge
    s.edges[edge, _OWNER], s.edges[edge, _TOKEN], s.edges[edge, _TARGET] = state, token, target
    s.states[state, _BRANCHES] += 1
    _append_newest(s, edge)


@compiled
def _new_state(s, length):  # type: ignore[no-untyped-def]
    state = s.counts[_STATE_COUNT]
    s.counts[_STATE_COUNT] += 1
    s.states[state, _LINK], s.states[state, _LENGTH] = -1, length
    s.states[state, _NEWEST], s.states[state, _BRANCHES] = -1, 0
    return state


@compiled
def _split(s, state, token, target):  # type: ignore[no-untyped-def]
    """The shorter substrings of `target` now end in one more place: they get a state of their own."""
    clone = _new_state(s, s.states[state, _LENGTH] + 1)
    edge = s.states[target, _NEWEST]
    while edge >= 0 and s.edges[edge, _OLDER] >= 0:
        edge = s.edges[edge, _OLDER]
    while edge >= 0:  # the oldest first
        _new_edge(s, clone, s.edges[edge, _TOKEN], s.edges[edge, _TARGET])
        edge = s.edges[edge, _NEWER]
    s.states[clone, _LINK] = s.states[target, _LINK]
    s.states[target, _LINK] = clone
    while state >= 0:
        edge = _edge(s, state, token)
        if edge < 0 or s.edges[edge, _TARGET] != target:
            break
        s.edges[edge, _TARGET] = clone
        state = s.states[state, _LINK]
    return clone


@compiled
def _refresh(s, state, token):  # type: ignore[no-untyped-def]
    """`token` has followed these suffixes before; now it is the newest that did."""
    for _ in range(_REFRESHED):
        if state <= 0:
            return
        edge = _edge(s, state, token)
        older, newer = s.edges[edge, _OLDER], s.edges[edge, _NEWER]
        if newer >= 0:
            s.edges[newer, _OLDER] = older
            if older >= 0:
                s.edges[older, _NEWER] = newer
            _append_newest(s, edge)
        state = s.states[state, _LINK]


@compiled
def _extend(s, tokens):  # type: ignore[no-untyped-def]
    for token in tokens:
        new = _new_state(s, s.states[s.counts[_LAST], _LENGTH] + 1)
        state = s.counts[_LAST]
        while state >= 0 and _edge(s, state, token) < 0:
            _new_edge(s, state, token, new)
            state = s.states[state, _LINK]
        if state < 0:
            s.states[new, _LINK] = 0
        else:
            target = s.edges[_edge(s, state, token), _TARGET]
            if s.states[target, _LENGTH] != s.states[state, _LENGTH] + 1:
                target = _split(s, state, token, target)
            s.states[new, _LINK] = target
            _refresh(s, state, token)
        s.counts[_LAST] = new


@compiled
def _fill_table(s):  # type: ignore[no-untyped-def]
    for edge in range(s.counts[_EDGE_COUNT]):
        s.slots[_slot(s, s.edges[edge, _OWNER], s.edges[edge, _TOKEN])] = edge


@compiled
def earlier(s):  # type: ignore[no-untyped-def]
    """The longest suffix of the text that also occurs before its end: its state and its length."""
    state = max(s.states[s.counts[_LAST], _LINK], 0)
    return state, s.states[state, _LENGTH]


@compiled
def advance(s, state, length, token):  # type: ignore[no-untyped-def]
    """The longest suffix of (what was matched, then `token`) that occurs in the text."""
    while True:
        edge = _edge(s, state, token)
        if edge >= 0:
            return s.edges[edge, _TARGET], length + 1
        if state == 0:
            return 0, 0
        state = s.states[state, _LINK]
        length = s.states[state, _LENGTH]


@compiled
def continuations(s, state, length, tokens, lengths):  # type: ignore[no-untyped-def]
    """What followed the match, as many as `tokens` (n,) holds, and the `lengths` (n,) of context each was seen after.

    What followed the whole match comes first, then what followed only shorter suffixes of it; the newest first.
    The empty suffix, after which everything was seen, is not asked. Returns how many.
    """
    count = 0
    while state > 0:
        edge = s.states[state, _NEWEST]
        while edge >= 0:
            token, known = s.edges[edge, _TOKEN], False
            for k in range(count):
                known = known or tokens[k] == token
            if not known:
                tokens[count], lengths[count] = token, length
                count += 1
                if count == tokens.shape[0]:
                    return count
            edge = s.edges[edge, _OLDER]
        state = s.states[state, _LINK]
        length = s.states[state, _LENGTH]
    return count


@compiled
def branches(s, state):  # type: ignore[no-untyped-def]
    """How many different tokens have followed a match."""
    return s.states[state, _BRANCHES]


class SuffixAutomaton:
    """A text that tokens are added to, and its substrings."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.suffixes = _empty(_ROOM)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append to the text."""
        needed = len(self.tokens) + len(tokens)
        if _STATES * needed >= len(self.suffixes.states):
            self.suffixes = _larger(self.suffixes, 2 * needed)  # all or nothing, where memory does not suffice
        self.tokens += tokens
        _extend(self.suffixes, np.array(tokens, np.int64))


def _larger(before: Suffixes, room: int) -> Suffixes:
    made = _empty(room)
    for name in ("states", "edges", "counts"):
        old = getattr(before, name)
        getattr(made, name)[: len(old)] = old
    _fill_table(made)
    return made


def no_suffixes() -> Suffixes:
    """Not even an empty text's."""
    none = np.empty(0, np.int32)
    return Suffixes(none.reshape(0, 4), none.reshape(0, 5), none, np.empty(0, np.int64))


def _empty(room: int) -> Suffixes:
    """For a text of up to `room` tokens."""
    states = np.full((_STATES * room + 1, 4), -1, np.int32)
    states[0] = (-1, 0, -1, 0)
    slots = np.full(1 << (_SLOTS * room - 1).bit_length(), -1, np.int32)
    return Suffixes(states, np.full((_EDGES * room + 1, 5), -1, np.int32), slots, np.array([1, 0, 0]))
