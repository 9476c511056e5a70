"""Exact products of uint8 rows with int8 weights: sums of integers, in the processor's own instructions.

A tile of some rows by two registers of outputs is summed at once, without ever leaving the registers; weights lie in
memory in the order in which tiles read them. One row is bound by memory, eight by arithmetic. The result of a row is
the same integers whatever other rows there are, however tiles are cut, and whichever instructions there are: dot
products of bytes (AVX-512 VNNI, AVX-VNNI), or on other processors multiplications that the compiler widens.
Shapes: T rows, K inputs, N outputs. Knows nothing of models, layers or scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from medusa_core.backbone.compiling import compiled, features
from medusa_core.backbone.fetching import LINE, fetch
from medusa_core.backbone.loops import repeat

_Number = TypeVar("_Number", bound=np.generic)
ZERO_POINT = 128  # of the uint8 rows
# How many bytes before its use memory is asked for weights that are used once: at most so many, and so many in all
# rows' time; by tiles of more rows, and before the second cache is, where it has arrived. Of blocks that are no larger
# than a size the whole next one is asked for instead.
_SOON, _SOON_BY_ROW, _EARLY, _NEAR, _WHOLE = 4096, 12288, 16384, 1024, 65536
GROUP = 4  # inputs that one instruction multiplies and adds: what K must be a multiple of
_BYTE, _HALF, _WORD, _INDEX = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a processor multiplies bytes with."""

    lanes: int  # outputs summed in one register
    dot_products: bool  # four bytes multiplied and added at once
    most_rows: int  # of a tile: two sums each, within the registers there are
    few_rows: int  # of no more the weights go by without displacing what else is in the caches

    @property
    def block(self) -> int:
        """Outputs of a tile."""
        return 2 * self.lanes


WIDE = Instructions(16, dot_products=True, most_rows=12, few_rows=8)  # AVX-512 VNNI
NARROW = Instructions(8, dot_products=True, most_rows=5, few_rows=2)  # AVX-VNNI
ANY = Instructions(8, dot_products=False, most_rows=4, few_rows=1)


def _here() -> Instructions:
    has = features()
    if has.get("avx512vnni"):
        return WIDE
    return NARROW if has.get("avxvnni") else ANY


HERE = _here()


