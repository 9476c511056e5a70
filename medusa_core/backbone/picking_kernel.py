"""The kernel of `picking.py`. Needs numba. Knows nothing of tokens.

Shapes: N rows, V numbers each, W wanted.
"""

from __future__ import annotations

import numpy as np

from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.threads import in_parallel
from medusa_core.backbone.weighted import largest

_CHUNK = 64


@compiled
def _insert(value, place, values, places):  # type: ignore[no-untyped-def]
    """Keep `values` (W,) the largest met so far, descending; of equal ones the first met comes first."""
    k = values.shape[0] - 1
    while k > 0 and values[k - 1] < value:
        values[k], places[k] = values[k - 1], places[k - 1]
        k -= 1
    values[k], places[k] = value, place


@compiled
def _pick(rows, values, places, worker, workers):  # type: ignore[no-untyped-def]
    vocab, wanted = rows.shape[1], values.shape[1]
    whole = vocab // _CHUNK * _CHUNK
    for i in range(worker, rows.shape[0], workers):
        row, kept, where = rows[i], values[i], places[i]
        for k in range(wanted):
            kept[k], where[k] = np.float32(-np.inf), 0
        for start in range(0, whole, _CHUNK):
            if largest(row.ctypes.data + 4 * start, _CHUNK) > kept[wanted - 1]:
                for j in range(start, start + _CHUNK):
                    if row[j] > kept[wanted - 1]:
                        _insert(row[j], j, kept, where)
        for j in range(whole, vocab):
            if row[j] > kept[wanted - 1]:
                _insert(row[j], j, kept, where)


@compiled
def pick(rows, values, places, workers):  # type: ignore[no-untyped-def]
    """The largest of each row (N, V): `values` and `places` (N, W), descending."""
    in_parallel(_pick, (rows, values, places), workers)
