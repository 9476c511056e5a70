"""constraints.txt pins everything the project asks for, exactly, and keeps the one version out that breaks."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from bootstrap import NEWEST, OLDEST, read_pins

ROOT = Path(__file__).resolve().parents[2]
PINS = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in read_pins(ROOT / "constraints.txt").items()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def test_every_line_is_an_exact_version() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) == len(PINS)
    for line in pins:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line), line


@pytest.mark.parametrize(
    "name", [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
)
def test_every_dependency_is_pinned(name: str) -> None:
    assert name.lower() in PINS


def test_pyside_that_steals_references_is_kept_out() -> None:
    floor = re.search(r">=3\.(\d+)", PROJECT["requires-python"])
    assert floor is not None
    if int(floor[1]) < 12:
        assert release(PINS["pyside6-essentials"]) < (6, 12)
    assert PINS["shiboken6"] == PINS["pyside6-essentials"]


def test_set_up_and_project_agree_on_the_pythons() -> None:
    assert PROJECT["requires-python"] == f">=3.{OLDEST[1]},<3.{NEWEST[1] + 1}"
