"""A draft in one kernel: from one hidden state and its root to what every head thinks of every token.

Between four or five small products one by one, more time goes to starting and waiting than to reading weights. Workers
share each product by its outputs, and heads by turns where a whole row is needed. Needs numba.
Shapes: K heads, H hidden, L further blocks, V' draft vocabulary, W places wanted, B outputs of a tile. `Linears` that
are not there have S = 0. Knows nothing of tensors, tokens or trees.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medusa_core.backbone import kernels
from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fused import exp_row
from medusa_core.backbone.int8_pass import Floats, Ints
from medusa_core.backbone.picking_kernel import pick_share
from medusa_core.backbone.products import HERE, aligned, multiply, own_blocks, padded
from medusa_core.backbone.quantize import Linears
from medusa_core.backbone.threads import in_parallel, wait_for_all
from medusa_core.backbone.weighted import FOLDED, LOWEST

BUILD = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]  # of this file; what it calls has its own
_BLOCK = HERE.block
_F = np.float32
_LOWEST = _F(LOWEST)
Bytes = NDArray[np.uint8]


class Weights(NamedTuple):
    """All that a draft reads."""

    first: Linears  # S = 1: (K H, H), of all heads
    roots: Linears  # S = 1: (K H, H)
    later: Linears  # S = L K: (H, H)
    output: Linears  # S = 1 or K: (V', H)


class Room(NamedTuple):
    """What a draft writes to."""

    seen: Floats  # (2, H): the state and the root's embedding
    seen_rows: Bytes  # (2, H)
    seen_scales: Floats  # (2,)
    sums: Floats  # (2, >= K H)
    states: Floats  # (K, H)
    flat: Floats  # (K H,): the same memory
    rows: Bytes  # (K, H)
    scales: Floats  # (K,)
    products: Floats  # (K, >= H)
    logits: Floats  # (K, >= V'), whole folds
    values: Floats  # (K, W)
    places: Ints  # (K, W)


def new_room(heads: int, hidden: int, draft_vocab: int, wanted: int) -> Room:
    """For drafts of these sizes."""

    def floats(*shape: int) -> Floats:
        return aligned(shape, np.float32)

    states = floats(heads, hidden)
    return Room(
        seen=floats(2, hidden),
        seen_rows=aligned((2, hidden), np.uint8),
        seen_scales=floats(2),
        sums=floats(2, padded(heads * hidden)),
        states=states,
        flat=states.reshape(-1),
        rows=aligned((heads, hidden), np.uint8),
        scales=floats(heads),
        products=floats(heads, padded(hidden)),
        logits=floats(heads, -(-padded(draft_vocab) // FOLDED) * FOLDED),
        values=floats(heads, wanted),
        places=np.zeros((heads, wanted), np.int64),
    )


@compiled
def _own_outputs(weights, outputs, worker, workers):  # type: ignore[no-untyped-def]
    """One worker's blocks of packed weights, and the columns of a product that they are."""
    first, last = own_blocks(weights, worker, workers)
    return first, last, min(first * _BLOCK, outputs), min(last * _BLOCK, outputs)


