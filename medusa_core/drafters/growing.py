"""Grow the best tree for this very step, in one kernel: best-first over what all sources guess.

Shapes: N nodes with the root, S sources. Knows nothing of tensors, or of what its sources learn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from medusa_core.drafters import lookup, mixing, recycling, sharpening, suffixes
from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.guessed import Floats, Guessed, Ints, Wholes, new_guessed
from medusa_core.drafters.mixing import Offers, new_offers
from medusa_core.drafters.sharpening import Heads
from medusa_core.drafters.successors import Successors
from medusa_core.drafters.suffixes import Suffixes

HEADS, LOOKUP, RECYCLING = range(3)
_PARENT, _TOKEN, _RANK, _SOURCE = range(4)  # columns of a node
_DEPTH, _MATCH, _MATCHED, _BEFORE = range(4)  # columns of a cursor


class Sources(NamedTuple):
    """Who guesses; of a source that does not, the arrays are empty."""

    order: Ints  # (S,): `HEADS`, `LOOKUP` or `RECYCLING`
    heads: Heads
    suffixes: Suffixes
    successors: Successors


class Room(NamedTuple):
    """What a tree of up to N nodes grows in."""

    nodes: Wholes  # (N, 4): parent, token, rank, number of the source; the root's are 0, its own, 0 and -1
    worths: Floats  # (N,): given the parent, as estimated; the root's is 1
    gains: Floats  # (N,): the probability of the whole path, descending
    cursors: Wholes  # (N, 4): what sources know of a node: depth, match and its length, the token before it
    guessed: Guessed  # of every node looked below
    offers: Offers
    waiting: Wholes  # (N, 4): nodes that may be next, the best first, as in `nodes`
    waiting_worths: Floats  # (N, 2): given the parent, and of the whole path


def new_room(nodes: int, sources: int) -> Room:
    """For trees of so many nodes, the root counted."""
    return Room(
        np.zeros((nodes, 4), np.int32),
        np.zeros(nodes),
        np.zeros(nodes),
        np.zeros((nodes, 4), np.int32),
        new_guessed(nodes, sources),
        new_offers(sources),
        np.zeros((nodes, 4), np.int32),
        np.zeros((nodes, 2)),
    )


@compiled
def _offer(sources, voices, rates, room, node):  # type: ignore[no-untyped-def]
    """Ask all sources what follows the node; returns how many tokens may."""
    cursor, token, made = room.cursors[node], room.nodes[node, _TOKEN], room.guessed
    for s in range(sources.order.shape[0]):
        tokens, probabilities, kinds = made.tokens[node, s], made.probabilities[node, s], made.kinds[node, s]
        if sources.order[s] == HEADS:
            count = sharpening.guess(sources.heads, cursor[_DEPTH], token, tokens, probabilities, kinds)
        elif sources.order[s] == LOOKUP:
            count = lookup.guess(sources.suffixes, cursor[_MATCH], cursor[_MATCHED], tokens, probabilities, kinds)
        else:
            count = recycling.guess(sources.successors, cursor[_BEFORE], token, tokens, probabilities, kinds)
        made.counts[node, s] = count
    counts = made.counts[node]
    if counts.shape[0] == 1:
        n = counts[0]
        return mixing.alone(
            made.tokens[node, 0, :n], made.probabilities[node, 0, :n], made.kinds[node, 0, :n], rates[0], room.offers
        )
    return mixing.together(
        voices, counts, made.tokens[node], made.probabilities[node], made.kinds[node], rates, room.offers
    )


@compiled
def _wait(room, count, most, parent, k, gain):  # type: ignore[no-untyped-def]
    """Offer `k` waits for its turn behind all that are as good, if it is among the `most` best. Returns how many do."""
    place = count
    while place > 0 and room.waiting_worths[place - 1, 1] < gain:
        place -= 1
    if place >= most:
        return count
    for later in range(min(count, most - 1), place, -1):
        for column in range(4):
            room.waiting[later, column] = room.waiting[later - 1, column]
        for column in range(2):
            room.waiting_worths[later, column] = room.waiting_worths[later - 1, column]
    row, offers = room.waiting[place], room.offers
    row[_PARENT], row[_TOKEN], row[_RANK], row[_SOURCE] = parent, offers.tokens[k], offers.ranks[k], offers.sources[k]
    room.waiting_worths[place, 0], room.waiting_worths[place, 1] = offers.worths[k], gain
    return min(count + 1, most)


@compiled
def _place_root(sources, room, before, root):  # type: ignore[no-untyped-def]
    room.worths[0], room.gains[0] = 1.0, 1.0
    row, cursor = room.nodes[0], room.cursors[0]
    row[_PARENT], row[_TOKEN], row[_RANK], row[_SOURCE] = 0, root, 0, -1
    cursor[_DEPTH], cursor[_BEFORE], cursor[_MATCH], cursor[_MATCHED] = 0, before, 0, 0
    if sources.suffixes.states.shape[0]:
        match, length = suffixes.earlier(sources.suffixes)
        cursor[_MATCH], cursor[_MATCHED] = suffixes.advance(sources.suffixes, match, length, root)


@compiled
def _place(sources, room, node, row, worth, gain):  # type: ignore[no-untyped-def]
    """The first that waits becomes the node."""
    room.worths[node], room.gains[node] = worth, gain
    for column in range(4):
        room.nodes[node, column] = row[column]
    token, above, cursor = row[_TOKEN], room.cursors[row[_PARENT]], room.cursors[node]
    cursor[_DEPTH], cursor[_BEFORE] = above[_DEPTH] + 1, room.nodes[row[_PARENT], _TOKEN]
    if sources.suffixes.states.shape[0]:
        match, length = suffixes.advance(sources.suffixes, above[_MATCH], above[_MATCHED], token)
        cursor[_MATCH], cursor[_MATCHED] = match, length


@compiled
def grow(sources, voices, rates, least, before, root, room):  # type: ignore[no-untyped-def]
    """As many draft nodes as `least` (n,) has numbers, at most; the n-th adds at least the n-th number of tokens.

    `least` ascends; `before` is the token before the root, or -1. Returns the number of nodes, the root counted.
    """
    _place_root(sources, room, before, root)
    room.guessed.counts[:] = 0  # where nothing is guessed nothing will be settled
    nodes, count = 1, 0
    while True:
        node, asked, left = nodes - 1, least[nodes - 1], least.shape[0] - (nodes - 1)
        if room.gains[node] >= asked:  # else nothing below it is
            for k in range(_offer(sources, voices, rates, room, node)):
                gain = room.gains[node] * room.offers.worths[k]
                if gain >= asked:
                    count = _wait(room, count, left, node, k, gain)
        if count == 0 or room.waiting_worths[0, 1] < asked:
            return nodes
        _place(sources, room, nodes, room.waiting[0], room.waiting_worths[0, 0], room.waiting_worths[0, 1])
        nodes += 1
        if nodes > least.shape[0]:
            return nodes
        count -= 1
        for k in range(count):
            for column in range(4):
                room.waiting[k, column] = room.waiting[k + 1, column]
            for column in range(2):
                room.waiting_worths[k, column] = room.waiting_worths[k + 1, column]
