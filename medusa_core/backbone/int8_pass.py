"""The whole int8 pass as one kernel: all layers of a model, from embeddings to last hidden states, without a pause.

Workers share each product by its outputs and go on with the columns they computed; they wait for each other ten times a
layer, and nothing goes back to Python before the pass is done.
Shapes: T rows, H hidden, Q query heads, G key/value heads, D head dimension, I width of the MLP, Ln layers, B outputs
of a tile. Knows nothing of models or of how weights became int8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medusa_core.backbone import attention, kernels
from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.fetching import NOTHING
from medusa_core.backbone.products import HERE, aligned, block_at, multiply, multiply_share, own_blocks, padded
from medusa_core.backbone.rotation import block_size
from medusa_core.backbone.threads import in_parallel, wait_for_all

BLOCK = HERE.block
_LINE = 16  # floats of a line of memory
_BY_PART = ("sizes", "sums", "attended_sizes", "gated_sizes")
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Product(NamedTuple):
    """One product of every layer: K inputs, N outputs."""

    weights: NDArray[np.int8]  # (Ln, N / B, K / 4, B, 4)
    corrections: NDArray[np.int32]  # (Ln, N), N in whole blocks
    scales: Floats  # (Ln, N)
    factors: Floats  # (Ln, K): what rows are multiplied by before they are rounded; a norm's weight is in it


class Weights(NamedTuple):
    """All that a pass reads."""

    sizes: tuple[int, int, int]  # Q, G, D
    qkv: Product
    out: Product
    gate_up: Product
    down: Product
    qkv_bias: Floats  # (Ln, (Q + 2 G) D)
    q_norm: Floats  # (Ln, D), or (Ln, 0) where the model has none
    k_norm: Floats
    norm: Floats  # (H,), after the last layer
    cos: Floats  # (kinds, positions, D / 2)
    sin: Floats
    turns: Ints  # (Ln,): which kind of rotation a layer has
    eps: np.float32


class Rows(NamedTuple):
    """What a pass of T rows writes to between its products. S: blocks of a row, see `kernels.py`."""

    turned: Floats  # (T, H)
    sizes: Floats  # (workers, >= T)
    sums: Floats  # (S, >= T)
    hidden: NDArray[np.uint8]  # (T, H)
    hidden_scales: Floats  # (T,)
    attended_values: Floats  # (T, Q D)
    attended_sizes: Floats  # (G, >= T)
    attended: NDArray[np.uint8]
    attended_scales: Floats
    turned_gated: Floats  # (T, I)
    gated_sizes: Floats
    gated: NDArray[np.uint8]
    gated_scales: Floats
    product: Floats  # (T, the most outputs of a product)


def new_rows(count: int, hidden: int, attended: int, width: int, outputs: int, *, kv_heads: int, workers: int) -> Rows:
    """For passes of `count` rows by up to `workers` workers; `outputs` of its widest product."""

    def floats(*shape: int) -> Floats:
        return aligned(shape, np.float32)

    def by_part(parts: int) -> Floats:
        return floats(parts, -(-count // _LINE) * _LINE)

    return Rows(
        turned=floats(count, hidden),
        sizes=by_part(workers),
        sums=by_part(hidden // block_size(hidden)),
        hidden=aligned((count, hidden), np.uint8),
        hidden_scales=floats(count),
        attended_values=floats(count, attended),
        attended_sizes=by_part(kv_heads),
        attended=aligned((count, attended), np.uint8),
        attended_scales=floats(count),
        turned_gated=floats(count, width),
        gated_sizes=by_part(workers),
        gated=aligned((count, width), np.uint8),
        gated_scales=floats(count),
        product=floats(count, padded(outputs) + 16),
    )


def first_rows(rows: Rows, count: int) -> Rows:
    """Of them those for a pass of `count` rows; what stands by part is longer than needed."""
    return Rows(*(array if name in _BY_PART else array[:count] for name, array in rows._asdict().items()))


class Seen(NamedTuple):
    """Where the rows of a pass are written and what they see; see `attention.read`."""

    positions: Ints  # (T,)
    places: Ints
    slots: Ints
    prefix: Ints
    extra_starts: Ints  # (T + 1,)
    extras: Ints


@compiled
def own_gates(width, worker, workers):  # type: ignore[no-untyped-def]
    """A worker's blocks [first, last) of gate, in gate and up side by side, and how many further those of up lie.

    `width` is in whole blocks; else gate and up share one, and there is no such thing.
    """
    first, last = kernels.own_columns(width, worker, workers)
    return first // BLOCK, last // BLOCK, width // BLOCK


@compiled
def gates_ahead(i, w, worker, workers):  # type: ignore[no-untyped-def]
    """Where a worker's weights of layer `i` for gate and up lie: two ranges of addresses, see `fetching.py`."""
    width, weights = w.down.factors.shape[1], w.gate_up.weights[i]
    if width % BLOCK:
        return NOTHING
    first, last, up = own_gates(width, worker, workers)
    gate = block_at(weights, first), block_at(weights, last)
    return (*gate, block_at(weights, up + first), block_at(weights, up + last))


