"""What a head guesses below a node, sharpened by the token that the node holds (`heads/pairs.py`).

Head k's distribution becomes p(y) g(y) / Z, where only the few tokens that have followed the node's have gains other
than 1; so Z is exact, and the likeliest are among the head's own likeliest and those few.
Shapes: K heads, V vocabulary, V' draft vocabulary, W guesses, F followers of a token, P pairs. Knows no tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medusa_core.drafters.compiling import COMPILES, compiled
from medusa_core.drafters.guessed import MOST, Ints

LEAST = 0.005  # what is less likely is not guessed: it hardly ever becomes a node, and takes as long
CLASSES = 8  # of probability, each half as likely as the one before

Singles = NDArray[np.float32]


class Heads(NamedTuple):
    """What the heads said at the root, and what is known of pairs."""

    probabilities: Singles  # (K, V')
    top: Ints  # (K, W): places of the largest
    token_ids: Ints  # (K or 1, V'): which token a place stands for
    starts: Ints  # (V + 1,): the pairs of token x are starts[x] to starts[x + 1]
    followers: Ints  # (P,): places, ascending within a first token
    gains: Singles  # (K, P)


def no_heads() -> Heads:
    """K = 0."""
    none, places = np.empty((0, 0), np.float32), np.empty((0, 0), np.int64)
    return Heads(none, places, places, np.empty(0, np.int64), np.empty(0, np.int64), none)


@compiled
def _put(place, worth, filled, places, worths):  # type: ignore[no-untyped-def]
    """Keep the `filled` likeliest, descending; of equal ones the smaller place comes first."""
    k = min(filled, places.shape[0] - 1)
    if filled == places.shape[0] and not (worth > worths[k] or (worth == worths[k] and place < places[k])):
        return filled
    while k > 0 and (worth > worths[k - 1] or (worth == worths[k - 1] and place < places[k - 1])):
        places[k], worths[k] = places[k - 1], worths[k - 1]
        k -= 1
    places[k], worths[k] = place, worth
    return min(filled + 1, places.shape[0])


@compiled
def _found(places, place):  # type: ignore[no-untyped-def]
    """Where `place` stands in ascending places, -1 where it does not."""
    low, high = 0, places.shape[0]
    while low < high:
        middle = (low + high) // 2
        if places[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low if low < places.shape[0] and places[low] == place else -1


@compiled
def sharpen(plain, top, followers, gains, places, worths):  # type: ignore[no-untyped-def]
    """The likeliest of p(y) g(y), where only `followers` (F,) have gains other than 1. Returns the sum of all.

    `plain` (V',) are probabilities, `top` (W,) the places of the largest. `places` and `worths` (W,) take the result,
    descending.
    """
    filled, total, least = 0, 1.0, plain[top[top.shape[0] - 1]]
    for f in range(followers.shape[0]):
        before = plain[followers[f]]
        worth = before * gains[f]
        total += worth - before
        # Whoever is not likelier than the head's last guess was cannot be among the best.
        if worth >= least:
            filled = _put(followers[f], worth, filled, places, worths)
    for k in range(top.shape[0]):
        f = _found(followers, top[k])
        if f < 0 or not plain[top[k]] * gains[f] >= least:
            filled = _put(top[k], plain[top[k]], filled, places, worths)
    return total


def sharpened(plain: Singles, top: Ints, followers: Ints, gains: Singles, places: Ints, worths: Singles) -> float:
    """The same in array operations, for where the loops are not compiled."""
    before = plain[followers]
    worth_more = before * gains
    raised = worth_more >= plain[top[-1]]
    worth = dict(zip(top.tolist(), plain[top].tolist(), strict=True))
    worth.update(zip(followers[raised].tolist(), worth_more[raised].tolist(), strict=True))
    ranked = sorted(worth.items(), key=lambda item: (-item[1], item[0]))[: len(top)]
    places[:], worths[:] = [place for place, _ in ranked], [value for _, value in ranked]
    return 1.0 + float((worth_more - before).sum())


_sharpen = sharpen if COMPILES else sharpened


@compiled
def probability_class(probability):  # type: ignore[no-untyped-def]
    """0 for half and more, 1 for a quarter and more, ... below `CLASSES`."""
    halvings = 0
    while probability < 0.5 and halvings < CLASSES - 1:
        probability *= 2
        halvings += 1
    return halvings


@compiled
def guess(heads, depth, token, tokens, probabilities, kinds):  # type: ignore[no-untyped-def]
    """Head `depth` + 1 guesses what follows `token`; nothing below the last head's, or after tokens heads do not know.

    Returns how many guesses. `tokens`, `probabilities` and `kinds` (G,) take them, the likeliest first.
    """
    if depth >= heads.top.shape[0] or token + 1 >= heads.starts.shape[0]:
        return 0
    width = min(heads.top.shape[1], MOST)
    places, worths = np.zeros(width, np.int64), np.zeros(width, np.float32)  # found or not, if heads are not finite
    first, last = heads.starts[token], heads.starts[token + 1]
    total = _sharpen(
        heads.probabilities[depth], heads.top[depth, :width], heads.followers[first:last],
        heads.gains[depth, first:last], places, worths,
    )  # fmt: skip
    named = heads.token_ids[min(depth, heads.token_ids.shape[0] - 1)]
    for k in range(width):
        share = worths[k] / total
        if share < LEAST:
            return k
        tokens[k], probabilities[k] = named[places[k]], share
        kinds[k] = depth * CLASSES + probability_class(share)
    return width
