"""The whole int8 pass as one kernel: all layers of a model, from embeddings to last hidden states, without a pause.

Workers share each product by its outputs and what stands between two products by rows, and wait for each other nine
times a layer; nothing goes back to Python before the pass is done.
Shapes: T rows, H hidden, Q query heads, G key/value heads, D head dimension, I width of the MLP, Ln layers, B outputs
of a tile. Knows nothing of models or of how weights became int8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medusa_core.backbone import kernels
from medusa_core.backbone.attention import read, write
from medusa_core.backbone.compiling import compiled
from medusa_core.backbone.products import multiply
from medusa_core.backbone.threads import in_parallel, wait_for_all

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
    """What a pass of T rows writes to between its products."""

    hidden: NDArray[np.uint8]  # (T, H)
    hidden_scales: Floats  # (T,)
    attended_values: Floats  # (T, Q D)
    attended: NDArray[np.uint8]
    attended_scales: Floats
    gated: NDArray[np.uint8]  # (T, I)
    gated_scales: Floats
    product: Floats  # (T, the most outputs of a product)


class Seen(NamedTuple):
    """Where the rows of a pass are written and what they see; see `attention.read`."""

    positions: Ints  # (T,)
    places: Ints
    slots: Ints
    prefix: Ints
    extra_starts: Ints  # (T + 1,)
    extras: Ints


@compiled
def _layer(i, x, w, r, seen, keys, values, worker, workers):  # type: ignore[no-untyped-def]
    """From quantized rows, normed for this layer, to the last product of it."""
    multiply(r.hidden, w.qkv.weights[i], w.qkv.corrections[i], r.product, worker, workers)
    wait_for_all()
    scaled = (r.product, r.hidden_scales, w.qkv.scales[i], w.qkv_bias[i])
    kind = w.turns[i]
    turned = (w.eps, w.cos[kind], w.sin[kind], seen.positions)
    write(w.sizes, scaled, w.k_norm[i], turned, keys[i], values[i], seen.places, seen.slots, worker, workers)
    wait_for_all()
    read(
        w.sizes, scaled, w.q_norm[i], turned, keys[i], values[i], seen.places, seen.prefix,
        seen.extra_starts, seen.extras, r.attended_values, worker, workers,
    )  # fmt: skip
    wait_for_all()
    kernels.quantize(r.attended_values, w.out.factors[i], r.attended, r.attended_scales, worker, workers)
    wait_for_all()
    multiply(r.attended, w.out.weights[i], w.out.corrections[i], r.product, worker, workers)
    wait_for_all()
    kernels.add_norm_quantize(
        x, r.product, r.attended_scales, w.out.scales[i], w.gate_up.factors[i], w.eps,
        r.hidden, r.hidden_scales, worker, workers,
    )  # fmt: skip
    wait_for_all()
    multiply(r.hidden, w.gate_up.weights[i], w.gate_up.corrections[i], r.product, worker, workers)
    wait_for_all()
    kernels.gate_quantize(
        r.product, r.hidden_scales, w.gate_up.scales[i], w.down.factors[i], r.gated, r.gated_scales, worker, workers
    )
    wait_for_all()
    multiply(r.gated, w.down.weights[i], w.down.corrections[i], r.product, worker, workers)
    wait_for_all()


@compiled
def _share(x, w, r, seen, keys, values, out, worker, workers):  # type: ignore[no-untyped-def]
    last = w.turns.shape[0] - 1
    kernels.norm_quantize(x, w.qkv.factors[0], w.eps, r.hidden, r.hidden_scales, worker, workers)
    for i in range(last + 1):
        wait_for_all()
        _layer(i, x, w, r, seen, keys, values, worker, workers)
        if i < last:
            kernels.add_norm_quantize(
                x, r.product, r.gated_scales, w.down.scales[i], w.qkv.factors[i + 1], w.eps,
                r.hidden, r.hidden_scales, worker, workers,
            )  # fmt: skip
    kernels.add_norm(x, r.product, r.gated_scales, w.down.scales[last], w.norm, w.eps, out, worker, workers)


@compiled
def run_pass(x, weights, rows, seen, keys, values, out, workers):  # type: ignore[no-untyped-def]
    """Embeddings x (T, H), which become the residual stream -> last hidden states `out` (T, H), normed.

    `keys` (Ln, P, G, C / 64, D, 64) and `values` (Ln, P, G, C, W) are the cache, which is written to and read.
    """
    in_parallel(_share, (x, weights, rows, seen, keys, values, out), workers)


@compiled
def _project(x, weights, corrections, scales, factors, bias, rows, row_scales, out, worker, workers):  # type: ignore[no-untyped-def]
    kernels.quantize(x, factors, rows, row_scales, worker, workers)
    wait_for_all()
    multiply(rows, weights, corrections, out, worker, workers)
    wait_for_all()
    kernels.scale(out, row_scales, scales, bias, worker, workers)


@compiled
def project(x, weights, corrections, scales, factors, bias, rows, row_scales, out, workers):  # type: ignore[no-untyped-def]
    """A product by itself: x (T, K) -> out (T, >= N). `rows` (T, K) uint8 and `row_scales` (T,) are written to."""
    in_parallel(_project, (x, weights, corrections, scales, factors, bias, rows, row_scales, out), workers)
