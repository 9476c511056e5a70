"""What a measurement was made on: processor, threads, memory, system, versions. Knows nothing of measurements."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import torch

_PACKAGES = ("torch", "transformers", "numba", "numpy", "llama-cpp-python")


def describe_machine() -> dict[str, Any]:
    """As plain data."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "cpu": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "load_average": _load(),
        "ram_bytes": psutil.virtual_memory().total,
        "gpu": gpu,
        "os": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }


def usable_cores() -> int:
    """Those this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _load() -> float | None:
    """Of the last minute: well above nothing before a measurement, it was not alone on the machine."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
