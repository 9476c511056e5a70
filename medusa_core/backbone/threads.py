"""Run one kernel on PyTorch's own threads, side by side.

numba has thread pools of its own; their threads and PyTorch's, which go on spinning for a while after each operation,
would fight for the same cores. Here the kernel is started through the OpenMP library that PyTorch has loaded already:
GNU's (Linux), or LLVM's and Intel's, which speak one language (macOS, Windows). Without either, kernels run on one
thread. Knows nothing of what kernels compute.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_OWN = ("omp_get_thread_num", "omp_get_num_threads")
_GNU = ("GOMP_parallel", "GOMP_barrier")
_LLVM = ("__kmpc_fork_call", "__kmpc_push_num_threads", "__kmpc_global_thread_num", "__kmpc_barrier")
_LLVM_FILES = ("libomp.dylib", "libiomp5md.dll", "libiomp5.so", "libomp.so")  # beside PyTorch's other libraries
_POINTER, _WORD, _INDEX, _VOID = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64), ir.VoidType()


def found(library: str | None, names: tuple[str, ...]) -> bool:
    """Make functions of a loaded library (None: of the program itself) known to the compiler, if all are there."""
    try:
        opened = ctypes.CDLL(library)
        addresses = [ctypes.cast(getattr(opened, name), ctypes.c_void_p).value for name in names]
    except (AttributeError, OSError, TypeError):
        return False
    for name, address in zip(names, addresses, strict=True):
        llvmlite.binding.add_symbol(name, address)
    return True


def _pool() -> str:
    """Whose threads PyTorch runs on: "gnu", "llvm", or "" where they cannot be shared."""
    if not torch.backends.openmp.is_available():
        return ""
    if sys.platform.startswith("linux") and found(None, _GNU + _OWN):
        return "gnu"
    folder = Path(torch.__file__).parent / "lib"
    files = [str(folder / name) for name in _LLVM_FILES if (folder / name).is_file()]
    return "llvm" if any(found(file, _LLVM + _OWN) for file in files) else ""


POOL = _pool()


def _in_parallel(typing_context: Any, kernel: Any, arguments: Any, workers: Any) -> Any:
    """kernel(*arguments, worker, count) for every worker of `count`; `count` is `workers`, or fewer were to be had.

    The kernel must not raise: nobody would hear of it, and the other workers would wait for it.
    """
    call = kernel.get_call_type(typing_context, (*arguments.types, types.intp, types.intp), {})

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        compiled = signature.args[0].dispatcher.get_compile_result(call)
        context.add_linking_libs((compiled.library,))
        if POOL:
            held = builder.bitcast(cgutils.alloca_once_value(builder, values[1]), _POINTER)
            body = _region(context, builder.module, compiled.fndesc, call, values[1].type)
            _start(builder, body, held, builder.trunc(values[2], _WORD))
        else:
            alone = [ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 1)]
            unpacked = cgutils.unpack_tuple(builder, values[1])
            context.call_internal_no_propagate(builder, compiled.fndesc, call, [*unpacked, *alone])
        return context.get_dummy_value()

    return types.void(kernel, arguments, types.intp), generate


def _start(builder: Any, body: Any, held: Any, count: Any) -> None:
    module = builder.module
    if POOL == "gnu":
        start = _external(module, "GOMP_parallel", _VOID, [body.type, _POINTER, _WORD, _WORD])
        builder.call(start, [body, held, count, ir.Constant(_WORD, 0)])
        return
    place = _place(module)
    push = _external(module, "__kmpc_push_num_threads", _VOID, [place.type, _WORD, _WORD])
    builder.call(push, [place, _thread(builder, place), count])
    kind = ir.FunctionType(_VOID, [place.type, _WORD, _POINTER], var_arg=True)
    fork = cgutils.get_or_insert_function(module, kind, "__kmpc_fork_call")
    builder.call(fork, [place, ir.Constant(_WORD, 1), builder.bitcast(body, _POINTER), held])


def _wait_for_all(_context: Any) -> Any:
    """Within a kernel run by `in_parallel`: go on when all workers have come this far."""

    def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
        if POOL == "gnu":
            builder.call(_external(builder.module, "GOMP_barrier", _VOID, []), [])
        elif POOL:
            place = _place(builder.module)
            wait = _external(builder.module, "__kmpc_barrier", _VOID, [place.type, _WORD])
            builder.call(wait, [place, _thread(builder, place)])
        return context.get_dummy_value()

    return types.void(), generate


in_parallel: Any = intrinsic(_in_parallel)
wait_for_all: Any = intrinsic(_wait_for_all)


def _place(module: Any) -> Any:
    """What LLVM's library is told of the place in the source that calls it: nothing."""
    name = "medusa_openmp_place"
    if name in module.globals:
        return module.globals[name]
    text = cgutils.global_constant(
        module, "medusa_openmp_text", ir.Constant(ir.ArrayType(ir.IntType(8), 9), bytearray(b";;;0;0;;\0"))
    )
    kind = ir.LiteralStructType([_WORD] * 4 + [_POINTER])
    place = ir.GlobalVariable(module, kind, name)
    place.linkage, place.global_constant = "internal", True
    compiled_by_llvm = 2
    place.initializer = ir.Constant(kind, [0, compiled_by_llvm, 0, 8, text.bitcast(_POINTER)])
    return place


def _thread(builder: Any, place: Any) -> Any:
    return builder.call(_external(builder.module, "__kmpc_global_thread_num", _WORD, [place.type]), [place])


def _region(context: Any, module: Any, kernel: Any, call: Any, packed: Any) -> Any:
    """What each thread of the region runs: void(void *arguments), for LLVM after two pointers to its own number."""
    takes = [_POINTER] if POOL == "gnu" else [_WORD.as_pointer(), _WORD.as_pointer(), _POINTER]
    function = ir.Function(module, ir.FunctionType(_VOID, takes), name=module.get_unique_name("parallel_region"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    arguments = builder.load(builder.bitcast(function.args[-1], packed.as_pointer()))
    place = [builder.sext(builder.call(_external(module, name, _WORD, []), []), _INDEX) for name in _OWN]
    unpacked = cgutils.unpack_tuple(builder, arguments)
    context.call_internal_no_propagate(builder, kernel, call, [*unpacked, *place])
    builder.ret_void()
    return function


def _external(module: Any, name: str, returns: Any, takes: list[Any]) -> Any:
    return cgutils.get_or_insert_function(module, ir.FunctionType(returns, takes), name)
