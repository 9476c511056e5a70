"""What happens to the columns of a row in registers, without a detour through memory: scale, gate, rotate, round.

Every number is computed by the operations that are written here, in this order, on vectors of one size whatever the
processor's own is, so a row's result depends on nothing but the row. Knows nothing of products or of what rows mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from medusa_core.backbone.loops import repeat
from medusa_core.backbone.rotation import LARGEST, butterflies
from medusa_core.backbone.weighted import DOTS, FOLDED, BFloat, across, added, larger

LANES = 16
_INDEX, _FLOAT, _WORD, _BYTE = ir.IntType(64), ir.FloatType(), ir.IntType(32), ir.IntType(8)
_Load = Callable[[Any, int], Any]  # the vector of so many numbers at an offset in bytes, as it is to be rotated


def _vector(lanes: int) -> ir.VectorType:
    return ir.VectorType(_FLOAT, lanes)


def _all(number: float, lanes: int) -> ir.Constant:
    return ir.Constant(_vector(lanes), [number] * lanes)


def loaded(builder: Any, base: Any, offset: Any, lanes: int) -> Any:
    """A vector of float32 from so many bytes behind an address."""
    place = builder.inttoptr(builder.add(base, offset), _vector(lanes).as_pointer())
    return builder.load(place, align=4)


def spread(builder: Any, number: Any, lanes: int) -> Any:
    """One float32 in every lane."""
    nothing = ir.Constant(_vector(lanes), ir.Undefined)
    alone = builder.insert_element(nothing, number, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(alone, nothing, ir.Constant(ir.VectorType(_WORD, lanes), [0] * lanes))


def _called(builder: Any, name: str, lanes: int, *values: Any) -> Any:
    kind = ir.FunctionType(_vector(lanes), [_vector(lanes)] * len(values))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{lanes}f32"), values)


def _blocks(builder: Any, into: Any, count: Any, size: int, load: _Load) -> Any:
    """Load, rotate and store `count` numbers in blocks of `size`; the largest size of any of them."""
    lanes = min(size, LANES)

    def turned(start: Any, carried: Sequence[Any]) -> tuple[Any, ...]:
        offsets = [
            builder.mul(builder.add(start, ir.Constant(_INDEX, first)), ir.Constant(_INDEX, 4))
            for first in range(0, size, lanes)
        ]
        vectors = butterflies(builder, [load(offset, lanes) for offset in offsets], lanes)
        (most,) = carried
        for offset, vector in zip(offsets, vectors, strict=True):
            builder.store(vector, builder.inttoptr(builder.add(into, offset), vector.type.as_pointer()), align=4)
            most = larger(builder, most, _called(builder, "fabs", lanes, vector))
        return (most,)

    (most,) = repeat(builder, count, size, turned, [_all(0.0, lanes)])
    return across(builder, most, lanes, larger)


def _by_size(builder: Any, into: Any, count: Any, size: Any, load: _Load) -> Any:
    """`_blocks` for the `size` that is known only when it runs: a power of two up to 64."""
    end = builder.append_basic_block("end")
    sizes = [LARGEST >> shift for shift in range(LARGEST.bit_length())]
    blocks = {each: builder.append_basic_block(f"of_{each}") for each in sizes}
    switch = builder.switch(size, blocks[1])
    results = []
    for each, block in blocks.items():
        if each > 1:
            switch.add_case(ir.Constant(_INDEX, each), block)
        builder.position_at_end(block)
        result = _blocks(builder, into, count, each, load)
        results.append((result, builder.block))
        builder.branch(end)
    builder.position_at_end(end)
    found = builder.phi(_FLOAT)
    for result, block in results:
        found.add_incoming(result, block)
    return found


def _turn(_context: Any, values: Any, factors: Any, into: Any, count: Any, size: Any) -> Any:
    """into = the rotated blocks of values * factors; returns the largest size. All given by their addresses.

    Arguments: values, factors, into (float32 each), how many (whole blocks), and the blocks' size.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        values, factors, into, count, size = arguments

        def load(offset: Any, lanes: int) -> Any:
            return builder.fmul(loaded(builder, values, offset, lanes), loaded(builder, factors, offset, lanes))

        return _by_size(builder, into, count, size, load)

    return types.float32(*[types.intp] * 5), generate