@compiled
def _attend(i, w, r, seen, keys, values, worker, workers):  # type: ignore[no-untyped-def]
    """From quantized rows, normed for layer `i`, to quantized rows of what its attention read."""
    own, _ = kernels.own_columns(w.norm.shape[0], worker, workers)
    following = block_at(w.out.weights[i], own // BLOCK)
    multiply_share(r.hidden, w.qkv.weights[i], w.qkv.corrections[i], r.product, worker, workers, following)
    wait_for_all()
    scaled = (r.product, r.hidden_scales, w.qkv.scales[i], w.qkv_bias[i])
    kind = w.turns[i]
    turned = (w.eps, w.cos[kind], w.sin[kind], seen.positions)
    attention.write(w.sizes, scaled, w.k_norm[i], turned, keys[i], values[i], seen.places, seen.slots, worker, workers)
    wait_for_all()
    attention.read(
        w.sizes, scaled, w.q_norm[i], turned, keys[i], values[i],
        (seen.places, seen.prefix, seen.extra_starts, seen.extras), w.out.factors[i], r.attended_values,
        r.attended_sizes, gates_ahead(i, w, worker, workers), worker, workers,
    )  # fmt: skip
    wait_for_all()
    attention.quantize(
        w.sizes, w.out.factors[i], r.attended_values, r.attended_sizes, r.attended, r.attended_scales, worker, workers
    )
    wait_for_all()


@compiled
def _gate(i, w, r, worker, workers):  # type: ignore[no-untyped-def]
    """From quantized rows, normed for the MLP of layer `i`, to quantized rows of what its gate let through."""
    width = w.down.factors.shape[1]
    first, last = kernels.own_columns(width, worker, workers)
    weights, corrections = w.gate_up.weights[i], w.gate_up.corrections[i]
    own, _ = kernels.own_columns(w.norm.shape[0], worker, workers)
    following = block_at(w.down.weights[i], own // BLOCK)
    if width % BLOCK:  # gate and up share a block: one worker has all
        if first < last:
            multiply(r.hidden, weights, corrections, r.product, 0, weights.shape[0], following)
    else:
        block, end, up = own_gates(width, worker, workers)
        multiply(r.hidden, weights, corrections, r.product, block, end, block_at(weights, up + block))
        multiply(r.hidden, weights, corrections, r.product, up + block, up + end, following)
    kernels.gate_turn(
        r.product, r.hidden_scales, w.gate_up.scales[i], w.down.factors[i], r.turned_gated, r.gated_sizes, first, last,
        worker,
    )  # fmt: skip
    wait_for_all()
    kernels.quantize_turned(r.turned_gated, r.gated_sizes[:workers], r.gated, r.gated_scales, first, last)
    wait_for_all()


@compiled
def _add_product(x, rows, scales, product, i, r, first, last, following):  # type: ignore[no-untyped-def]
    """x (T, H) += a product of layer `i`, in the worker's own columns; `following` see `multiply`."""
    weights = product.weights[i]
    last_block = last // BLOCK if last < x.shape[1] else weights.shape[0]
    if first < last:
        multiply(rows, weights, product.corrections[i], r.product, first // BLOCK, last_block, following)
    kernels.add(x, r.product, scales, product.scales[i], first, last)


@compiled
def _share(x, w, r, seen, keys, values, out, worker, workers):  # type: ignore[no-untyped-def]
    layers = w.turns.shape[0]
    first, last = kernels.own_columns(x.shape[1], worker, workers)
    kernels.norm_turn(x, w.qkv.factors[0], r.turned, r.sizes, r.sums, first, last, worker)
    wait_for_all()
    for i in range(layers):
        kernels.norm_quantize(r.turned, r.sizes[:workers], r.sums, w.eps, r.hidden, r.hidden_scales, first, last)
        wait_for_all()
        _attend(i, w, r, seen, keys, values, worker, workers)
        own, _ = kernels.own_columns(w.down.factors.shape[1], worker, workers)
        following = block_at(w.gate_up.weights[i], own // BLOCK)
        _add_product(x, r.attended, r.attended_scales, w.out, i, r, first, last, following)
        kernels.norm_turn(x, w.gate_up.factors[i], r.turned, r.sizes, r.sums, first, last, worker)
        wait_for_all()
        kernels.norm_quantize(r.turned, r.sizes[:workers], r.sums, w.eps, r.hidden, r.hidden_scales, first, last)
        wait_for_all()
        _gate(i, w, r, worker, workers)
        after = min(i + 1, layers - 1)  # of the last layer only the sums are needed
        own, _ = own_blocks(w.qkv.weights[after], worker, workers)
        following = block_at(w.qkv.weights[after], own)
        _add_product(x, r.gated, r.gated_scales, w.down, i, r, first, last, following)
        kernels.norm_turn(x, w.qkv.factors[after], r.turned, r.sizes, r.sums, first, last, worker)
        wait_for_all()
    kernels.norm(x, w.norm, r.sums, w.eps, out, first, last)


@compiled
def run_pass(x, weights, rows, seen, keys, values, out, workers):  # type: ignore[no-untyped-def]
    """Embeddings x (T, H), which become the residual stream -> last hidden states `out` (T, H), normed.

    `keys` (Ln, P, G, C / 64, D / 2, 64, 2) and `values` (Ln, P, G, C / 2, W, 2) are the cache, written to and read.
    """
    in_parallel(_share, (x, weights, rows, seen, keys, values, out), workers)


@compiled
def _project(x, weights, corrections, scales, factors, biases, rows, row_scales, out, worker, workers):  # type: ignore[no-untyped-def]
    apart = x.shape[0]
    for k in range(apart):
        turn = (worker + k * x.shape[1]) % workers  # single rows, one after the other, go to all workers in turn
        kernels.quantize(x[k], factors[k], rows[k], row_scales[k], turn, workers)
    wait_for_all()
    for k in range(apart):
        after = min(k + 1, apart - 1)
        own, _ = own_blocks(weights[after], worker, workers)
        following = block_at(weights[after], own)
        multiply_share(rows[k], weights[k], corrections[k], out[k], worker, workers, following)
    wait_for_all()
    for k in range(apart):
        kernels.scale(out[k], row_scales[k], scales[k], biases[k], worker, workers)


@compiled
def project(x, weights, corrections, scales, factors, biases, rows, row_scales, out, workers):  # type: ignore[no-untyped-def]
    """Products by themselves, side by side, each with weights of its own: x (S, T, K) -> out (S, T, >= N).

    `rows` (S, T, K) uint8 and `row_scales` (S, T) are written to; `biases` (S, N), or (S, 0).
    """
    in_parallel(_project, (x, weights, corrections, scales, factors, biases, rows, row_scales, out), workers)
