"""Passes of fixed shapes recorded as CUDA graphs and replayed: one launch instead of hundreds.

A shape is recorded when it comes for the second time, on a side stream, into memory that the recordings of a cache
share. Where that fails, or memory runs short, passes go on one operation after the other, and `reason` says why.
Knows nothing of models: what a pass computes is given to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from medusa_core.backbone.cache import Storage
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.static import Passes, StaticBackbone

_MOST = 96  # recordings of one storage: every size of a pass in most buckets
_LEAST_FREE_BYTES = 512 * 2**20  # that the rest of the program may still need
_WARM_UP = 2  # libraries choose their kernels and take their workspaces in the first runs, which cannot be recorded


@dataclass(frozen=True, slots=True)
class Recording:
    """A pass that can be replayed."""

    graph: Any
    output: torch.Tensor  # written by every replay


class GraphPasses:
    """Replays recordings, one thread at a time; makes them where they pay."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._met: set[tuple[int, int]] = set()
        self.reason = ""

    def run(self, storage: Storage, shape: tuple[int, int], compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Replay, else record and replay, else compute."""
        recording = storage.recordings.get(shape)
        if recording is None and self._pays(storage, shape):
            recording = self._record(storage, compute)
            if recording is not None:
                storage.recordings[shape] = recording
        if recording is None:
            return compute()
        recording.graph.replay()
        output: torch.Tensor = recording.output
        return output

    def _pays(self, storage: Storage, shape: tuple[int, int]) -> bool:
        if self.reason or len(storage.recordings) >= _MOST:
            return False
        if shape not in self._met:
            self._met.add(shape)
            return False
        free = torch.cuda.mem_get_info(self._device)[0]
        if free < _LEAST_FREE_BYTES:
            self.reason = f"only {free / 2**20:.0f} MiB of the GPU's memory are free, so no further pass is recorded"
        return not self.reason

    def _record(self, storage: Storage, compute: Callable[[], torch.Tensor]) -> Recording | None:
        # All recordings of a storage share memory: results are copied before the next replay.
        pool = next((other.graph.pool() for other in storage.recordings.values()), None)
        try:
            return record(self._device, compute, pool)
        except RuntimeError as error:  # among them torch.OutOfMemoryError
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.reason = f"recording a pass failed ({said}), so passes are computed"
            return None


def record(device: torch.device, compute: Callable[[], torch.Tensor], pool: Any) -> Recording:
    """A recording of `compute`, which runs a few times before; that must not change what comes out.

    `pool`: the memory of other recordings, None for its own. Raises RuntimeError where it cannot be recorded.
    """
    here: Any = torch.cuda.current_stream(device)
    side: Any = _side_stream(device)
    graph: Any = torch.cuda.CUDAGraph()
    try:
        side.wait_stream(here)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                compute()
        here.wait_stream(side)
        # Thread-local: what other threads do with the GPU meanwhile does not break the recording.
        with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
            output = compute()
    except RuntimeError:
        torch.cuda.set_stream(here)  # a recording that broke off leaves its own stream behind
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        raise
    return Recording(graph, output)


@cache
def _side_stream(device: torch.device) -> Any:
    """One for all models: libraries keep a workspace for every stream that they have met."""
    return torch.cuda.Stream(device)


def static_backbone(lean: LeanBackbone) -> StaticBackbone:
    """Passes of fixed shapes over a lean model on a GPU, recorded."""
    passes: Passes = GraphPasses(lean.device)
    return StaticBackbone(lean, passes)
