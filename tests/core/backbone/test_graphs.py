"""When passes are recorded, and what happens where they cannot be; recording itself is in tests/gpu/check.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from medusa_core.backbone import graphs
from medusa_core.backbone.cache import Storage
from medusa_core.backbone.graphs import GraphPasses, Recording

SHAPE = (4, 512)


class Graph:
    """Stands in for a recorded graph."""

    def __init__(self, pool: Any) -> None:
        self.replays, self._pool = 0, pool or object()

    def pool(self) -> Any:
        return self._pool

    def replay(self) -> None:
        self.replays += 1


class Gpu:
    """Stands in for what records: notes the memory that recordings share, or fails."""

    def __init__(self) -> None:
        self.free = 8 * 2**30
        self.pools: list[Any] = []
        self.error: RuntimeError | None = None

    def record(self, device: torch.device, compute: Callable[[], torch.Tensor], pool: Any) -> Recording:
        self.pools.append(pool)
        if self.error is not None:
            raise self.error
        return Recording(Graph(pool), torch.full((1,), 7.0))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    machine = Gpu()
    monkeypatch.setattr(graphs, "record", machine.record)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (machine.free, 2 * machine.free))
    return machine


@pytest.fixture
def passes() -> GraphPasses:
    return GraphPasses(torch.device("cuda"))


def storage() -> Storage:
    return Storage(torch.zeros(1, 2, 1, 1, 512, 4))


def run(passes: GraphPasses, memory: Storage, shape: tuple[int, int] = SHAPE) -> float:
    return float(passes.run(memory, shape, lambda: torch.full((1,), 3.0)))


def test_a_shape_is_recorded_when_it_comes_again_and_then_replayed(gpu: Gpu, passes: GraphPasses) -> None:
    memory = storage()
    assert [run(passes, memory) for _ in range(4)] == [3.0, 7.0, 7.0, 7.0]
    assert len(gpu.pools) == 1
    assert memory.recordings[SHAPE].graph.replays == 3
    assert passes.reason == ""


def test_recordings_of_one_storage_share_memory_and_of_another_do_not(gpu: Gpu, passes: GraphPasses) -> None:
    first, second = storage(), storage()
    for shape in (SHAPE, (8, 512), (16, 512)):
        run(passes, first, shape)
        run(passes, first, shape)
    shared = first.recordings[SHAPE].graph.pool()
    assert gpu.pools == [None, shared, shared]
    assert run(passes, second) == 7.0  # known to come again
    assert gpu.pools[3] is None


def test_where_recording_fails_passes_are_computed_and_it_is_said(gpu: Gpu, passes: GraphPasses) -> None:
    memory, gpu.error = storage(), torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")
    assert [run(passes, memory) for _ in range(4)] == [3.0] * 4
    assert len(gpu.pools) == 1  # not tried again
    assert "(CUDA out of memory.)" in passes.reason


def test_where_memory_is_short_nothing_more_is_recorded_but_recordings_stay(gpu: Gpu, passes: GraphPasses) -> None:
    memory = storage()
    assert [run(passes, memory) for _ in range(2)] == [3.0, 7.0]
    gpu.free = 100 * 2**20
    assert [run(passes, memory, (8, 512)) for _ in range(3)] == [3.0] * 3
    assert run(passes, memory) == 7.0
    assert "only 100 MiB" in passes.reason


def test_the_number_of_recordings_is_bounded(gpu: Gpu, passes: GraphPasses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_MOST", 2)
    memory = storage()
    for rows in (1, 2, 4):
        for _ in range(2):
            run(passes, memory, (rows, 512))
    assert set(memory.recordings) == {(1, 512), (2, 512)}
    assert passes.reason == ""
