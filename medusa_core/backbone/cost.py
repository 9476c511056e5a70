"""How long a pass of the model takes by number of rows, measured once for a machine and kept in the user's cache.

A verification pass of a tree with n draft nodes has n + 1 rows; a plain step has one. Times depend on the device, the
precision, the number of threads and the libraries' versions, so all of them are the key of what is kept.
Knows nothing of heads or trees: what drafting costs is measured by calling what it is given.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.base import Backbone, Cache
from medusa_core.errors import StatisticsError
from medusa_core.events import Progress

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
CONTEXTS = (128, 1024)
_FORMAT = "medusa-costs"
_VERSION = 1
_STAGE = "Measuring the cost of a pass"
_FILL_CHUNK = 256
_ROUNDS = 7  # the median of so many, where there is time
_LEAST_ROUNDS = 3
_ROUNDS_SECONDS = 3.5  # for one context: after that no further round is begun
# In the order of what is most worth knowing: a root and most numbers of draft nodes that are chosen from.
_BRIEF_ROWS = (1, 17, 5, 9, 3, 33, 7, 2, 4, 13, 6, 11, 25, 8, 65)
_BRIEF_CONTEXT = 128
_BRIEF_SECONDS = 0.6


@dataclass(frozen=True)
class CostTable:
    """Seconds of a pass by rows and cached context, and of one draft by the heads."""

    key: tuple[tuple[str, str], ...]  # what the times hold for: model, device, precision, threads, versions
    rows: tuple[int, ...]  # ascending
    contexts: tuple[int, ...]  # ascending
    passes: tuple[tuple[float, ...], ...]  # [context][rows]: forward, output head, the model's choices, keeping a path
    draft_seconds: float  # the heads' pass and its guesses; 0.0 without heads

    def __post_init__(self) -> None:
        for name, values in (("rows", self.rows), ("contexts", self.contexts)):
            if not values or list(values) != sorted(set(values)) or values[0] < 0:
                raise StatisticsError(f"'{name}' must be ascending numbers; they are {list(values)}")
        if len(self.passes) != len(self.contexts) or any(len(times) != len(self.rows) for times in self.passes):
            raise StatisticsError("'passes' must hold one time for every number of rows at every context")
        times = [seconds for row in self.passes for seconds in row]
        if not all(math.isfinite(value) and value > 0 for value in times) or not 0 <= self.draft_seconds < math.inf:
            raise StatisticsError("a pass takes more than no time, and a finite one")

    def seconds(self, rows: int, context: int) -> float:
        """Of a pass of `rows` rows over `context` cached ones: linear between what was measured.

        Beyond it the last slope goes on, where it rises; below it the first value stands.
        """
        by_context = [_interpolate(self.rows, times, rows) for times in self.passes]
        return _interpolate(self.contexts, by_context, context)

    def step_seconds(self, draft_nodes: int, context: int, overhead: float = 0.0) -> float:
        """Of a step: the pass over the root and the draft nodes, the heads where there are any, and `overhead`."""
        drafting = self.draft_seconds if draft_nodes else 0.0
        return self.seconds(draft_nodes + 1, context) + drafting + overhead

    def to_json(self) -> str:
        """The file's text."""
        data = {
            "format": _FORMAT,
            "version": _VERSION,
            "key": dict(self.key),
            "rows": list(self.rows),
            "contexts": list(self.contexts),
            "passes": [list(times) for times in self.passes],
            "draft_seconds": self.draft_seconds,
        }
        return json.dumps(data, indent=2)

    @classmethod
    def from_json(cls, text: str) -> CostTable:
        """Read `to_json`'s form. Raises StatisticsError saying what is wrong."""
        try:
            data: Any = json.loads(text)
            if (data["format"], data["version"]) != (_FORMAT, _VERSION):
                raise StatisticsError(f"format {data['format']!r}, version {data['version']!r}: not what is read here")
            return cls(
                key=_key(data["key"]),
                rows=tuple(int(rows) for rows in data["rows"]),
                contexts=tuple(int(context) for context in data["contexts"]),
                passes=tuple(tuple(float(seconds) for seconds in times) for times in data["passes"]),
                draft_seconds=float(data["draft_seconds"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StatisticsError(f"the table of costs is broken: {error}") from error


def cost_key(backbone: Backbone, precision: str, drafter: str) -> dict[str, str]:
    """What a table holds for. `drafter` describes the heads: their kind and sizes."""
    device = backbone.device
    return {
        "model": backbone.spec.fingerprint,
        "pass": f"{type(backbone).__name__} {getattr(backbone, 'build', '')}".strip(),
        "precision": precision,
        "drafter": drafter,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        **({"gpus": str(backbone.spec.gpus)} if backbone.spec.gpus > 1 else {}),
        "threads": str(torch.get_num_threads()),
        **{name: _version(name) for name in ("torch", "numba", "transformers")},
    }


def costs(
    backbone: Backbone, draft: Callable[[torch.Tensor], object] | None, key: Mapping[str, str], folder: Path
) -> Generator[Progress, None, CostTable]:
    """The table for `key`: read from the cache `folder`, else measured and kept there.

    A kept table that is damaged, or that holds for something else, is measured again.
    """
    if (kept := _kept(key, folder)) is not None:
        return kept
    table = yield from measure(backbone, draft, key)
    _keep(table, folder)
    return table


def brief_costs(
    backbone: Backbone, draft: Callable[[torch.Tensor], object] | None, key: Mapping[str, str], folder: Path
) -> Generator[Progress, None, CostTable]:
    """The table for `key`, had within about a second: the careful one where it is kept, else a rougher one."""
    rough = {**key, "measured": "briefly"}
    kept = _kept(key, folder) or _kept(rough, folder)
    if kept is not None:
        return kept
    yield Progress(_STAGE, 0, 1)
    table = _measure_briefly(backbone, draft, rough)
    _keep(table, folder)
    yield Progress(_STAGE, 1, 1)
    return table


def _kept(key: Mapping[str, str], folder: Path) -> CostTable | None:
    try:
        table = CostTable.from_json(_path(key, folder).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, StatisticsError):
        return None  # a cache: whatever is wrong with it, measuring again mends it
    return table if dict(table.key) == dict(key) else None


def _keep(table: CostTable, folder: Path) -> None:
    path = _path(dict(table.key), folder)
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(table.to_json() + "\n", encoding="utf-8")
    os.replace(part, path)


def _path(key: Mapping[str, str], folder: Path) -> Path:
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()[:16]
    return folder / f"{digest}.json"


def measure(
    backbone: Backbone,
    draft: Callable[[torch.Tensor], object] | None,
    key: Mapping[str, str],
    *,
    rows: Sequence[int] = ROWS,
    contexts: Sequence[int] = CONTEXTS,
) -> Generator[Progress, None, CostTable]:
    """Time passes over random tokens, as far as they fit into the model's context; medians.

    `draft` is given the hidden state (H,) that a root was chosen from.
    """
    size = backbone.spec.context_size
    rows = tuple(count for count in rows if count <= size)
    contexts = tuple(sorted({min(context, size - rows[-1]) for context in contexts}))
    total = len(contexts) * _ROUNDS
    passes = []
    for number, context in enumerate(contexts):
        yield Progress(_STAGE, number * _ROUNDS, total)
        timer = _Timer(backbone, context)
        passes.append((yield from timer.medians(rows, number * _ROUNDS, total)))
    drafting = 0.0 if draft is None else timer.draft_seconds(draft)
    yield Progress(_STAGE, total, total)
    return CostTable(_key(key), rows, contexts, tuple(passes), drafting)


def _measure_briefly(
    backbone: Backbone, draft: Callable[[torch.Tensor], object] | None, key: Mapping[str, str]
) -> CostTable:
    """Few rows, one context; a slow model is timed at fewer rows, two at least where its context has room for them."""
    size = backbone.spec.context_size
    wanted = [rows for rows in _BRIEF_ROWS if rows <= size]
    context = min(_BRIEF_CONTEXT, size - max(wanted))
    started = time.perf_counter()
    timer = _Timer(backbone, context)
    times: dict[int, list[float]] = {}
    for _ in range(_ROUNDS):
        for rows in wanted:
            if len(times) >= 2 and time.perf_counter() - started > _BRIEF_SECONDS:
                break
            if rows not in times:
                timer.pass_seconds(rows)  # the first pass of a shape prepares what later ones use
            times.setdefault(rows, []).append(timer.pass_seconds(rows))
    measured = tuple(sorted(times))
    passes = tuple(min(times[rows]) for rows in measured)  # of a few, the least disturbed one
    return CostTable(_key(key), measured, (context,), (passes,), 0.0 if draft is None else timer.draft_seconds(draft))


class _Timer:
    """Times passes over one filled cache, which every pass leaves as it was."""

    @torch.inference_mode()
    def __init__(self, backbone: Backbone, context: int) -> None:
        self._backbone, self._context = backbone, context
        self._cache: Cache = backbone.new_cache()
        self._hidden = torch.zeros(backbone.spec.hidden_size, dtype=backbone.dtype, device=backbone.device)
        self._ids = torch.randint(
            min(backbone.spec.vocab_size, 1000),
            (max(context, *ROWS, *_BRIEF_ROWS),),
            generator=torch.Generator().manual_seed(0),
        ).to(backbone.device)
        for start in range(0, context, _FILL_CHUNK):
            ids = self._ids[start : min(start + _FILL_CHUNK, context)]
            positions = torch.arange(start, start + len(ids), device=ids.device)
            self._hidden = backbone.forward(ids, positions, None, self._cache)[-1]

    def medians(self, rows: Sequence[int], done: int, total: int) -> Generator[Progress, None, tuple[float, ...]]:
        """Round after round over all numbers of rows, so that a disturbance spreads over all of them."""
        times: list[list[float]] = [[] for _ in rows]
        for count in rows:
            self.pass_seconds(count)  # the first pass of a shape prepares what later ones use
        started = time.perf_counter()
        for number in range(_ROUNDS):
            if number >= _LEAST_ROUNDS and time.perf_counter() - started > _ROUNDS_SECONDS:
                break
            for count, found in zip(rows, times, strict=True):
                found.append(self.pass_seconds(count))
            yield Progress(_STAGE, done + number + 1, total)
        return tuple(statistics.median(found) for found in times)

    @torch.inference_mode()
    def draft_seconds(self, draft: Callable[[torch.Tensor], object]) -> float:
        """The median time of one draft."""
        times = []
        for _ in range(2 + 3 * _ROUNDS):
            self._synchronize()
            started = time.perf_counter()
            draft(self._hidden)
            self._synchronize()
            times.append(time.perf_counter() - started)
        return statistics.median(times[2:])

    @torch.inference_mode()
    def pass_seconds(self, rows: int) -> float:
        """A root with rows - 1 children: scored, the model's choices taken, the root and the last child kept."""
        device, context = self._backbone.device, self._context
        mask = torch.eye(rows, dtype=torch.bool, device=device)
        mask[:, 0] = True
        positions = torch.full((rows,), context + 1, device=device)
        positions[0] = context
        self._synchronize()
        started = time.perf_counter()
        hidden = self._backbone.forward(self._ids[:rows], positions, mask, self._cache)
        self._backbone.logits(hidden).argmax(-1).tolist()
        self._cache.keep(context, sorted({0, rows - 1}))
        self._synchronize()
        seconds = time.perf_counter() - started
        self._cache.crop(context)
        return seconds

    def _synchronize(self) -> None:
        if self._backbone.device.type == "cuda":
            torch.cuda.synchronize(self._backbone.device)


def _interpolate(points: Sequence[int], values: Sequence[float], point: int) -> float:
    if point <= points[0] or len(points) == 1:
        # One measured context stands for all; fewer rows than measured cannot be had.
        return values[0]
    last = next((i for i in range(1, len(points)) if point <= points[i]), len(points) - 1)
    slope = (values[last] - values[last - 1]) / (points[last] - points[last - 1])
    if point > points[-1]:
        return values[-1] + max(slope, 0.0) * (point - points[-1])
    return values[last - 1] + slope * (point - points[last - 1])


def _key(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(name), str(value)) for name, value in values.items()))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _processor() -> str:
    """The processor's name where the system says it, else its kind."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {os.cpu_count()} cores"
    except OSError:
        pass
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
