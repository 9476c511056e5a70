"""How numba compiles the kernels of the int8 pass, and where it keeps what it compiled.

Knows nothing of what they compute.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba

from medusa_core.backbone.threads import POOL

_config: Any = numba.config
_HERE = Path(__file__).parent
_SOURCES = (
    "attention",
    "compiling",
    "fetching",
    "fused",
    "int8_pass",
    "kernels",
    "loops",
    "picking_kernel",
    "placing",
    "products",
    "rotation",
    "threads",
    "turning",
    "weighted",
)


def _build() -> str:
    text = b"".join((_HERE / f"{name}.py").read_bytes() for name in _SOURCES) + POOL.encode()
    return hashlib.sha256(text).hexdigest()[:12]


BUILD = _build()  # of the kernels: another one may take another time


@cache
def _kept_in(room: Path) -> str:
    """A folder for this very text of a room's kernels and these threads; "" where nothing can be written.

    numba looks only at the file of the function itself, and would go on using what was compiled from older callees:
    those of other rooms may be any of their own files, and these kernels.
    """
    import platformdirs

    build = BUILD
    if room != _HERE:
        texts = [path.read_bytes() for path in sorted(room.glob("*.py"))]
        build = hashlib.sha256(b"".join((*texts, BUILD.encode()))).hexdigest()[:12]
    beside, users = room / "__pycache__", Path(platformdirs.user_cache_dir("medusa-chat", appauthor=False))
    for parent in (beside, users / "kernels" / room.name):
        folder = parent / f"kernels-{build}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            _forget_others(folder)
            return str(folder)
    return ""


def _forget_others(folder: Path) -> None:
    """Code of older kernels is never looked up again. Another program that still runs has loaded its own."""
    for other in folder.parent.glob("kernels-*"):
        if other != folder and other.is_dir():
            shutil.rmtree(other, ignore_errors=True)


def features() -> dict[str, bool]:
    """What the processor can do; nothing where numba compiles for another one than this, or for less of it."""
    if _config.CPU_NAME is not None or _config.CPU_FEATURES is not None or not _config.ENABLE_AVX:
        return {}
    return dict(llvmlite.binding.get_host_cpu_features())


def compiled(function: Callable[..., Any]) -> Any:
    """A decorator: compile when first called, for the argument types of that call; keep it for the next start.

    Exactly in the order written. Were sums regrouped, or products fused into them as the compiler likes, then how
    would depend on what else it sees: a row would change with the number of rows, and a reply from the first start
    to the second. Where an order must be fast, it is written out (`weighted.py`).
    """
    options: dict[str, Any] = {
        "nopython": True,
        "nogil": True,
        "boundscheck": False,
        "error_model": "numpy",
        "fastmath": {"nnan", "nsz"},
    }
    folder = _kept_in(Path(function.__code__.co_filename).parent)
    if not folder:
        return numba.jit(**options)(function)
    before, _config.CACHE_DIR = _config.CACHE_DIR, folder
    try:
        return numba.jit(**options, cache=True)(function)
    finally:
        _config.CACHE_DIR = before
