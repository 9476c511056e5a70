"""Kernels side by side on PyTorch's own threads: everyone has a share, and waits for the others where it says so."""

from __future__ import annotations

import sys

import numba
import numpy as np
import pytest

from medusa_core.backbone import threads


def shares(workers: int) -> list[float]:
    """What each worker saw of the others after they waited for each other; compiled anew, for this pool."""

    @numba.njit
    def look(seen, came, worker, workers):  # type: ignore[no-untyped-def]
        for turn in range(50):
            came[worker] = turn + 1
            threads.wait_for_all()
            least = came[0]
            for other in range(workers):
                least = min(least, came[other])
            seen[worker] += least == turn + 1
            threads.wait_for_all()

    @numba.njit
    def run(seen, came, workers):  # type: ignore[no-untyped-def]
        threads.in_parallel(look, (seen, came), workers)

    seen, came = np.zeros(4), np.zeros(4)
    run(seen, came, workers)
    return seen.tolist()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere PyTorch may come without threads to share")
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_worker_runs_and_waits_for_all(workers: int) -> None:
    assert threads.POOL == "gnu"
    assert shares(workers) == [50.0] * workers + [0.0] * (4 - workers)


def test_without_a_pool_one_worker_does_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "POOL", "")
    assert shares(3) == [50.0, 0.0, 0.0, 0.0]


def test_a_library_without_the_functions_is_not_taken() -> None:
    assert not threads.found(None, ("no_such_function_at_all",))
    assert not threads.found("no-such-library.so", ("omp_get_thread_num",))
