"""Colours that can be read, told apart, and reach every widget."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QFontMetricsF, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme as themes
from app.theme import Theme, load_themes

ON_SURFACES = ("surface", "surface_raised")
TEXTS = ("text", "text_muted", "accent", "warning", "error")
MARKS = ("accepted", "rejected", "unreached", "source_head", "source_lookup", "source_recycling", "accent")


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = QColor(colour).getRgbF()[:3]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> Theme:
    return load_themes()[request.param]


def test_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("surface", ON_SURFACES)
def test_text_can_be_read(theme: Theme, name: str, surface: str) -> None:
    assert contrast(getattr(theme, name), getattr(theme, surface)) >= 4.5


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("surface", ON_SURFACES)
def test_marks_can_be_seen(theme: Theme, name: str, surface: str) -> None:
    assert contrast(getattr(theme, name), getattr(theme, surface)) >= 3.0


@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("on_accepted", "accepted"),
        ("text", "accepted_tint"),
        ("text_muted", "accepted_tint"),
        ("surface", "accent"),
        ("text", "found"),
        ("text_muted", "found"),
        ("accent", "found"),
    ],
)
def test_text_on_colour_can_be_read(theme: Theme, text: str, ground: str) -> None:
    assert contrast(getattr(theme, text), getattr(theme, ground)) >= 4.5


@pytest.mark.parametrize("ground", [*ON_SURFACES, "accepted_tint", "found"])
def test_what_was_found_can_be_seen_without_its_ground(theme: Theme, ground: str) -> None:
    assert contrast(theme.found_line, getattr(theme, ground)) >= 3.0
    assert contrast(theme.text, getattr(theme, ground)) >= 3.0  # the box of the current place


def test_both_themes_exist_with_every_colour_as_rrggbb() -> None:
    found = load_themes()
    assert set(found) == {"light", "dark"}
    for name, theme in found.items():
        assert theme.name == name
        assert theme.is_dark is (name == "dark")
        for field in fields(theme)[1:]:
            assert re.fullmatch(r"#[0-9a-f]{6}", getattr(theme, field.name)), field.name


def test_an_unknown_colour_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "themes.json").write_text('{"light": {"surfaec": "#ffffff"}}', encoding="utf-8")
    monkeypatch.setattr(themes, "RESOURCES", tmp_path)
    with pytest.raises(TypeError, match="surfaec"):
        load_themes()


def test_system_theme_is_one_of_ours(qapp: QApplication) -> None:
    assert themes.system_theme() in load_themes()


def test_the_style_sheet_names_only_files_that_exist(qapp: QApplication, theme: Theme) -> None:
    sheet = themes.style_sheet(theme)
    paths = re.findall(r'url\("([^"]+)"\)', sheet)
    assert len(paths) >= 4
    assert all(Path(path).is_file() for path in paths)
    assert "$" not in sheet.split("*/", 1)[1]  # every placeholder was filled in


def test_focus_can_be_seen_on_every_kind_of_control(qapp: QApplication, theme: Theme) -> None:
    sheet = themes.style_sheet(theme)
    for control in ("QPushButton", "QToolButton", "QLineEdit", "QComboBox", "QAbstractSpinBox", "QCheckBox"):
        assert re.search(rf"{control}:focus[^}}]*{theme.accent}", sheet), control


def test_fonts_have_their_sizes_and_tokens_are_fixed_width(qapp: QApplication) -> None:
    assert themes.ui_font().pixelSize() >= themes.BODY_PX
    assert themes.small_font().pixelSize() == themes.ui_font().pixelSize() - 2
    metrics = QFontMetricsF(themes.token_font())
    assert metrics.horizontalAdvance("iiii") == metrics.horizontalAdvance("WWWW")


def test_applying_a_theme_reaches_palette_and_style_sheet(qtbot: QtBot, qapp: QApplication, theme: Theme) -> None:
    before = qapp.palette(), qapp.font(), qapp.styleSheet(), qapp.style().objectName()
    try:
        themes.apply(qapp, theme)
        assert qapp.palette().color(QPalette.ColorRole.Window).name() == theme.surface
        assert qapp.palette().color(QPalette.ColorRole.Text).name() == theme.text
        assert theme.accent in qapp.styleSheet()
    finally:
        qapp.setStyleSheet(before[2])
        qapp.setStyle(before[3])
        qapp.setPalette(before[0])
        qapp.setFont(before[1])


def test_the_app_icon_has_a_head_and_a_kept_path_at_16_px(qapp: QApplication) -> None:
    image = themes.app_icon().pixmap(QSize(16, 16), 1.0).toImage()
    colours = {image.pixelColor(x, y).name() for x in range(16) for y in range(16)}
    assert {"#ffffff", "#ffc24d"} <= colours