@dataclass(frozen=True, slots=True)
class _Tile:
    """Builds the code of one tile: what is at hand in all of its parts."""

    builder: Any
    kind: Instructions
    values: tuple[Any, ...]  # rows, row_bytes, weights, groups, corrections, out, out_bytes, ahead, ahead_bytes

    def pointer(self, base: Any, offset: Any, to: Any) -> Any:
        return self.builder.inttoptr(self.builder.add(base, offset), to.as_pointer())

    def prefetch(self, address: Any, locality: int) -> None:
        """Have memory bring what is read some steps later: close to the processor with 0 or 3, with 2 less close."""
        for line in range(0, 8 * self.kind.lanes, LINE):
            fetch(self.builder, self.builder.add(address, ir.Constant(_INDEX, line)), locality)

    def spread(self, quad: Any) -> Any:
        """Four bytes of a row, in every lane."""
        sums = ir.VectorType(_WORD, self.kind.lanes)
        nothing = ir.Constant(sums, ir.Undefined)
        alone = self.builder.insert_element(nothing, quad, ir.Constant(_WORD, 0))
        return self.builder.shuffle_vector(alone, nothing, ir.Constant(sums, [0] * self.kind.lanes))

    def add(self, total: Any, rows: Any, weights: Any) -> Any:
        """total (lanes,) + in each lane the product of its four bytes of the row and of the weights."""
        lanes, b = self.kind.lanes, self.builder
        sums, quads = ir.VectorType(_WORD, lanes), ir.VectorType(_BYTE, GROUP * lanes)
        if self.kind.dot_products:
            name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
            dot = cgutils.get_or_insert_function(b.module, ir.FunctionType(sums, [sums, quads, quads]), name)
            return b.call(dot, [total, b.bitcast(rows, quads), b.bitcast(weights, quads)])
        # Bytes become 16-bit numbers, the even ones and the odd ones apart; pairs of their products are added.
        pairs, wide = ir.VectorType(_HALF, 2 * lanes), ir.VectorType(_WORD, 2 * lanes)
        eight, low = ir.Constant(pairs, [8] * 2 * lanes), ir.Constant(pairs, [255] * 2 * lanes)
        row, weight = b.bitcast(rows, pairs), b.bitcast(weights, pairs)
        even = b.and_(row, low), b.ashr(b.shl(weight, eight), eight)
        odd = b.lshr(row, eight), b.ashr(weight, eight)
        for left, right in (even, odd):
            both = b.mul(b.sext(left, wide), b.sext(right, wide))
            first, second = (ir.Constant(sums, list(range(start, 2 * lanes, 2))) for start in (0, 1))
            total = b.add(total, b.add(b.shuffle_vector(both, both, first), b.shuffle_vector(both, both, second)))
        return total

    def write(self, count: int, *, passing: bool) -> None:
        """All K inputs of `count` rows, summed and stored; the weights are `passing` through, or shared by tiles."""
        b = self.builder
        rows, row_bytes, weights, groups, corrections, out, out_bytes, ahead, ahead_bytes = self.values
        lanes = self.kind.lanes
        sums, floats, register = ir.VectorType(_WORD, lanes), ir.VectorType(ir.FloatType(), lanes), 4 * lanes
        halves = [ir.Constant(_INDEX, 0), ir.Constant(_INDEX, register)]
        starts = [b.load(self.pointer(corrections, half, sums), align=4) for half in halves]
        addresses = [b.add(rows, b.mul(row_bytes, ir.Constant(_INDEX, i))) for i in range(count)]

        def summed(group: Any, totals: Sequence[Any]) -> list[Any]:
            at = b.add(weights, b.mul(group, ir.Constant(_INDEX, 2 * register)))
            loaded = [b.load(self.pointer(at, half, sums), align=register) for half in halves]
            asked = b.add(ahead, b.mul(group, ahead_bytes))
            if passing:
                self.prefetch(asked, 0)  # used once and soon
            else:
                self.prefetch(asked, 2)  # so early that the first cache would lose it
                self.prefetch(b.add(at, ir.Constant(_INDEX, _NEAR)), 3)
            step = b.mul(group, ir.Constant(_INDEX, GROUP))
            new = []
            for i, address in enumerate(addresses):
                row = self.spread(b.load(self.pointer(address, step, _WORD), align=1))
                new += [self.add(totals[2 * i + half], row, loaded[half]) for half in range(2)]
            return new

        ends = repeat(b, groups, 1, summed, starts * count, some=True)
        for i in range(count):
            line = b.add(out, b.mul(out_bytes, ir.Constant(_INDEX, i)))
            for half, total in zip(halves, ends[2 * i : 2 * i + 2], strict=True):
                b.store(b.sitofp(total, floats), self.pointer(line, half, floats), align=4)


def tile(kind: Instructions) -> Any:
    """A function of addresses, for one block: count, rows, row_bytes, weights, groups, corrections, out, out_bytes.

    It writes 1 <= count <= most_rows rows, or where the weights pass through, 1 <= -count <= few_rows. `groups` is
    K / 4. Two more arguments say what memory is asked for meanwhile: `ahead`, and how many bytes further with every
    group.
    """

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        end, most = builder.append_basic_block("end"), builder.append_basic_block("most")
        switch = builder.switch(values[0], most)
        blocks = {kind.most_rows: most}
        for count in (*range(1, kind.most_rows), *range(-kind.few_rows, 0)):
            blocks[count] = builder.append_basic_block(f"rows_{count}")
            switch.add_case(ir.Constant(_INDEX, count), blocks[count])
        for count, block in blocks.items():
            builder.position_at_end(block)
            _Tile(builder, kind, tuple(values[1:])).write(abs(count), passing=count < 0)
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    def typing(
        _context: Any, n: Any, rows: Any, step: Any, weights: Any, groups: Any, starts: Any, out: Any, to: Any,
        ahead: Any, further: Any,
    ) -> Any:  # fmt: skip
        return types.void(*[types.intp] * 10), generate

    return intrinsic(typing)


