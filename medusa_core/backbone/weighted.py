"""Weighted sums of bfloat16 rows, for several sets of weights at once and without leaving the registers.

Both halves of attention are such sums: scores, a query's numbers weighing the rows of a block of keys, and what is
read, scores weighing the rows of values. Rows and weights come in pairs, because processors that multiply bfloat16
(AVX-512 BF16) add two products at once; on others both are widened and added one after the other. Each sum runs from
the first pair to the last, so its result depends neither on what is summed beside it nor on how a sum is cut in two.
Knows nothing of models or caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from medusa_core.backbone.compiling import features
from medusa_core.backbone.fetching import fetch
from medusa_core.backbone.loops import repeat


class BFloat(ir.Type):  # type: ignore[misc]
    """A bfloat16, which llvmlite has no type for."""

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


_WORD, _INDEX, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_WIDE = features().get("avx512f", False)
_LANES = 16 if _WIDE else 8
DOTS = _WIDE and features().get("avx512bf16", False)
TILE = 2 * _LANES  # numbers of a row that are summed at once
FOLDED = 32  # numbers that `largest` and `squares` take at once
LOWEST = -1e30  # below every score
MOST = 6 if _WIDE else 4  # sets of weights at once: two sums each, within the registers there are


def _words(builder: Any, address: Any) -> Any:
    """`_LANES` pairs of bfloat16 at an address."""
    return builder.load(builder.inttoptr(address, ir.VectorType(_WORD, _LANES).as_pointer()), align=4)


def _numbers(builder: Any, words: Any, second: bool) -> Any:
    """The first or the second number of every pair, as float32."""
    kind = words.type
    if second:
        bits = builder.and_(words, ir.Constant(kind, [0xFFFF0000] * _LANES))
    else:
        bits = builder.shl(words, ir.Constant(kind, [16] * _LANES))
    return builder.bitcast(bits, ir.VectorType(_FLOAT, _LANES))


def _added_pairs(builder: Any, total: Any, weights: Any, rows: Any) -> Any:
    """total + in each lane the products of both numbers."""
    kind = total.type
    if DOTS:
        pairs = ir.VectorType(BFloat(), 2 * _LANES)
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        dot = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, pairs, pairs]), name)
        return builder.call(dot, [total, builder.bitcast(weights, pairs), builder.bitcast(rows, pairs)])
    fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.v{_LANES}f32")
    for second in (False, True):
        factors = [_numbers(builder, words, second) for words in (weights, rows)]
        total = builder.call(fma, [*factors, total])
    return total


def _spread(builder: Any, address: Any) -> Any:
    """One pair of bfloat16, in every lane."""
    kind = ir.VectorType(_WORD, _LANES)
    nothing = ir.Constant(kind, ir.Undefined)
    pair = builder.load(builder.inttoptr(address, _WORD.as_pointer()), align=4)
    alone = builder.insert_element(nothing, pair, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(alone, nothing, ir.Constant(kind, [0] * _LANES))


def _write(builder: Any, count: int, values: tuple[Any, ...]) -> None:
    weights, weights_bytes, rows, row_bytes, steps, out, out_bytes, ahead, further = values
    kind = ir.VectorType(_FLOAT, _LANES)
    halves = [ir.Constant(_INDEX, 0), ir.Constant(_INDEX, _LANES)]

    def place(base: Any, step: Any, i: int) -> Any:
        return builder.add(base, builder.mul(step, ir.Constant(_INDEX, i)))

    def pointer(line: Any, half: Any) -> Any:
        return builder.inttoptr(builder.add(line, builder.mul(half, ir.Constant(_INDEX, 4))), kind.as_pointer())

    lines, sources = (
        [place(out, out_bytes, i) for i in range(count)],
        [place(weights, weights_bytes, i) for i in range(count)],
    )
    starts = [builder.load(pointer(line, half), align=4) for line in lines for half in halves]

    def summed(step: Any, totals: Sequence[Any]) -> list[Any]:
        row = builder.add(rows, builder.mul(step, row_bytes))
        pairs = [_words(builder, builder.add(row, builder.mul(half, ir.Constant(_INDEX, 4)))) for half in halves]
        at = builder.mul(step, ir.Constant(_INDEX, 4))
        fetch(builder, builder.add(ahead, builder.mul(step, further)))
        new = []
        for i, source in enumerate(sources):
            weight = _spread(builder, builder.add(source, at))
            new += [_added_pairs(builder, totals[2 * i + half], weight, pairs[half]) for half in range(2)]
        return new

    ends = repeat(builder, steps, 1, summed, starts, some=True)
    for i, line in enumerate(lines):
        for half, total in zip(halves, ends[2 * i : 2 * i + 2], strict=True):
            builder.store(total, pointer(line, half), align=4)


def _add_weighted(
    _context: Any, n: Any, weights: Any, to_weights: Any, rows: Any, to_row: Any, steps: Any, out: Any, to_out: Any,
    ahead: Any, further: Any,
) -> Any:  # fmt: skip
    """out (n, TILE) += weights (n, 2 steps) @ rows (2 steps, TILE), for 1 <= n <= MOST; all given by their addresses.

    Arguments: n, weights (bfloat16), bytes from one set of weights to the next, rows (bfloat16, two side by side:
    (steps, TILE, 2)), bytes from one pair of rows to the next, steps, out (float32), bytes from one sum to the next;
    and what memory is asked for meanwhile (`fetching.py`): a line at an address, and how many bytes further each step.
    """

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        end, most, some = (builder.append_basic_block(name) for name in ("end", "most", "some"))
        builder.cbranch(builder.icmp_signed(">", values[5], ir.Constant(_INDEX, 0)), some, end)
        builder.position_at_end(some)
        switch = builder.switch(values[0], most)
        blocks = {MOST: most}
        for count in range(1, MOST):
            blocks[count] = builder.append_basic_block(f"sums_{count}")
            switch.add_case(ir.Constant(_INDEX, count), blocks[count])
        for count, block in blocks.items():
            builder.position_at_end(block)
            _write(builder, count, tuple(values[1:]))
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 10), generate


add_weighted: Any = intrinsic(_add_weighted)


def across(builder: Any, vector: Any, lanes: int, combine: Any) -> Any:
    """All numbers of a vector combined into one, in one order: each half with the other, and so on."""
    step = lanes // 2
    while step:
        order = ir.Constant(ir.VectorType(_WORD, lanes), [(lane + step) % lanes for lane in range(lanes)])
        vector = combine(builder, vector, builder.shuffle_vector(vector, vector, order))
        step //= 2
    return builder.extract_element(vector, ir.Constant(_WORD, 0))


def _folding(combine: Any, neutral: float) -> Any:
    """A function of an address and a count, a multiple of 32, that combines so many float32 in one fixed order.

    `combine(builder, so_far, numbers)`, for vectors of both; at the end its results are combined as they are.
    """
    kind, sums = ir.VectorType(_FLOAT, _LANES), FOLDED // _LANES
    first, then = combine

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        address, count = values
        nothing = ir.Constant(kind, [neutral] * _LANES)

        def folded(start: Any, totals: Sequence[Any]) -> list[Any]:
            line = builder.add(address, builder.mul(start, ir.Constant(_INDEX, 4)))
            new = []
            for i, so_far in enumerate(totals):
                place = builder.add(line, ir.Constant(_INDEX, 4 * _LANES * i))
                loaded = builder.load(builder.inttoptr(place, kind.as_pointer()), align=4)
                new.append(first(builder, so_far, loaded))
            return new

        results = repeat(builder, count, FOLDED, folded, [nothing] * sums)
        while len(results) > 1:
            results = [then(builder, a, b) for a, b in zip(results[::2], results[1::2], strict=True)]
        return across(builder, results[0], _LANES, then)

    def typing(_context: Any, address: Any, count: Any) -> Any:
        return types.float32(types.intp, types.intp), generate

    return intrinsic(typing)


def larger(builder: Any, a: Any, b: Any) -> Any:
    """Of each pair of numbers the larger."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def added(builder: Any, a: Any, b: Any) -> Any:
    """Of each pair of numbers the sum."""
    return builder.fadd(a, b)


def _sum_of_squares(builder: Any, so_far: Any, numbers: Any) -> Any:
    return builder.fadd(so_far, builder.fmul(numbers, numbers))


largest: Any = _folding((larger, larger), LOWEST)
squares: Any = _folding((_sum_of_squares, added), 0.0)
