"""What a head says of a place, sharpened by the token before it: the kernel of `paired.py`. Needs numba.

Shapes: V' draft vocabulary, W guesses, F followers of a token. Knows no tensors.
"""

from __future__ import annotations

from medusa_core.backbone.compiling import compiled


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
        raised = False
        for f in range(followers.shape[0]):
            if followers[f] == top[k]:
                raised = plain[top[k]] * gains[f] >= least
        if not raised:
            filled = _put(top[k], plain[top[k]], filled, places, worths)
    return total
