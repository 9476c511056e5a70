"""What the model itself thought should follow every token, and every pair of tokens seen lately, in arrays.

Shapes: V vocabulary, P pairs kept, W successors kept. Knows nothing of trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medusa_core.drafters.compiling import compiled
from medusa_core.drafters.guessed import Wholes

NOTHING, UNKNOWN = -1, -2  # before a token: at the very start, and where nobody said
_OLDER, _NEWER, _BESIDE = range(3)  # columns of a link
_OLDEST, _NEWEST, _USED = range(3)


class Successors(NamedTuple):
    """The likeliest first, with their shares of what they had together. A share of 0 stands for none."""

    tokens: Wholes  # (V, W)
    shares: NDArray[np.float32]  # (V, W)
    pairs: Wholes  # (P, 2): two tokens
    pair_tokens: Wholes  # (P, W)
    pair_shares: NDArray[np.float32]  # (P, W)
    links: Wholes  # (P, 3): the pair seen just before, just after, and the next of the same bucket, or -1
    buckets: Wholes  # the first pair by hash, or -1; a power of two of them
    ends: Wholes  # (3,): the pair seen longest ago, the one seen last, and how many there are


def new_successors(vocab_size: int, pairs: int, kept: int) -> Successors:
    """Of tokens that were never seen."""
    return Successors(
        np.zeros((vocab_size, kept), np.int32),
        np.zeros((vocab_size, kept), np.float32),
        np.zeros((pairs, 2), np.int32),
        np.zeros((pairs, kept), np.int32),
        np.zeros((pairs, kept), np.float32),
        np.full((pairs, 3), -1, np.int32),
        np.full(1 << (2 * pairs - 1).bit_length(), -1, np.int32),
        np.array([-1, -1, 0], np.int32),
    )


@compiled
def _bucket(s, before, token):  # type: ignore[no-untyped-def]
    mixed = int(before) * 0x9E3779B1 + int(token) * 0x85EBCA77
    return (mixed ^ (mixed >> 15)) & (s.buckets.shape[0] - 1)


@compiled
def find(s, before, token):  # type: ignore[no-untyped-def]
    """The number of a pair, -1 where it is not kept."""
    pair = s.buckets[_bucket(s, before, token)]
    while pair >= 0 and not (s.pairs[pair, 0] == before and s.pairs[pair, 1] == token):
        pair = s.links[pair, _BESIDE]
    return pair


@compiled
def _take_out_of_order(s, pair):  # type: ignore[no-untyped-def]
    older, newer = s.links[pair, _OLDER], s.links[pair, _NEWER]
    if older >= 0:
        s.links[older, _NEWER] = newer
    else:
        s.ends[_OLDEST] = newer
    if newer >= 0:
        s.links[newer, _OLDER] = older
    else:
        s.ends[_NEWEST] = older


@compiled
def _take_out_of_bucket(s, pair):  # type: ignore[no-untyped-def]
    bucket = _bucket(s, s.pairs[pair, 0], s.pairs[pair, 1])
    other = s.buckets[bucket]
    if other == pair:
        s.buckets[bucket] = s.links[pair, _BESIDE]
        return
    while s.links[other, _BESIDE] != pair:
        other = s.links[other, _BESIDE]
    s.links[other, _BESIDE] = s.links[pair, _BESIDE]


@compiled
def _seen_now(s, before, token):  # type: ignore[no-untyped-def]
    """The number of the pair, now the newest; where there is no room, the one seen longest ago makes some."""
    pair = find(s, before, token)
    if pair >= 0:
        _take_out_of_order(s, pair)
    else:
        if s.ends[_USED] < s.pairs.shape[0]:
            pair = s.ends[_USED]
            s.ends[_USED] += 1
        else:
            pair = s.ends[_OLDEST]
            _take_out_of_order(s, pair)
            _take_out_of_bucket(s, pair)
        s.pairs[pair, 0], s.pairs[pair, 1] = before, token
        bucket = _bucket(s, before, token)
        s.links[pair, _BESIDE] = s.buckets[bucket]
        s.buckets[bucket] = pair
    newest = s.ends[_NEWEST]
    s.links[pair, _OLDER], s.links[pair, _NEWER] = newest, -1
    if newest >= 0:
        s.links[newest, _NEWER] = pair
    else:
        s.ends[_OLDEST] = pair
    s.ends[_NEWEST] = pair
    return pair


@compiled
def _learn_one(s, before, token, best, logits):  # type: ignore[no-untyped-def]
    count = min(best.shape[0], s.tokens.shape[1])
    if token >= s.tokens.shape[0]:  # a prompt may hold tokens that the model can read, but not write
        return
    pair = _seen_now(s, before, token) if before >= NOTHING else -1
    # Softmax over the successors alone: what the rest of the vocabulary had is not worth another pass over it.
    total = 0.0
    for k in range(count):
        total += np.exp(logits[k] - logits[0])
    for k in range(count):
        share = np.exp(logits[k] - logits[0]) / total
        s.tokens[token, k], s.shares[token, k] = best[k], share
        if pair >= 0:
            s.pair_tokens[pair, k], s.pair_shares[pair, k] = best[k], share


@compiled
def learn(s, before_root, tokens, parents, path, best, logits):  # type: ignore[no-untyped-def]
    """From one tree of N nodes: each node's `tokens` and `parents` (N,), best successors and `logits` (N, W).

    `before_root` is the token before the root's, `NOTHING` or `UNKNOWN`; `path` are the nodes that were kept. Where a
    token is there twice, what the kept or later node had stays.
    """
    kept = np.zeros(tokens.shape[0], np.bool_)
    for node in path:
        kept[node] = True
    for now in range(2):
        for node in range(tokens.shape[0]):
            if kept[node] == (now == 1):
                before = tokens[parents[node]] if node else before_root
                _learn_one(s, before, tokens[node], best[node], logits[node])
