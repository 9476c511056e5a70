"""The import contract in pyproject.toml names every room, so that a new one cannot slip past it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def layers() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    ordered = next(contract for contract in contracts if contract["type"] == "layers")
    return {name for layer in ordered["layers"] for name in re.findall(r"[\w.]+", layer)}


@pytest.mark.parametrize("package", ["app", "medusa_core"])
def test_every_room_has_its_place_in_the_import_order(package: str) -> None:
    rooms = {
        f"{package}.{path.stem}"
        for path in (ROOT / package).iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    assert rooms
    assert rooms <= layers(), f"add {sorted(rooms - layers())} to the layers in pyproject.toml"
