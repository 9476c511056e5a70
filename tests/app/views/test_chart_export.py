"""Charts as files: a drawing that stays sharp, a picture at twice the size, the figures of every step."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views.chart_export import export
from app.views.chart_pages import STEPS, ChartPages
from app.views.step_figures import COLUMNS
from medusa_core.events import Step
from medusa_core.testing import scripted_reply

LIGHT = load_themes()["light"]
SHOWN = [event for event in scripted_reply(25) if isinstance(event, Step)]


@pytest.fixture
def pages(qtbot: QtBot) -> ChartPages:
    pages = ChartPages(LIGHT)
    qtbot.addWidget(pages)
    pages.resize(388, 400)
    pages.show()
    pages.add(SHOWN)
    return pages


def test_a_drawing_has_its_words_as_text_and_its_curve_as_a_path(pages: ChartPages, tmp_path: Path) -> None:
    path = tmp_path / "é.svg"
    export(path, pages.charts(), LIGHT, SHOWN)
    drawing = path.read_text(encoding="utf-8")
    assert "Acceptance" in drawing
    assert "tokens per step" in drawing
    assert "<path" in drawing or "<polyline" in drawing


def test_a_picture_is_twice_as_large_with_a_margin(pages: ChartPages, tmp_path: Path) -> None:
    path = tmp_path / "charts.PNG"
    pages.show_page(STEPS)
    export(path, pages.charts(), LIGHT, SHOWN)
    image = QImage(str(path))
    assert image.width() == 2 * (pages.charts().width() + 32)
    colours = {image.pixelColor(x, y).name() for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}
    assert {LIGHT.surface, LIGHT.accepted} <= colours


def test_the_figures_have_a_row_for_every_step(pages: ChartPages, tmp_path: Path) -> None:
    path = tmp_path / "charts.csv"
    export(path, pages.charts(), LIGHT, SHOWN)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [int(row[1]) for row in rows[1:]] == [len(step.token_ids) for step in SHOWN]


@pytest.mark.parametrize("name", ["charts", "charts.pdf"])
def test_another_kind_of_file_is_refused_with_those_there_are(pages: ChartPages, tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"\.png, \.svg, \.csv"):
        export(tmp_path / name, pages.charts(), LIGHT, SHOWN)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".png", ".svg", ".csv"])
def test_a_folder_that_is_not_there_is_an_error(pages: ChartPages, tmp_path: Path, ending: str) -> None:
    with pytest.raises(OSError, match="charts"):
        export(tmp_path / "gone" / f"charts{ending}", pages.charts(), LIGHT, SHOWN)
