"""What the package offers, and what importing it costs: no PyTorch until it is needed, and never Qt."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import medusa_core

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "tokenizers", "numpy", "PySide6", "shiboken6", "pyqtgraph")

# What the app needs before its window has painted, and what a log can be read with.
LIGHT = [
    "config",
    "errors",
    "events",
    "hub",
    "metrics",
    "model_info",
    "opening",
    "testing",
    "text",
    "tiny",
    "tree",
    "tree_search",
    "train.prompts",
]


def loaded_after(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after running `code`."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout.splitlines()[-1]))


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert medusa_core.__all__ == sorted(set(medusa_core.__all__))
    for name in medusa_core.__all__:
        assert getattr(medusa_core, name) is not None


def test_all_holds_every_public_name() -> None:
    modules = {module.name for module in pkgutil.iter_modules(medusa_core.__path__)}
    public = {name for name in vars(medusa_core) if not name.startswith("_")} - modules
    assert public == set(medusa_core.__all__)


@pytest.mark.parametrize(
    "modules", [["medusa_core"], [f"medusa_core.{name}" for name in LIGHT]], ids=["package", "rooms"]
)
def test_importing_loads_nothing_heavy(modules: list[str]) -> None:
    loaded = loaded_after(f"import {', '.join(modules)}")
    assert "medusa_core" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_making_up_a_reply_needs_no_torch() -> None:
    code = "from medusa_core.testing import ReplayChat, scripted_reply\nReplayChat(scripted_reply(3))"
    assert loaded_after(code).isdisjoint(HEAVY)


def test_no_room_of_the_library_loads_qt() -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(medusa_core.__path__, "medusa_core.")
        if not module.name.endswith("__main__")
    ]
    assert "medusa_core.acceptance.typical" in names
    loaded = loaded_after(f"import {', '.join(names)}")
    assert "torch" in loaded
    assert loaded.isdisjoint({"PySide6", "shiboken6", "pyqtgraph", "qtawesome", "app"})
