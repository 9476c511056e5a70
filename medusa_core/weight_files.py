"""What the headers of weight files say: names, shapes and dtypes of tensors, without reading the weights.

Knows nothing of models, devices or precisions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import ModelUnsupported

_LONGEST_HEADER = 100 * 2**20  # as the format has it


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """One tensor of a file."""

    dtype: str  # as the file says it: "BF16", "F32", ...
    shape: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


def read_header(path: Path) -> dict[str, TensorHeader]:
    """The tensors of a safetensors file, by name. Raises ModelUnsupported where the file is damaged or cut off."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise ModelUnsupported(_damaged(path, "its header is cut off"))
            header = json.loads(file.read(length))
        return _tensors(path, header, size - 8 - length)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, ModelUnsupported):
            raise
        raise ModelUnsupported(_damaged(path, f"its header cannot be read ({error})")) from error


def folder_tensors(folder: Path) -> dict[str, TensorHeader]:
    """The tensors of a model folder's weights."""
    found: dict[str, TensorHeader] = {}
    for path in weight_files(folder):
        found |= read_header(path)
    return found


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model: those called so, whatever else lies beside them; else all there are."""
    return sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))


def _tensors(path: Path, header: Mapping[str, Any], size: int) -> dict[str, TensorHeader]:
    tensors, end = {}, 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensors[name] = TensorHeader(str(entry["dtype"]), tuple(int(length) for length in entry["shape"]))
        end = max(end, int(entry["data_offsets"][1]))
    if end != size:
        raise ModelUnsupported(_damaged(path, f"it holds {size:,} bytes of weights where its header says {end:,}"))
    return tensors


def _damaged(path: Path, reason: str) -> str:
    return f"{path} is damaged: {reason}. Get the model again."
