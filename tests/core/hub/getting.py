"""How the Hub's tests run what takes long: downloads of the made-up model, imports, checks; all events kept."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from medusa_core.events import Progress
from medusa_core.hub.alone import LOCKS
from medusa_core.hub.check import CheckReport, check
from medusa_core.hub.client import HubClient
from medusa_core.hub.download import download
from medusa_core.hub.library import find

WEIGHTS = "model.safetensors"


def drain(work: Generator[Progress, None, Any]) -> tuple[list[Progress], Any]:
    events = []
    while True:
        try:
            events.append(next(work))
        except StopIteration as finished:
            return events, finished.value


def finish(work: Generator[Progress, None, Any]) -> Any:
    """What it comes to."""
    return drain(work)[1]


def get(client: HubClient, cache: Path, **options: Any) -> tuple[list[Progress], Path]:
    return drain(download(client, "Maker/Tiny", cache, **options))


def stage(cache: Path) -> Path:
    return cache / "Maker" / ".Tiny.download"


def models(cache: Path) -> list[str]:
    """What is in the folder of models, but for its locks."""
    return sorted(path.name for path in cache.iterdir() if path.name != LOCKS) if cache.is_dir() else []


def checked(cache: Path, name: str) -> CheckReport:
    report: CheckReport = finish(check(find(cache, name)))
    return report
