"""The settings dialog shows every declared option and reports what the person changes, and only that."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QPlainTextEdit,
    QRadioButton,
    QSpinBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.option_table import ANY_SEED, BY_KEY, OPTIONS
from app.options import Choice
from app.settings import Settings
from app.theme import Theme
from app.views.settings_dialog import RESTART_NOTE, SettingsDialog
from app.views.settings_presets import PresetPicker

CHANGED = {
    "acceptance": "typical",
    "epsilon": 0.2,
    "delta": 0.5,
    "temperature": 1.0,
    "top_p": 0.5,
    "top_k": 20,
    "min_p": 0.1,
    "repetition_penalty": 1.2,
    "seed": 9,
    "drafter": "medusa",
    "nodes": 5,
    "tree": "ranked",
    "max_new_tokens": 100,
    "system_prompt": "Be brief.",
    "prompt_presets": {"Mine": "Be brief."},
    "theme": "dark",
    "font_size": 20,
    "scale": 150,
    "data_folder": "/data",
    "model": "/models/a",
    "heads": "none",
    "dtype": "bf16",
    "device": "cuda",
}


@pytest.fixture
def dialog(qtbot: QtBot, theme: Theme) -> SettingsDialog:
    shown = SettingsDialog(theme)
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
    if isinstance(widget, QPlainTextEdit):
        return dialog_text(dialog)
    return picked_value(dialog, key, widget)


def picked_value(dialog: SettingsDialog, key: str, widget: QWidget) -> object:
    if radios := widget.findChildren(QRadioButton):
        option = BY_KEY[key]
        assert isinstance(option, Choice)
        return option.alternatives[[radio.isChecked() for radio in radios].index(True)].value
    if isinstance(widget, PresetPicker):
        return {widget.box.currentText(): dialog_text(dialog)}
    if ticks := widget.findChildren(QCheckBox):
        return ticks[0].isChecked() or spin_of(dialog, key).value()
    if isinstance(widget, QComboBox):
        return widget.currentData()
    if isinstance(widget, QSpinBox | QDoubleSpinBox):
        return widget.value()
    edit = widget.findChild(QLineEdit)
    assert edit is not None
    return edit.text()


def spin_of(dialog: SettingsDialog, key: str) -> QSpinBox:
    widget = dialog.controls[key].named()
    assert isinstance(widget, QSpinBox)
    return widget


def dialog_text(dialog: SettingsDialog) -> str:
    edit = dialog.controls["system_prompt"].widget
    assert isinstance(edit, QPlainTextEdit)
    return edit.toPlainText()


def presets_of(dialog: SettingsDialog) -> PresetPicker:
    widget = dialog.controls["prompt_presets"].widget
    assert isinstance(widget, PresetPicker)
    return widget


def heard_from(dialog: SettingsDialog) -> list[tuple[str, object]]:
    heard: list[tuple[str, object]] = []

    def hear(key: str, value: object) -> None:
        heard.append((key, value))

    dialog.changed.connect(hear)
    return heard


def test_every_option_shows_its_value_and_showing_is_no_change(dialog: SettingsDialog, qtbot: QtBot) -> None:
    assert set(CHANGED) == {option.key for option in OPTIONS} == set(dialog.controls)
    with qtbot.assertNotEmitted(dialog.changed):
        dialog.show_settings(settings_with(CHANGED), reload_pending=True)
    assert {key: shown_value(dialog, key) for key in CHANGED} == CHANGED
    assert dialog.reload_button.isEnabled()


def test_only_the_options_of_the_chosen_rule_are_enabled(dialog: SettingsDialog) -> None:
    typical, sampling = ("epsilon", "delta"), ("top_p", "top_k", "min_p", "repetition_penalty", "seed")

    def enabled(*keys: str) -> set[bool]:
        return {dialog.controls[key].widget.isEnabled() for key in keys}

    dialog.show_settings(settings_with({"acceptance": "greedy"}), reload_pending=False)
    assert enabled("temperature", *typical, *sampling) == {False}
    dialog.show_settings(settings_with({"acceptance": "typical"}), reload_pending=False)
    assert enabled("temperature", *typical) == {True}
    assert enabled(*sampling) == {False}
    assert dialog.plot.isEnabled()
    dialog.show_settings(settings_with({"acceptance": "sampling"}), reload_pending=False)
    assert enabled("temperature", *sampling) == {True}
    assert enabled(*typical) == {False}
    assert not dialog.plot.isEnabled()


def test_changes_are_reported_with_their_key(dialog: SettingsDialog) -> None:
    heard = heard_from(dialog)
    dialog.controls["acceptance"].widget.findChildren(QRadioButton)[2].click()
    prompt = dialog.controls["system_prompt"].widget
    assert isinstance(prompt, QPlainTextEdit)
    spin_of(dialog, "top_k").stepBy(1)
    prompt.setPlainText("Hi")
    heads = dialog.controls["heads"].widget.findChild(QLineEdit)
    assert heads is not None
    heads.setText("  ")
    heads.editingFinished.emit()
    assert heard == [("acceptance", "typical"), ("top_k", 5), ("system_prompt", "Hi"), ("heads", "default")]


@pytest.mark.parametrize(("key", "automatic", "manual"), [("nodes", 0, 16), ("seed", ANY_SEED, 1)])
def test_automatic_is_ticked_and_a_number_is_one_click_away(
    dialog: SettingsDialog, key: str, automatic: int, manual: int
) -> None:
    heard = heard_from(dialog)
    tick = dialog.controls[key].widget.findChildren(QCheckBox)[0]
    assert tick.isChecked()
    assert not spin_of(dialog, key).isEnabled()
    tick.click()
    dialog.show_settings(settings_with({key: manual}), reload_pending=False)
    assert spin_of(dialog, key).isEnabled()
    tick.click()
    assert heard == [(key, manual), (key, automatic)]


def test_the_wheel_over_a_control_changes_nothing(dialog: SettingsDialog) -> None:
    heard = heard_from(dialog)
    box = dialog.controls["temperature"].widget
    middle = QPointF(box.rect().center())
    turn = QWheelEvent(
        middle,
        box.mapToGlobal(middle),
        QPoint(0, 0),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(box, turn)
    assert heard == []


def test_a_preset_fills_in_the_prompt_and_the_person_s_own_can_be_kept_and_removed(dialog: SettingsDialog) -> None:
    heard = heard_from(dialog)
    picker = presets_of(dialog)
    number = picker.box.findText("Teacher")
    picker.box.setCurrentIndex(number)
    picker.box.activated.emit(number)
    assert heard[0][0] == "system_prompt"
    assert "step by step" in str(heard[0][1])
    dialog.show_settings(settings_with({"system_prompt": "Rhyme."}), reload_pending=False)
    assert picker.box.currentText() == "Not kept"
    picker.keep("Poet")
    picker.keep("Teacher")  # the app's own name
    assert heard[1:] == [("prompt_presets", {"Poet": "Rhyme."})]
    kept = {"system_prompt": "Rhyme.", "prompt_presets": {"Poet": "Rhyme."}}
    dialog.show_settings(settings_with(kept), reload_pending=False)
    assert picker.box.currentText() == "Poet"
    picker.remove_button.click()
    assert heard[2:] == [("prompt_presets", {})]


def test_pages_turn_and_say_when_they_apply(dialog: SettingsDialog) -> None:
    dialog.show_section("Model")
    assert dialog.reload_button.isVisible()
    assert not dialog.reload_button.isEnabled()
    assert not dialog.pending.isVisible()
    dialog.show_settings(Settings(), reload_pending=True)
    assert dialog.reload_button.isEnabled()
    assert dialog.pending.isVisible()
    dialog.show_section("Appearance")
    assert not dialog.reload_button.isVisible()
    assert RESTART_NOTE in " ".join(dialog.texts_beside("scale"))


def test_every_rule_says_what_it_does(dialog: SettingsDialog) -> None:
    radios = dialog.controls["acceptance"].widget.findChildren(QRadioButton)
    assert len(radios) == 3
    assert all(radio.accessibleDescription().endswith(".") for radio in radios)
    by_name = {radio.text(): radio.accessibleDescription() for radio in radios}
    assert "approximate" in by_name["Typical"]
    assert "model’s own distribution" in by_name["Exact sampling"]