# Of this processor, as constants: what closures hold would be compiled anew at every start.
_tile_here, _MOST_ROWS, _FEW_ROWS, _BLOCK_BYTES = tile(HERE), HERE.most_rows, HERE.few_rows, 4 * HERE.block


@compiled
def block_at(weights, block):  # type: ignore[no-untyped-def]
    """Where a block of packed weights (N / block, K / 4, block, 4) lies."""
    return weights.ctypes.data + block * weights.strides[0]


@compiled
def multiply(rows, weights, corrections, out, first_block, last_block, following):  # type: ignore[no-untyped-def]
    """out (T, N) = the integers (rows (T, K) - 128) . weights, packed (N / block, K / 4, block, 4), of some blocks.

    While many rows are multiplied with a block the next one is fetched; during the last one what lies at `following`,
    the weights that the worker reads next (0: nothing).
    """
    count, groups = rows.shape[0], weights.shape[1]
    tiles = (count + _MOST_ROWS - 1) // _MOST_ROWS
    rows_at, row_bytes, out_at, out_bytes = rows.ctypes.data, rows.strides[0], out.ctypes.data, out.strides[0]
    block_bytes = weights.strides[0]
    fetching = min(tiles, 2)  # tiles that share what is fetched: if only one of them did, memory would rest meanwhile
    way = -1 if count <= _FEW_ROWS else 1
    for block in range(first_block, last_block):
        weights_at = block_at(weights, block)
        corrections_at = corrections.ctypes.data + block * _BLOCK_BYTES
        if way < 0:
            ahead = weights_at + min(_SOON, _SOON_BY_ROW // count // LINE * LINE)
        elif block_bytes > _WHOLE:
            ahead = weights_at + _EARLY
        elif block < last_block - 1:
            ahead = weights_at + block_bytes
        else:
            ahead = following or weights_at
        for i in range(tiles):
            first, last = count * i // tiles, count * (i + 1) // tiles
            _tile_here(
                way * (last - first), rows_at + first * row_bytes, row_bytes, weights_at, groups,
                corrections_at, out_at + first * out_bytes + block * _BLOCK_BYTES, out_bytes,
                ahead + min(i, fetching - 1) * block_bytes // fetching, weights.strides[1] // fetching,
            )  # fmt: skip


@compiled
def own_blocks(weights, worker, workers):  # type: ignore[no-untyped-def]
    """The share of one worker in a product: [first, last) of its blocks."""
    blocks = weights.shape[0]
    return blocks * worker // workers, blocks * (worker + 1) // workers


@compiled
def multiply_share(rows, weights, corrections, out, worker, workers, following):  # type: ignore[no-untyped-def]
    """The share of one worker in all of them."""
    first, last = own_blocks(weights, worker, workers)
    multiply(rows, weights, corrections, out, first, last, following)


def padded(outputs: int, kind: Instructions = HERE) -> int:
    """Outputs of a product as they are stored: whole blocks."""
    return -(-outputs // kind.block) * kind.block


def aligned(shape: tuple[int, ...], kind: type[_Number]) -> NDArray[_Number]:
    """Zeros that start where a line of memory does: a register loaded across two lines takes twice as long."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    raw = np.zeros(size + LINE, np.int8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(kind).reshape(shape)


def aligned_copy(array: NDArray[_Number]) -> NDArray[_Number]:
    """The same numbers, in C order, from the start of a line of memory on."""
    copy = aligned(array.shape, array.dtype.type)
    copy[...] = array
    return copy


def pack(weight: NDArray[np.int8], packed: NDArray[np.int8], kind: Instructions = HERE) -> NDArray[np.int32]:
    """weight (N, K) -> `packed` (N / block, K / 4, block, 4), in tiles' order. Returns the corrections (N,) for 128."""
    outputs, inputs = weight.shape
    whole = np.zeros((padded(outputs, kind), inputs), np.int8)
    whole[:outputs] = weight
    packed[:] = whole.reshape(-1, kind.block, inputs // GROUP, GROUP).transpose(0, 2, 1, 3)
    corrections: NDArray[np.int32] = -ZERO_POINT * whole.sum(1, dtype=np.int32)
    return corrections
