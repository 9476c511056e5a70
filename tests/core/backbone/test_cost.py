"""Costs: what is between measured times, what is measured, and when it is measured again. No time is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core.backbone import cost
from medusa_core.backbone.cost import CostTable, brief_costs, cost_key, costs, measure
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.errors import StatisticsError
from medusa_core.events import Progress

TABLE = CostTable(
    key=(("model", "m"),),
    rows=(1, 2, 4),
    contexts=(100, 200),
    passes=((1.0, 2.0, 8.0), (3.0, 4.0, 10.0)),
    draft_seconds=0.5,
)


def run(work: Generator[Progress, None, CostTable]) -> tuple[list[Progress], CostTable]:
    events = []
    while True:
        try:
            events.append(next(work))
        except StopIteration as stop:
            return events, stop.value


@pytest.mark.parametrize(
    ("rows", "context", "seconds"),
    [
        (1, 100, 1.0),
        (2, 100, 2.0),
        (3, 100, 5.0),  # half way from 2 to 8
        (4, 200, 10.0),
        (6, 100, 14.0),  # the last slope, 3 a row, goes on
        (1, 150, 2.0),  # half way from context 100 to 200
        (3, 150, 6.0),
        (1, 50, 1.0),  # below: the first
        (1, 400, 7.0),  # beyond: 2 more a hundred
    ],
)
def test_between_the_measured(rows: int, context: int, seconds: float) -> None:
    assert TABLE.seconds(rows, context) == pytest.approx(seconds)


def test_beyond_the_measured_nothing_gets_cheaper() -> None:
    noisy = replace(TABLE, contexts=(100,), passes=((1.0, 3.0, 2.5),))
    assert noisy.seconds(8, 100) == 2.5
    assert noisy.seconds(2, 5000) == 3.0, "one context stands for all"


def test_a_step_is_a_pass_and_a_draft() -> None:
    assert TABLE.step_seconds(0, 100) == 1.0, "plain decoding asks no heads"
    assert TABLE.step_seconds(1, 100) == 2.5
    assert TABLE.step_seconds(3, 100, overhead=0.25) == 8.75


def test_the_file_holds_all_of_it() -> None:
    assert CostTable.from_json(TABLE.to_json()) == TABLE


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"version": 2},
        {"rows": [2, 1, 4]},
        {"rows": []},
        {"passes": [[1.0, 2.0, 8.0]]},
        {"passes": [[1.0, 2.0, 0.0], [1.0, 2.0, 3.0]]},
        {"passes": [[1.0, 2.0], [1.0, 2.0]]},
        {"passes": [[1.0, 2.0, "x"], [1.0, 2.0, 3.0]]},
        {"draft_seconds": -1.0},
        {"draft_seconds": None},
        {"key": None},
    ],
)
def test_a_wrong_file_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(StatisticsError):
        CostTable.from_json(json.dumps(json.loads(TABLE.to_json()) | change))


def test_measured_within_the_models_context(
    tiny_backbone: Callable[..., LeanBackbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_ROUNDS", 3)
    backbone = tiny_backbone(context=256)
    drafts: list[torch.Tensor] = []
    passes: list[tuple[int, int]] = []
    forward = backbone.forward

    def watched(ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Any) -> torch.Tensor:
        if mask is not None:
            assert positions.tolist() == [cache.length, *[cache.length + 1] * (len(ids) - 1)]
            assert mask[:, 0].all()
            assert int(mask.sum()) == 2 * len(ids) - 1, "a root and its children"
            passes.append((cache.length, len(ids)))
        return forward(ids, positions, mask, cache)

    monkeypatch.setattr(backbone, "forward", watched)
    events, table = run(measure(backbone, drafts.append, {"a": "b"}))
    assert table.key == (("a", "b"),)
    assert table.rows == cost.ROWS
    assert table.contexts == (128, 192), "192 and 64 rows fill the context"
    assert set(passes) == {(context, rows) for context in (128, 192) for rows in cost.ROWS}, "every pass is undone"
    assert len(passes) == 2 * len(cost.ROWS) * (1 + 3), "one pass to prepare, three measured"
    assert table.draft_seconds > 0
    assert all(tuple(hidden.shape) == (64,) for hidden in drafts)
    assert events[-1].done == events[-1].total
    small = tiny_backbone(context=32)
    _, table = run(measure(small, None, {}))
    assert (table.rows, table.contexts, table.draft_seconds) == ((1, 2, 4, 8, 12, 16, 24, 32), (0,), 0.0)


def test_measured_once_and_again_when_something_changes(
    tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = tiny_backbone()
    measured: list[dict[str, str]] = []

    def fake(backbone: Any, draft: Any, key: Any) -> Generator[Progress, None, CostTable]:
        measured.append(dict(key))
        yield Progress("Measuring", 0, 1)
        return replace(TABLE, key=tuple(sorted(key.items())))

    monkeypatch.setattr(cost, "measure", fake)
    folder = tmp_path / "costs"
    key = cost_key(backbone, "fp32", "rooted")
    _, first = run(costs(backbone, None, key, folder))
    events, second = run(costs(backbone, None, key, folder))
    assert first == second
    assert (len(measured), events) == (1, [])
    for name in key:
        run(costs(backbone, None, key | {name: "other"}, folder))
    assert len(measured) == 1 + len(key), "each of them matters"
    assert {"model", "device", "precision", "threads", "torch", "numba", "transformers"} <= set(key)
    for path in folder.iterdir():
        path.write_text("{", encoding="utf-8")
    run(costs(backbone, None, key, folder))
    assert len(measured) == 2 + len(key), "a damaged table is measured again"
    assert not list(folder.glob("*.part"))


def test_the_key_names_the_machine(tiny_backbone: Callable[..., LeanBackbone]) -> None:
    backbone = tiny_backbone()
    key = cost_key(backbone, "fp32", "none")
    assert key["model"] == backbone.spec.fingerprint
    assert key["threads"] == str(torch.get_num_threads())
    assert key["torch"] == torch.__version__ or torch.__version__.startswith(key["torch"])
    assert "cores" in key["device"]


def test_a_system_that_does_not_name_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(OSError))
    assert "cores" in cost._processor()


def test_measured_briefly_where_nothing_better_is_kept(
    tiny_backbone: Callable[..., LeanBackbone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone, key = tiny_backbone(context=48), {"model": "tiny"}
    _, rough = run(brief_costs(backbone, None, key, tmp_path))
    assert rough.rows == (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 25, 33)
    assert rough.contexts == (15,)
    _, small = run(brief_costs(tiny_backbone(context=100), None, {"model": "small"}, tmp_path))
    assert small.rows[-1] == 65
    monkeypatch.setattr(cost, "_BRIEF_SECONDS", -1.0)
    assert run(brief_costs(backbone, None, key, tmp_path))[1] == rough  # kept
    assert run(brief_costs(backbone, None, {"model": "slow"}, tmp_path))[1].rows == (1, 17)
    _, careful = run(costs(backbone, None, key, tmp_path))
    assert careful != rough
    assert run(brief_costs(backbone, None, key, tmp_path))[1] == careful
