"""Loops of generated code, for kernels that are written instruction by instruction.

Knows nothing of what is done in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

_INDEX = ir.IntType(64)
_Body = Callable[[Any, list[Any]], Sequence[Any]]


def repeat(
    builder: Any, count: Any, step: int, body: _Body, carried: Sequence[Any] = (), *, some: bool = False
) -> list[Any]:
    """for first in range(0, count, step): carried = body(first, carried). Returns what is carried at the end.

    `some`: the count is above 0, which is not looked at then.
    """
    before = builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    if some:
        builder.branch(loop)
    else:
        builder.cbranch(builder.icmp_signed(">", count, ir.Constant(_INDEX, 0)), loop, done)
    builder.position_at_end(loop)
    first = builder.phi(_INDEX)
    held = [builder.phi(value.type) for value in carried]
    new = list(body(first, held))
    last = builder.block
    following = builder.add(first, ir.Constant(_INDEX, step))
    first.add_incoming(ir.Constant(_INDEX, 0), before)
    first.add_incoming(following, last)
    for value, start, changed in zip(held, carried, new, strict=True):
        value.add_incoming(start, before)
        value.add_incoming(changed, last)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    if some:
        return new
    results = [builder.phi(value.type) for value in carried]
    for result, start, changed in zip(results, carried, new, strict=True):
        result.add_incoming(start, before)
        result.add_incoming(changed, last)
    return results
