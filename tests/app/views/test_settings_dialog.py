"""The settings dialog shows every declared option and reports what the person changes, and only that."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QLineEdit, QPlainTextEdit, QRadioButton, QSpinBox
from pytestqt.qtbot import QtBot

from app.settings import OPTIONS, Settings
from app.theme import Theme
from app.views.settings_dialog import SettingsDialog

CHANGED = {
    "acceptance": "typical",
    "epsilon": 0.2,
    "delta": 0.5,
    "temperature": 1.0,
    "nodes": 5,
    "max_new_tokens": 100,
    "system_prompt": "Be brief.",
    "theme": "dark",
    "model": "/models/a",
    "heads": "none",
    "dtype": "bf16",
    "device": "cuda",
}


@pytest.fixture
def dialog(qtbot: QtBot, theme: Theme) -> SettingsDialog:
    shown = SettingsDialog()
    qtbot.addWidget(shown)
    shown.show_settings(Settings(), reload_pending=False)
    shown.show()
    return shown


def settings_with(values: dict[str, object]) -> Settings:
    settings = Settings()
    for key, value in values.items():
        settings = settings.with_value(key, value)
    return settings


def shown_value(dialog: SettingsDialog, key: str) -> object:
    widget = dialog.controls[key].widget
    if radios := widget.findChildren(QRadioButton):
        return ["greedy", "typical"][[radio.isChecked() for radio in radios].index(True)]
    if isinstance(widget, QComboBox):
        return widget.currentData()
    if isinstance(widget, QSpinBox | QDoubleSpinBox):
        return widget.value()
    if isinstance(widget, QPlainTextEdit):
        return widget.toPlainText()
    edit = widget.findChild(QLineEdit)
    assert edit is not None
    return edit.text()


def test_every_option_shows_its_value_and_showing_is_no_change(dialog: SettingsDialog, qtbot: QtBot) -> None:
    assert set(CHANGED) == {option.key for option in OPTIONS} == set(dialog.controls)
    with qtbot.assertNotEmitted(dialog.changed):
        dialog.show_settings(settings_with(CHANGED), reload_pending=True)
    assert {key: shown_value(dialog, key) for key in CHANGED} == CHANGED
    assert dialog.reload_button.isEnabled()


def test_typical_s_numbers_are_off_under_greedy(dialog: SettingsDialog) -> None:
    numbers = ("epsilon", "delta", "temperature")
    assert not any(dialog.controls[key].widget.isEnabled() for key in numbers)
    dialog.show_settings(settings_with({"acceptance": "typical"}), reload_pending=False)
    assert all(dialog.controls[key].widget.isEnabled() for key in numbers)


def test_changes_are_reported_with_their_key(dialog: SettingsDialog, qtbot: QtBot) -> None:
    heard: list[tuple[str, object]] = []

    def hear(key: str, value: object) -> None:
        heard.append((key, value))

    dialog.changed.connect(hear)
    dialog.controls["acceptance"].widget.findChildren(QRadioButton)[1].click()
    nodes, prompt = dialog.controls["nodes"].widget, dialog.controls["system_prompt"].widget
    assert isinstance(nodes, QSpinBox)
    assert isinstance(prompt, QPlainTextEdit)
    nodes.stepBy(1)
    prompt.setPlainText("Hi")
    heads = dialog.controls["heads"].widget.findChild(QLineEdit)
    assert heads is not None
    heads.setText("  ")
    heads.editingFinished.emit()
    assert heard == [("acceptance", "typical"), ("nodes", 17), ("system_prompt", "Hi"), ("heads", "default")]


def test_every_rule_says_what_it_does(dialog: SettingsDialog) -> None:
    radios = dialog.controls["acceptance"].widget.findChildren(QRadioButton)
    assert all(radio.accessibleDescription().endswith(".") for radio in radios)