def _exp(builder: Any, x: Any, lanes: int) -> Any:
    """exp(x): a polynomial of degree 5 for 2 ** fraction, within 3e-6, times a power of two made of its bits.

    No smaller than 2 ** -126 and no larger than 2 ** 126, whatever x is.
    """
    b, words = builder, ir.VectorType(_WORD, lanes)
    low, high = _all(-126.0, lanes), _all(126.0, lanes)
    t = b.fmul(x, _all(1.44269504, lanes))
    t = larger(b, t, low)
    t = b.select(b.fcmp_ordered("<", t, high), t, high)
    whole = _called(b, "floor", lanes, b.fadd(t, _all(0.5, lanes)))
    f = b.fsub(t, whole)
    p: Any = _all(0.00133336, lanes)
    for coefficient in (0.00961813, 0.05550411, 0.24022651, 0.69314718, 1.0):
        p = _called(b, "fma", lanes, f, p, _all(coefficient, lanes))
    power = b.add(b.fptosi(whole, words), ir.Constant(words, [127] * lanes))
    return b.fmul(p, b.bitcast(b.shl(power, ir.Constant(words, [23] * lanes)), _vector(lanes)))


def _gate(
    _context: Any, gates: Any, ups: Any, row_scale: Any, gate_scales: Any, up_scales: Any, factors: Any, into: Any,
    count: Any, size: Any,
) -> Any:  # fmt: skip
    """into = the rotated blocks of SiLU(gates) * ups * factors, the first two scaled; returns the largest size.

    Arguments, but for the row's scale and the last two addresses of float32: gates, ups, the row's scale, scales of the
    gates' and of the ups' columns, factors, into, how many (whole blocks), and the blocks' size.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        gates, ups, row_scale, gate_scales, up_scales, factors, into, count, size = arguments

        def load(offset: Any, lanes: int) -> Any:
            def at(base: Any) -> Any:
                return loaded(builder, base, offset, lanes)

            b, scale, one = builder, spread(builder, row_scale, lanes), _all(1.0, lanes)
            gate = b.fmul(at(gates), b.fmul(scale, at(gate_scales)))
            up = b.fmul(at(ups), b.fmul(scale, at(up_scales)))
            shut = b.fadd(one, _exp(b, b.fneg(gate), lanes))
            return b.fmul(b.fmul(b.fdiv(gate, shut), up), at(factors))

        return _by_size(builder, into, count, size, load)

    addresses = [types.intp, types.intp, types.float32, *[types.intp] * 6]
    return types.float32(*addresses), generate


def _round(_context: Any, values: Any, factor: Any, into: Any, count: Any) -> Any:
    """into (uint8) = values * factor + 128, rounded to the nearest; addresses, and a multiple of 16 of numbers.

    Arguments: values (float32, at most 127 / factor in size), factor, into, how many.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        values, factor, into, count = arguments
        words, bytes_ = ir.VectorType(_WORD, LANES), ir.VectorType(_BYTE, LANES)
        scale = spread(builder, factor, LANES)

        def rounded(start: Any, _carried: Any) -> tuple[Any, ...]:
            numbers = loaded(builder, values, builder.mul(start, ir.Constant(_INDEX, 4)), LANES)
            # All are above 0 here, so cutting off what is behind the point is rounding down.
            raised = builder.fadd(builder.fmul(numbers, scale), _all(128.5, LANES))
            whole = builder.trunc(builder.fptosi(raised, words), bytes_)
            builder.store(whole, builder.inttoptr(builder.add(into, start), bytes_.as_pointer()), align=1)
            return ()

        repeat(builder, count, LANES, rounded)
        return context.get_dummy_value()

    return types.void(types.intp, types.float32, types.intp, types.intp), generate


