"""One control per kind of option: how a value is shown, and how the person's next one is read.

Knows nothing of the dialog around the controls, or of what an option does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QRadioButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.options import Choice, Number, Option, Place, Presets, Text
from app.settings import Settings
from app.views.abstract import AbstractQt
from app.views.settings_presets import PresetPicker

_PROMPT_LINES = 6
_NUMBER_WIDTH = 168  # px
_RADIO_INDENT = 24  # px, to the text of a radio button


class OptionControl(QObject, metaclass=AbstractQt):
    """The widget of one option. Subclasses know how it shows and reads a value."""

    changed = Signal(str, object)  # (key, new value), by the person only
    is_wide = False  # takes the whole width it is given
    explains_itself = False  # needs no help beneath

    def __init__(self, option: Option) -> None:
        super().__init__()
        self.option = option
        self.widget = self._build()
        self.named().setAccessibleName(option.label)
        self.named().setAccessibleDescription(option.help)

    @abstractmethod
    def _build(self) -> QWidget:
        """Make the widget."""

    @abstractmethod
    def show_settings(self, settings: Settings) -> None:
        """Show what these settings hold, without reporting it as a change."""

    def named(self) -> QWidget:
        """The widget that takes the keyboard."""
        return self.widget

    def report(self, value: Any) -> None:
        self.changed.emit(self.option.key, value)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Turning the wheel over a control scrolls the page; it changes nothing unless the control has the focus."""
        if event.type() is QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)

    def _calm(self, widget: QWidget) -> None:
        widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        widget.installEventFilter(self)


class _ValueControl(OptionControl):
    """A control that shows its option's own value and nothing else."""

    @abstractmethod
    def show_value(self, value: Any) -> None:
        """Show a value without reporting it as a change."""

    def show_settings(self, settings: Settings) -> None:
        self.show_value(settings[self.option.key])


class _ExplainedChoice(_ValueControl):
    """Radio buttons, each with a sentence of its own."""

    option: Choice
    is_wide = True
    explains_itself = True

    def _build(self) -> QWidget:
        box = QWidget()
        column = QVBoxLayout(box)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._group = QButtonGroup(self)
        for number, alternative in enumerate(self.option.alternatives):
            button = QRadioButton(alternative.label)
            button.setAccessibleDescription(alternative.help)
            self._group.addButton(button, number)
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
            column.addWidget(help_label(alternative.help, indent=_RADIO_INDENT))
            column.addSpacing(8)
        self._group.idClicked.connect(self._choose)
        return box

    def show_value(self, value: Any) -> None:
        names = [alternative.value for alternative in self.option.alternatives]
        self._group.button(names.index(value)).setChecked(True)

    def _choose(self, number: int) -> None:
        self.report(self.option.alternatives[number].value)


class _PlainChoice(_ValueControl):
    option: Choice

    def _build(self) -> QWidget:
        self._box = QComboBox()
        self._box.setMinimumWidth(_NUMBER_WIDTH)
        self._calm(self._box)
        for alternative in self.option.alternatives:
            self._box.addItem(alternative.label, alternative.value)
        self._box.activated.connect(self._choose)
        return self._box

    def show_value(self, value: Any) -> None:
        self._box.setCurrentIndex(self._box.findData(value))

    def _choose(self, number: int) -> None:
        self.report(self._box.itemData(number))


