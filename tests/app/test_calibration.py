"""Heads that were measured in another precision than the model runs in: said, and calibrated in the window."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application
from app.calibration_controller import CalibrationController
from app.controller import Phase
from app.views.notices import Notice, Topic, Way
from medusa_core.backbone.load import load_backbone
from medusa_core.config import CalibrateConfig
from medusa_core.head_statistics import HeadStatistics, PathStatistics
from medusa_core.tiny import save_tiny_model, save_untrained_heads
from medusa_core.train import distill
from medusa_core.tree import ROOT_ONLY, RankedTree

Start = Callable[..., Application]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("made") / "Tiny", seed=3)


@pytest.fixture(autouse=True)
def _quick_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distill, "_REPORT_SECONDS", 0.0)


def put_heads(folder: Path, model: Path, precision: str = "bf16") -> Path:
    work = load_backbone(model, "fp32", "cpu")
    while True:
        try:
            next(work)
        except StopIteration as stop:
            backbone = stop.value[0]
            break
    save_untrained_heads(folder, backbone, RankedTree(ROOT_ONLY, (0,)))
    put_statistics(folder, precision)
    return folder


def put_statistics(folder: Path, precision: str) -> None:
    """As if the heads in a folder had been measured in this precision."""
    heads = json.loads((folder / "config.json").read_text(encoding="utf-8"))["num_heads"]
    part = PathStatistics(0, (0,) * heads, ((0,),) * heads, ())
    HeadStatistics(part, part, (1.0,) * heads, precision).save(folder / "statistics.json")


@pytest.fixture
def start(made: Path, start_real: Start) -> Start:
    def prepare(app: Application) -> None:
        app.calibration.config = CalibrateConfig(tokens=300, nodes=6, max_rank=3)

    def start(heads: Path, model: Path = made) -> Application:
        return start_real({"model": str(model), "heads": str(heads)}, prepare)

    return start


def notice(app: Application) -> Notice:
    found = [each for each in app.views.notices.shown() if each.topic is Topic.HEADS]
    return found[0] if found else Notice(Topic.HEADS, "")


def test_heads_trained_here_are_calibrated_in_their_place(
    start: Start, made: Path, profile: Path, qtbot: QtBot
) -> None:
    heads = put_heads(profile / "heads" / "Tiny", made)
    app = start(heads)
    found = notice(app)
    assert "measured in bf16 and the model runs in fp32" in found.text
    assert "“calibrate”" not in found.text
    assert found.ways == (Way.CALIBRATE,)
    app.controller.take_way(Way.CALIBRATE)
    assert app.controller.phase is Phase.ASIDE
    assert "stop it to chat" in app.views.composer.reason.text()
    qtbot.waitUntil(lambda: app.window.status_line.facts.full.startswith("Calibrating the heads: "), timeout=20_000)
    qtbot.waitUntil(lambda: "in use" in notice(app).text, timeout=30_000)
    assert app.controller.phase is Phase.READY
    measured = HeadStatistics.load(heads / "statistics.json")
    assert measured.precision == "fp32"
    assert measured.together.steps >= 300
    assert app.controller.model is not None
    assert app.controller.model.info.heads_note == ""
    assert [path.name for path in (profile / "heads").iterdir()] == ["Tiny"]
    assert app.controller.settings["heads"] == str(heads)


def test_of_others_a_copy_is_calibrated(start: Start, made: Path, profile: Path, tmp_path: Path, qtbot: QtBot) -> None:
    heads = put_heads(tmp_path / "come-with-the-program", made)
    before = {path.name: path.read_bytes() for path in heads.iterdir()}
    for path in heads.iterdir():
        path.chmod(0o444)
    heads.chmod(0o555)
    app = start(heads)
    app.controller.take_way(Way.CALIBRATE)
    qtbot.waitUntil(lambda: "in use" in notice(app).text, timeout=30_000)
    heads.chmod(0o755)
    copy = profile / "heads" / "Tiny-paper-fp32"
    assert app.controller.settings["heads"] == str(copy)
    assert HeadStatistics.load(copy / "statistics.json").precision == "fp32"
    assert {path.name: path.read_bytes() for path in heads.iterdir()} == before
    assert app.controller.model is not None
    assert app.controller.model.info.num_heads > 0


def test_stopped_it_goes_on_from_what_was_written(start: Start, made: Path, profile: Path, qtbot: QtBot) -> None:
    app = start(put_heads(profile / "heads" / "Tiny", made))
    app.calibration.config = CalibrateConfig(tokens=100_000, nodes=6, max_rank=3)
    app.controller.take_way(Way.CALIBRATE)
    qtbot.waitUntil(lambda: bool(list((profile / "calibration").rglob("*.safetensors"))), timeout=30_000)
    app.window.stop_requested.emit()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert "was stopped" in notice(app).text
    assert notice(app).ways == (Way.CALIBRATE,)
    assert list((profile / "calibration").rglob("*.safetensors"))
    app.training.open()
    dialog = app.training.dialog
    assert dialog is not None
    qtbot.waitUntil(dialog.data.isVisible, timeout=20_000)
    assert "only for measuring heads" in dialog.data.rows[0].row.facts


def test_it_is_offered_once_and_then_found_where_heads_are_trained(
    start: Start, made: Path, profile: Path, qtbot: QtBot
) -> None:
    heads = put_heads(profile / "heads" / "Tiny", made)
    app = start(heads)
    assert notice(app).ways == (Way.CALIBRATE,)
    app.window.close()
    again = start(heads)
    assert not again.views.notices.shown()
    again.training.open()
    dialog = again.training.dialog
    assert dialog is not None
    assert dialog.calibration.isVisible()
    assert "measured in bf16" in dialog.calibration_note.text()
    dialog.calibration_asked.emit()
    qtbot.waitUntil(lambda: not dialog.calibration.isVisible(), timeout=30_000)
    qtbot.waitUntil(lambda: again.controller.phase is Phase.READY, timeout=30_000)
    assert HeadStatistics.load(heads / "statistics.json").precision == "fp32"


def test_heads_that_were_measured_as_the_model_runs_say_nothing(start: Start, made: Path, profile: Path) -> None:
    app = start(put_heads(profile / "heads" / "Tiny", made, "fp32"))
    assert not app.views.notices.shown()
    assert isinstance(app.calibration, CalibrationController)
    app.calibration.calibrate()
    assert app.controller.phase is Phase.READY
