"""Compile what grows a tree where numba is there; where it is not, the same runs as it is written, slowly.

Knows nothing of what is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from medusa_core.backbone.compiling import compiled
except (ImportError, OSError):  # numba is not there, or does not work here
    COMPILES = False

    def compiled(function: Callable[..., Any]) -> Any:
        """A decorator that leaves the function as it is."""
        return function

else:
    COMPILES = True

__all__ = ["COMPILES", "compiled"]
