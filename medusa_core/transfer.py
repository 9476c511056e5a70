"""Small numbers between the host and a GPU, without waiting for it. Knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import torch


def upload(values: Sequence[int], device: torch.device) -> torch.Tensor:
    """Whole numbers (T,) on the device; a GPU is not waited for."""
    return send(torch.tensor(values, dtype=torch.long), device)


def send(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on the device; a GPU is not waited for."""
    # Page-locked memory, which is not reused before the copy is done; from other memory copies wait for the GPU.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def download(tensor: torch.Tensor, before: Sequence[Any] = ()) -> Sequence[Any]:
    """`before` and the numbers of `tensor` (T,). From a GPU they are on their way; the first look waits for them."""
    return Arriving(tensor, before) if tensor.device.type == "cuda" else (*before, *tensor.tolist())


class Arriving(Sequence[Any]):
    """Numbers that a device is still computing; `tensor` holds them there."""

    def __init__(self, tensor: torch.Tensor, before: Sequence[Any] = ()) -> None:
        self.tensor, self._before = tensor, tuple(before)
        self._values: tuple[Any, ...] | None = None
        pinned = tensor.device.type == "cuda"
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
        self._host.copy_(tensor, non_blocking=True)
        self._done: Any = None
        if pinned:
            self._done = torch.cuda.Event()
            self._done.record(torch.cuda.current_stream(tensor.device))

    def __len__(self) -> int:
        return len(self._before) + self.tensor.shape[0]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if self._values is None:
            if self._done is not None:
                self._done.synchronize()
            self._values = (*self._before, *self._host.tolist())
        return self._values[index]
