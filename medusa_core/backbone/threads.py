"""Run one kernel on PyTorch's own threads, side by side.

numba has thread pools of its own; their threads and PyTorch's, which go on spinning for a while after each operation,
would fight for the same cores. Here the kernel is started through the OpenMP library that PyTorch has loaded already.
Where that is not GNU's (macOS, Windows), kernels run on one thread. Knows nothing of what kernels compute.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_SYMBOLS = ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads")


def _find_pool() -> bool:
    """Make the OpenMP library that PyTorch has loaded known to the compiler."""
    if not torch.backends.openmp.is_available():
        return False
    try:
        library = ctypes.CDLL(None)
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _SYMBOLS]
    except (AttributeError, OSError, TypeError):  # not GNU's, or not open to others
        return False
    for name, address in zip(_SYMBOLS, addresses, strict=True):
        llvmlite.binding.add_symbol(name, address)
    return True


SHARED = _find_pool()


def _in_parallel(typing_context: Any, kernel: Any, arguments: Any, workers: Any) -> Any:
    """kernel(*arguments, worker, count) for every worker of `count`; `count` is `workers`, or fewer were to be had."""
    call = kernel.get_call_type(typing_context, (*arguments.types, types.intp, types.intp), {})

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        compiled = signature.args[0].dispatcher.get_compile_result(call)
        context.add_linking_libs((compiled.library,))
        if SHARED:
            held = cgutils.alloca_once_value(builder, values[1])
            body = _region(context, builder.module, compiled.fndesc, call, values[1].type)
            pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            start = _external(builder.module, "GOMP_parallel", ir.VoidType(), [body.type, pointer, word, word])
            count = builder.trunc(values[2], word)
            builder.call(start, [body, builder.bitcast(held, pointer), count, ir.Constant(word, 0)])
        else:
            alone = [ir.Constant(ir.IntType(64), 0), ir.Constant(ir.IntType(64), 1)]
            unpacked = cgutils.unpack_tuple(builder, values[1])
            context.call_internal_no_propagate(builder, compiled.fndesc, call, [*unpacked, *alone])
        return context.get_dummy_value()

    return types.void(kernel, arguments, types.intp), generate


def _wait_for_all(_context: Any) -> Any:
    """Within a kernel run by `in_parallel`: go on when all workers have come this far."""

    def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
        if SHARED:
            builder.call(_external(builder.module, "GOMP_barrier", ir.VoidType(), []), [])
        return context.get_dummy_value()

    return types.void(), generate


in_parallel: Any = intrinsic(_in_parallel)
wait_for_all: Any = intrinsic(_wait_for_all)


def _region(context: Any, module: Any, kernel: Any, call: Any, packed: Any) -> Any:
    """The function void(void *arguments) that each thread of the region runs."""
    shape = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    function = ir.Function(module, shape, name=module.get_unique_name("parallel_region"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    arguments = builder.load(builder.bitcast(function.args[0], packed.as_pointer()))
    place = [
        builder.sext(builder.call(_external(module, name, ir.IntType(32), []), []), ir.IntType(64))
        for name in ("omp_get_thread_num", "omp_get_num_threads")
    ]
    unpacked = cgutils.unpack_tuple(builder, arguments)
    context.call_internal_no_propagate(builder, kernel, call, [*unpacked, *place])
    builder.ret_void()
    return function


def _external(module: Any, name: str, returns: Any, takes: list[Any]) -> Any:
    return cgutils.get_or_insert_function(module, ir.FunctionType(returns, takes), name)
