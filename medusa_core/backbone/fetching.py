"""What memory is asked for while the processor is busy with numbers that it has.

Between two products of the int8 pass memory would rest, and a product waits for memory: a few lines of the weights
that come next, asked for step by step in the meantime, are in the second cache when they are needed. They are spread
evenly over all of these weights, so that memory has less to do during the whole of the product, and none of it is
idle first. Knows nothing of what is computed meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from medusa_core.backbone.compiling import compiled

LINE = 64  # bytes that memory brings at once
_MOST = 6144  # lines at a time, which the second cache has room for beside what else is in it
_NEXT, _STOP, _THEN, _LAST, _APART = range(5)  # what `wanted` holds
NOTHING = (0, 0, 0, 0)  # to be asked for


def fetch(builder: Any, address: Any, locality: int = 2) -> None:
    """Ask for the line at an address: into the second cache, close to the processor with 3, used but once with 0."""
    bytes_, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [bytes_, flag, flag, flag])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(ask, [builder.inttoptr(address, bytes_), *(ir.Constant(flag, number) for number in (0, locality, 1))])


@compiled
def spread_over(ahead, steps):  # type: ignore[no-untyped-def]
    """What `next_lines` hands out in about so many steps, of two ranges of addresses, `ahead`: first, last, twice.

    Returns `wanted`, (5,) int64: where the next line is and where its range ends, the other range, and how far apart
    lines are.
    """
    wanted = np.empty(5, np.int64)
    wanted[_NEXT], wanted[_STOP], wanted[_THEN], wanted[_LAST] = ahead
    size = ahead[1] - ahead[0] + ahead[3] - ahead[2]
    lines = max(1, min(steps, _MOST))
    wanted[_APART] = max((size // LINE + lines - 1) // lines, 1) * LINE
    return wanted


@compiled
def next_lines(wanted, steps, at_hand):  # type: ignore[no-untyped-def]
    """Where to ask for one line in each of the next `steps`, and how far apart; `at_hand` where nothing is wanted.

    The last of a range may lie beyond it, by less than these steps.
    """
    if wanted[_NEXT] >= wanted[_STOP]:
        wanted[_NEXT], wanted[_STOP], wanted[_THEN] = wanted[_THEN], wanted[_LAST], wanted[_LAST]
    ahead = wanted[_NEXT]
    if ahead >= wanted[_STOP]:
        return at_hand, 0
    wanted[_NEXT] += steps * wanted[_APART]
    return ahead, wanted[_APART]