class _NumberControl(_ValueControl):
    """A spin box; where the option can be automatic, a tick above it."""

    option: Number

    def _build(self) -> QWidget:
        self._box = self._spin_box()
        self._tick: QCheckBox | None = None
        if not self.option.automatic:
            return self._box
        self._tick = QCheckBox(self.option.automatic)
        self._tick.setAccessibleName(f"{self.option.label}: {self.option.automatic}")
        self._tick.clicked.connect(self._toggle)
        self._box.setValue(int(self.option.manual))
        both = QWidget()
        column = QVBoxLayout(both)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._tick, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._box, 0, Qt.AlignmentFlag.AlignLeft)
        return both

    def _spin_box(self) -> QSpinBox | QDoubleSpinBox:
        option = self.option
        low = option.low + option.step if option.automatic else option.low
        box: QSpinBox | QDoubleSpinBox
        if option.decimals:
            box = QDoubleSpinBox(decimals=option.decimals, minimum=low, maximum=option.high, singleStep=option.step)
        else:
            box = QSpinBox(minimum=int(low), maximum=int(option.high), singleStep=int(option.step))
        box.setSuffix(f" {option.unit}" if option.unit else "")
        box.setSpecialValueText(option.at_low)
        box.setKeyboardTracking(False)
        box.setMinimumWidth(_NUMBER_WIDTH)
        for edit in box.findChildren(QLineEdit):
            edit.setTextMargins(6, 0, 0, 0)
        self._calm(box)
        box.valueChanged.connect(self.report)
        return box

    def named(self) -> QWidget:
        return self._box

    def show_value(self, value: Any) -> None:
        is_automatic = self._tick is not None and value == self.option.low
        if self._tick is not None:
            self._tick.setChecked(is_automatic)
            self._box.setEnabled(not is_automatic)
        if not is_automatic:
            self._box.blockSignals(True)
            self._box.setValue(value)
            self._box.blockSignals(False)

    def _toggle(self, automatic: bool) -> None:
        self.report(int(self.option.low) if automatic else self._box.value())


class _TextControl(_ValueControl):
    option: Text
    is_wide = True

    def _build(self) -> QWidget:
        self._edit = QPlainTextEdit()
        self._edit.setTabChangesFocus(True)
        self._edit.setPlaceholderText(self.option.placeholder)
        self._edit.setFixedHeight(_PROMPT_LINES * self._edit.fontMetrics().lineSpacing() + 20)
        self._edit.textChanged.connect(self._report_text)
        return self._edit

    def show_value(self, value: Any) -> None:
        if value != self._edit.toPlainText():
            self._edit.blockSignals(True)
            self._edit.setPlainText(value)
            self._edit.blockSignals(False)

    def _report_text(self) -> None:
        self.report(self._edit.toPlainText())


class _PresetsControl(OptionControl):
    """The picker, and the text it is for: choosing a preset changes that one."""

    option: Presets
    is_wide = True

    def _build(self) -> QWidget:
        self._picker = PresetPicker(self.option.built_in)
        self._calm(self._picker.box)
        self._picker.chosen.connect(self._fill_in)
        self._picker.edited.connect(self.report)
        return self._picker

    def named(self) -> QWidget:
        return self._picker.box

    def show_settings(self, settings: Settings) -> None:
        self._picker.show_texts(settings[self.option.key], settings[self.option.target])

    def _fill_in(self, text: str) -> None:
        self.changed.emit(self.option.target, text)


class _PlaceControl(_ValueControl):
    option: Place
    is_wide = True

    def _build(self) -> QWidget:
        box = QWidget()
        row = QHBoxLayout(box)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self._edit = QLineEdit()
        self._edit.editingFinished.connect(self._report_text)
        browse = QPushButton("Choose…")
        browse.setAccessibleName(f"Choose a folder: {self.option.label}")
        browse.setAutoDefault(False)
        browse.clicked.connect(self._browse)
        row.addWidget(self._edit, 1)
        row.addWidget(browse)
        return box

    def named(self) -> QWidget:
        return self._edit

    def show_value(self, value: Any) -> None:
        if not self._edit.hasFocus():
            self._edit.setText(value)

    def _report_text(self) -> None:
        self.report(self._edit.text().strip() or self.option.default)

    def _browse(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.widget, self.option.label)
        if folder:
            self._edit.setText(folder)
            self.report(folder)


def control_for(option: Option) -> OptionControl:
    """The control that fits an option."""
    if isinstance(option, Choice):
        explained = any(alternative.help for alternative in option.alternatives)
        return _ExplainedChoice(option) if explained else _PlainChoice(option)
    fitting: dict[type[Option], Callable[[Option], OptionControl]] = {
        Number: _NumberControl,
        Text: _TextControl,
        Presets: _PresetsControl,
        Place: _PlaceControl,
    }
    return fitting[type(option)](option)


def help_label(text: str, indent: int = 0) -> QLabel:
    """A muted sentence under a control."""
    label = QLabel(text)
    label.setProperty("role", "small")
    label.setWordWrap(True)
    label.setIndent(indent)
    return label
