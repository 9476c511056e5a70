"""Where new heads go, and what becomes of those that were there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.backbone.base import BackboneSpec
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.train.placing import place


@pytest.fixture
def spec(tiny_backbone: Callable[..., LeanBackbone]) -> BackboneSpec:
    return replace(tiny_backbone().spec, name="Tiny")


def heads(folder: Path, spec: BackboneSpec, kind: str = "rooted", **expected: float) -> Path:
    """A folder that says what is read of it."""
    folder.mkdir(parents=True)
    config = {
        "format": "medusa-heads",
        "kind": kind,
        "base_model": {"name": spec.name, "family": spec.family, "fingerprint": spec.fingerprint},
        "training": {"expected_tokens_per_step": {size.removeprefix("n"): value for size, value in expected.items()}},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def expectation(folder: Path) -> dict[str, float]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found: dict[str, float] = config["training"]["expected_tokens_per_step"]
    return found


def test_the_first_ones_get_the_models_name_and_each_kind_its_own(spec: BackboneSpec, tmp_path: Path) -> None:
    new, home = tmp_path / "work" / "new-heads", tmp_path / "heads"
    placed = place(heads(new, spec, n4=1.5), home, spec, "rooted")
    assert (placed.folder, placed.before, placed.replaced) == (home / "Tiny", None, False)
    assert not new.exists()
    assert place(heads(new, spec, "medusa", n4=1.2), home, spec, "medusa").folder == home / "Tiny-paper"
    assert expectation(home / "Tiny") == {"4": 1.5}


def test_another_models_heads_are_never_overwritten(spec: BackboneSpec, tmp_path: Path) -> None:
    new, home = tmp_path / "new-heads", tmp_path / "heads"
    other = replace(spec, fingerprint="0123456789abcdef")
    place(heads(new, spec, n4=1.5), home, spec, "rooted")
    placed = place(heads(new, other, n4=2.5), home, other, "rooted")
    assert placed.folder == home / "Tiny-01234567"
    assert placed.before is None
    assert expectation(home / "Tiny") == {"4": 1.5}
    assert place(heads(new, other, n4=2.6), home, other, "rooted").folder == home / "Tiny-01234567"
    assert not list(home.glob("*.part"))


@pytest.mark.parametrize("content", ["{}", "not json", '{"format": "medusa-heads", "base_model": 3}'])
def test_nor_is_anything_else(spec: BackboneSpec, tmp_path: Path, content: str) -> None:
    (tmp_path / "heads" / "Tiny").mkdir(parents=True)
    (tmp_path / "heads" / "Tiny" / "config.json").write_text(content, encoding="utf-8")
    placed = place(heads(tmp_path / "new", spec, n4=1.5), tmp_path / "heads", spec, "rooted")
    assert placed.folder.name == f"Tiny-{spec.fingerprint[:8]}"
    assert (tmp_path / "heads" / "Tiny" / "config.json").read_text(encoding="utf-8") == content


def test_better_ones_take_the_place_of_the_earlier(spec: BackboneSpec, tmp_path: Path) -> None:
    home = tmp_path / "heads"
    heads(home / "Tiny", spec, n4=1.9, n8=2.0, n16=9.0)
    placed = place(heads(tmp_path / "new", spec, n4=1.5, n8=2.1), home, spec, "rooted")
    assert (placed.folder, placed.replaced, placed.draft_nodes) == (home / "Tiny", True, 8)
    assert (placed.tokens, placed.tokens_before) == (2.1, 2.0)
    assert expectation(home / "Tiny") == {"4": 1.5, "8": 2.1}
    assert [path.name for path in home.iterdir()] == ["Tiny"]


@pytest.mark.parametrize("before", [{"n8": 2.2}, {}, {"n4": 1.0}])
def test_worse_ones_and_those_that_cannot_be_compared_lie_beside(
    spec: BackboneSpec, tmp_path: Path, before: dict[str, float]
) -> None:
    home = tmp_path / "heads"
    heads(home / "Tiny", spec, **before)
    for name in ("Tiny-2", "Tiny-3"):
        placed = place(heads(tmp_path / "new", spec, n8=2.1), home, spec, "rooted")
        assert (placed.folder, placed.before, placed.replaced) == (home / name, home / "Tiny", False)
        assert placed.draft_nodes == (8 if "n8" in before else 0)
    newest = max(home.iterdir(), key=lambda folder: (folder / "config.json").stat().st_mtime_ns)
    assert newest.name == "Tiny"


def test_heads_that_change_their_model_are_another_thing(spec: BackboneSpec, tmp_path: Path) -> None:
    (heads(tmp_path / "heads" / "Tiny", spec, n8=1.0) / "adapters").mkdir()
    placed = place(heads(tmp_path / "new", spec, n8=2.1), tmp_path / "heads", spec, "rooted")
    assert placed.folder.name == f"Tiny-{spec.fingerprint[:8]}"