def narrow(builder: Any, numbers: Any) -> tuple[Any, Any]:
    """float32 -> the nearest bfloat16, ties to even, in the bits of uint16, and as the float32 that they are."""
    words, halves = ir.VectorType(_WORD, LANES), ir.VectorType(ir.IntType(16), LANES)
    sixteen = ir.Constant(words, [16] * LANES)
    if DOTS:
        kind = ir.FunctionType(ir.VectorType(BFloat(), LANES), [numbers.type])
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * LANES}"
        kept = builder.bitcast(
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [numbers]), halves
        )
        return kept, builder.bitcast(builder.shl(builder.zext(kept, words), sixteen), numbers.type)
    bits = builder.bitcast(numbers, words)
    odd = builder.and_(builder.lshr(bits, sixteen), ir.Constant(words, [1] * LANES))
    kept = builder.lshr(builder.add(bits, builder.add(odd, ir.Constant(words, [0x7FFF] * LANES))), sixteen)
    return builder.trunc(kept, halves), builder.bitcast(builder.shl(kept, sixteen), numbers.type)


def _exponentials(builder: Any, address: Any, count: Any, peak: Any, store: Callable[[Any, Any], Any]) -> Any:
    """The sum, taken in one order, of what `store(first, powers)` makes of exp(number - peak), LANES at once."""
    most = spread(builder, peak, LANES)

    def summed(start: Any, carried: Sequence[Any]) -> list[Any]:
        sums = []
        for i, so_far in enumerate(carried):
            first = builder.add(start, ir.Constant(_INDEX, i * LANES))
            numbers = loaded(builder, address, builder.mul(first, ir.Constant(_INDEX, 4)), LANES)
            powers = _exp(builder, builder.fsub(numbers, most), LANES)
            sums.append(builder.fadd(so_far, store(first, powers)))
        return sums

    ends = repeat(builder, count, FOLDED, summed, [_all(0.0, LANES)] * (FOLDED // LANES))
    return across(builder, added(builder, *ends), LANES, added)


def _exp_row(_context: Any, address: Any, count: Any, peak: Any) -> Any:
    """The float32 at an address become exp(number - peak), whose sum is returned, taken in one order.

    Arguments: the address, how many (a multiple of 32), and the largest of them.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, count, peak = arguments

        def store(first: Any, powers: Any) -> Any:
            place = builder.add(address, builder.mul(first, ir.Constant(_INDEX, 4)))
            builder.store(powers, builder.inttoptr(place, powers.type.as_pointer()), align=4)
            return powers

        return _exponentials(builder, address, count, peak, store)

    return types.float32(types.intp, types.intp, types.float32), generate


def _exp_narrow(_context: Any, address: Any, count: Any, peak: Any, into: Any) -> Any:
    """`exp_row` into bfloat16 elsewhere: the sum is of the numbers that were stored.

    Arguments: the address, how many (a multiple of 32), the largest of them, and where to (uint16).
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, count, peak, into = arguments

        def store(first: Any, powers: Any) -> Any:
            halves, kept = narrow(builder, powers)
            place = builder.add(into, builder.mul(first, ir.Constant(_INDEX, 2)))
            builder.store(halves, builder.inttoptr(place, halves.type.as_pointer()), align=2)
            return kept

        return _exponentials(builder, address, count, peak, store)

    return types.float32(types.intp, types.intp, types.float32, types.intp), generate


exp_narrow: Any = intrinsic(_exp_narrow)
exp_row: Any = intrinsic(_exp_row)
turn_row: Any = intrinsic(_turn)
gate_row: Any = intrinsic(_gate)
round_row: Any = intrinsic(_round)
__all__: Sequence[str] = (
    "LANES", "exp_narrow", "exp_row", "gate_row", "loaded", "narrow", "round_row", "spread", "turn_row",
)  # fmt: skip
