"""Which rows of the cache a pass writes and sees, and which of them stay. Needs numba.

A few dozen numbers each time, but arrays of them cost more to ask for than to fill: every step would wait for a dozen
array operations before and after its pass.
Shapes: T rows, layers, P places, G key/value heads, C capacity of a place, D head dimension. Knows nothing of trees.
"""

from __future__ import annotations

from medusa_core.backbone.attention import BLOCK
from medusa_core.backbone.compiling import compiled


@compiled
def see(visible, cached, places, slots, prefix, starts, extras):  # type: ignore[no-untyped-def]
    """T rows go behind the `cached` ones of the first place, see all of these, and of each other what `visible` says.

    `visible` (T, T) bool, or (0, 0): every row sees itself and those before it. Fills `places`, `slots` and `prefix`
    (T,), `starts` (T + 1,) and `extras` (at least as many as are visible) as `attention.read` wants them.
    """
    rows, count = slots.shape[0], 0
    starts[0] = 0
    for i in range(rows):
        places[i], slots[i] = 0, cached + i
        prefix[i] = cached if visible.shape[0] else cached + i + 1
        for j in range(visible.shape[1]):
            if visible[i, j]:
                extras[count] = cached + j
                count += 1
        starts[i + 1] = count


@compiled
def keep(keys, values, start, rows):  # type: ignore[no-untyped-def]
    """Of the first place's rows from `start` on, those at offsets `rows`, ascending, move together.

    `keys` (layers, P, G, C / 64, D / 2, 64, 2) and `values` (layers, P, G, C / 2, W, 2).
    """
    for k in range(rows.shape[0]):
        source, target = start + rows[k], start + k  # never behind its source: nothing is overwritten unread
        if source == target:
            continue
        for layer in range(keys.shape[0]):
            for head in range(keys.shape[2]):
                from_keys, to_keys = keys[layer, 0, head, source // BLOCK], keys[layer, 0, head, target // BLOCK]
                for j in range(keys.shape[4]):
                    for side in range(2):
                        to_keys[j, target % BLOCK, side] = from_keys[j, source % BLOCK, side]
                from_values, to_values = values[layer, 0, head, source // 2], values[layer, 0, head, target // 2]
                for j in range(values.shape[4]):
                    to_values[j, target % 2] = from_values[j, source % 2]