@compiled
def _silu(values):  # type: ignore[no-untyped-def]
    """In place."""
    count = values.shape[0]
    powers = np.zeros((count + FOLDED - 1) // FOLDED * FOLDED, np.float32)
    for j in range(count):
        powers[j] = -values[j]
    exp_row(powers.ctypes.data, powers.shape[0], _F(0.0))
    for j in range(count):
        values[j] = values[j] / (_F(1.0) + powers[j])


@compiled
def _first_block(w, r, worker, workers):  # type: ignore[no-untyped-def]
    """All heads' states from the state that was given: their first residual block, of one product for all."""
    heads, hidden = r.states.shape
    inputs = w.first.packed.shape[0] + w.roots.packed.shape[0]
    if inputs == 0:
        for k in range(worker, heads, workers):
            for j in range(hidden):
                r.states[k, j] = r.seen[0, j]
        wait_for_all()
        return
    for i in range(inputs):
        factors = w.first.factors[0] if i == 0 else w.roots.factors[0]
        turn = (worker + i) % workers
        kernels.quantize(r.seen[i : i + 1], factors, r.seen_rows[i : i + 1], r.seen_scales[i : i + 1], turn, workers)
    wait_for_all()
    first, last, left, right = _own_outputs(w.first.packed[0], heads * hidden, worker, workers)
    own = r.sums[0, left:right]
    multiply(r.seen_rows[:1], w.first.packed[0], w.first.corrections[0], r.sums[:1], first, last, 0)
    kernels.scale_row(own, r.seen_scales[0], w.first.scales[0, left:right], w.first.biases[0, left:right])
    if inputs == 2:
        added = r.sums[1, left:right]
        multiply(r.seen_rows[1:], w.roots.packed[0], w.roots.corrections[0], r.sums[1:], first, last, 0)
        kernels.scale_row(added, r.seen_scales[1], w.roots.scales[0, left:right], w.roots.biases[0])
        for j in range(own.shape[0]):
            own[j] += added[j]
    _silu(own)
    into = r.flat[left:right]
    for k in range(heads):
        start, end = max(left, k * hidden), min(right, (k + 1) * hidden)
        for j in range(start, end):
            into[j - left] = own[j - left] + r.seen[0, j - k * hidden]
    wait_for_all()


@compiled
def _round(r, linears, first, each, worker, workers):  # type: ignore[no-untyped-def]
    """The heads' states in bytes, for layers from `first` on, one for each head or one for all."""
    for k in range(r.states.shape[0]):
        turn, factors = (worker + k) % workers, linears.factors[first + k * each]
        kernels.quantize(r.states[k : k + 1], factors, r.rows[k : k + 1], r.scales[k : k + 1], turn, workers)
    wait_for_all()


@compiled
def _later_block(w, r, first_layer, worker, workers):  # type: ignore[no-untyped-def]
    heads, hidden = r.states.shape
    _round(r, w.later, first_layer, 1, worker, workers)
    for k in range(heads):
        layer = first_layer + k
        packed = w.later.packed[layer]
        first, last, left, right = _own_outputs(packed, hidden, worker, workers)
        multiply(r.rows[k : k + 1], packed, w.later.corrections[layer], r.products[k : k + 1], first, last, 0)
        own, into = r.products[k, left:right], r.states[k, left:right]
        kernels.scale_row(own, r.scales[k], w.later.scales[layer, left:right], w.later.biases[layer, left:right])
        _silu(own)
        for j in range(own.shape[0]):
            into[j] += own[j]
    wait_for_all()


@compiled
def _project(w, r, temperatures, worker, workers):  # type: ignore[no-untyped-def]
    heads, sets, outputs = r.states.shape[0], w.output.packed.shape[0], w.output.scales.shape[1]
    each = 1 if sets > 1 else 0
    _round(r, w.output, 0, each, worker, workers)
    first, last, left, right = _own_outputs(w.output.packed[0], outputs, worker, workers)
    together = 1 if sets > 1 else heads  # rows that one product has
    for k in range(0, heads, together):
        rows, out = r.rows[k : k + together], r.logits[k : k + together]
        multiply(rows, w.output.packed[k * each], w.output.corrections[k * each], out, first, last, 0)
    for k in range(heads):
        scales = w.output.scales[k * each, left:right]
        kernels.scale_row(r.logits[k, left:right], r.scales[k] * temperatures[k], scales, w.output.biases[0])
        if worker == workers - 1:  # whose product has written beyond the outputs
            for j in range(outputs, r.logits.shape[1]):
                r.logits[k, j] = _LOWEST
    wait_for_all()


@compiled
def _draft(w, r, temperatures, worker, workers):  # type: ignore[no-untyped-def]
    heads = r.states.shape[0]
    _first_block(w, r, worker, workers)
    for first_layer in range(0, w.later.packed.shape[0], heads):
        _later_block(w, r, first_layer, worker, workers)
    _project(w, r, temperatures, worker, workers)
    pick_share(r.logits[:, : w.output.scales.shape[1]], r.values, r.places, worker, workers)
    for k in range(worker, heads, workers):
        row = r.logits[k]
        share = _F(1.0) / exp_row(row.ctypes.data, row.shape[0], r.values[k, 0])
        for j in range(row.shape[0]):
            row[j] *= share


@compiled
def draft(weights, room, temperatures, workers):  # type: ignore[no-untyped-def]
    """From room.seen to room.logits, which become probabilities, and room.places, the W likeliest, descending.

    `temperatures` (K,): what logits are multiplied by.
    """
    in_parallel(_draft, (weights, room, temperatures), workers)
