"""The kernel of `picking.py`. Needs numba. Knows nothing of tokens.

Shapes: N rows, V numbers each, W wanted.
"""

from __future__ import annotations

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.threads import in_parallel
from medusa_core.backbone.weighted import largest

_CHUNK = 64


@compiled
def _insert(value, place, filled, values, places):  # type: ignore[no-untyped-def]
    """Keep `values` (W,) the `filled` largest so far, descending; of equal ones the first met stands first."""
    k = min(filled, values.shape[0] - 1)
    while k > 0 and values[k - 1] < value:
        values[k], places[k] = values[k - 1], places[k - 1]
        k -= 1
    values[k], places[k] = value, place
    return min(filled + 1, values.shape[0])


@compiled
def pick_share(rows, values, places, worker, workers):  # type: ignore[no-untyped-def]
    """`pick` by one of several workers: every so many rows one."""
    vocab, wanted = rows.shape[1], values.shape[1]
    whole = vocab // _CHUNK * _CHUNK
    for i in range(worker, rows.shape[0], workers):
        row, kept, where = rows[i], values[i], places[i]
        filled = 0
        for j in range(wanted):  # the first W, whatever they are
            filled = _insert(row[j], j, filled, kept, where)
        for start in range(0, whole, _CHUNK):
            if largest(row.ctypes.data + 4 * start, _CHUNK) > kept[wanted - 1]:
                for j in range(max(start, wanted), start + _CHUNK):
                    if row[j] > kept[wanted - 1]:
                        filled = _insert(row[j], j, filled, kept, where)
        for j in range(max(whole, wanted), vocab):
            if row[j] > kept[wanted - 1]:
                filled = _insert(row[j], j, filled, kept, where)


@compiled
def pick(rows, values, places, workers):  # type: ignore[no-untyped-def]
    """The largest of each row (N, V): `values` and `places` (N, W), descending; 1 <= W <= V."""
    in_parallel(pick_share, (rows, values, places), workers)
