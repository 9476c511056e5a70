"""What a GGUF file says of itself before its weights: the architecture, and how many numbers each tensor holds.

Read in milliseconds, without the tokenizer's lists. Knows nothing of what the tensors are for or how they are packed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value by its type
_TEXT, _LIST = 8, 9
_LONGEST_NAME = 65_535  # bytes; more is no name
_MOST_DIMENSIONS = 8
_ARCHITECTURE = "general.architecture"


@dataclass(frozen=True, slots=True)
class GgufSizes:
    """The model in a GGUF file as memory sees it."""

    architecture: str
    parameters: int
    largest: int  # numbers of the largest tensor


def gguf_sizes(path: Path) -> GgufSizes | None:
    """The sizes; None for what cannot be read as GGUF, which reading the model says better."""
    try:
        with path.open("rb") as file:
            return _sizes(file)
    except (OSError, ValueError, struct.error, OverflowError):
        return None


def _sizes(file: BinaryIO) -> GgufSizes | None:
    if file.read(len(_MAGIC)) != _MAGIC or _number(file, "<I") not in _VERSIONS:
        return None
    tensors, values = _number(file, "<Q"), _number(file, "<Q")
    architecture = ""
    for _ in range(values):
        name, kind = _text(file), _number(file, "<I")
        if name == _ARCHITECTURE and kind == _TEXT:
            architecture = _text(file)
        else:
            _skip(file, kind)
    numbers = []
    for _ in range(tensors):
        _text(file)
        dimensions = _number(file, "<I")
        if dimensions > _MOST_DIMENSIONS:
            return None
        numbers.append(prod(struct.unpack(f"<{dimensions}Q", _exactly(file, 8 * dimensions))))
        _exactly(file, 12)  # how it is packed, and where it lies
    return GgufSizes(architecture, sum(numbers), max(numbers, default=0))


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _TEXT:
        file.seek(_number(file, "<Q"), 1)
    elif kind == _LIST:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        if inner in _FIXED:
            file.seek(count * _FIXED[inner], 1)
        else:
            for _ in range(count):
                _skip(file, inner)
    else:
        _exactly(file, _FIXED.get(kind, -1))


def _text(file: BinaryIO) -> str:
    size = _number(file, "<Q")
    if size > _LONGEST_NAME:
        raise ValueError(f"a name of {size} bytes")
    return _exactly(file, size).decode("utf-8", errors="replace")


def _number(file: BinaryIO, form: str) -> int:
    (found,) = struct.unpack(form, _exactly(file, struct.calcsize(form)))
    return int(found)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size) if size >= 0 else b""
    if len(data) != size:
        raise ValueError("the file ends early")
    return data
