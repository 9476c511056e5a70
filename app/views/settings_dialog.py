"""The settings, generated from their declaration: one control per option, its help beneath.

A change is passed on at once; nothing waits for an OK. Knows nothing of files, or of what an option does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QDialog,
    QDoubleSpinBox,
    QFileDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.settings import OPTIONS, Choice, Number, Option, Place, Settings, Text

_PROMPT_LINES = 4
_NUMBER_WIDTH = 168  # px


class OptionControl(QObject):
    """The widget of one option. Subclasses know how it shows and reads a value."""

    changed = Signal(str, object)  # (key, new value), by the person only

    def __init__(self, option: Option) -> None:
        super().__init__()
        self.option = option
        self.widget = self._build()
        self.named().setAccessibleName(option.label)
        self.named().setAccessibleDescription(option.help)

    def _build(self) -> QWidget:
        raise NotImplementedError

    def show_value(self, value: Any) -> None:
        """Show a value without reporting it as a change."""
        raise NotImplementedError

    def named(self) -> QWidget:
        """The widget that takes the keyboard."""
        return self.widget

    def report(self, value: Any) -> None:
        self.changed.emit(self.option.key, value)


class _ExplainedChoice(OptionControl):
    """Radio buttons, each with a sentence of its own."""

    option: Choice

    def _build(self) -> QWidget:
        box = QWidget()
        column = QVBoxLayout(box)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        self._group = QButtonGroup(self)
        for number, alternative in enumerate(self.option.alternatives):
            button = QRadioButton(alternative.label)
            button.setAccessibleDescription(alternative.help)
            self._group.addButton(button, number)
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
            column.addWidget(help_label(alternative.help, indent=20))
        self._group.idClicked.connect(self._choose)
        return box

    def show_value(self, value: Any) -> None:
        names = [alternative.value for alternative in self.option.alternatives]
        self._group.button(names.index(value)).setChecked(True)

    def _choose(self, number: int) -> None:
        self.report(self.option.alternatives[number].value)


class _PlainChoice(OptionControl):
    option: Choice

    def _build(self) -> QWidget:
        self._box = QComboBox()
        self._box.setMinimumWidth(_NUMBER_WIDTH)
        for alternative in self.option.alternatives:
            self._box.addItem(alternative.label, alternative.value)
        self._box.activated.connect(self._choose)
        return self._box

    def show_value(self, value: Any) -> None:
        self._box.setCurrentIndex(self._box.findData(value))

    def _choose(self, number: int) -> None:
        self.report(self._box.itemData(number))


class _NumberControl(OptionControl):
    option: Number

    def _build(self) -> QWidget:
        self._box: QSpinBox | QDoubleSpinBox = QDoubleSpinBox() if self.option.decimals else QSpinBox()
        if isinstance(self._box, QDoubleSpinBox):
            self._box.setDecimals(self.option.decimals)
            self._box.setRange(self.option.low, self.option.high)
            self._box.setSingleStep(self.option.step)
        else:
            self._box.setRange(int(self.option.low), int(self.option.high))
            self._box.setSingleStep(int(self.option.step))
        self._box.setSuffix(f" {self.option.unit}" if self.option.unit else "")
        self._box.setKeyboardTracking(False)
        self._box.setMinimumWidth(_NUMBER_WIDTH)
        for edit in self._box.findChildren(QLineEdit):
            edit.setTextMargins(6, 0, 0, 0)
        self._box.valueChanged.connect(self.report)
        return self._box

    def show_value(self, value: Any) -> None:
        self._box.blockSignals(True)
        self._box.setValue(value)
        self._box.blockSignals(False)


class _TextControl(OptionControl):
    option: Text

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


class _PlaceControl(OptionControl):
    option: Place

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
        Place: _PlaceControl,
    }
    return fitting[type(option)](option)


def help_label(text: str, indent: int = 0) -> QLabel:
    label = QLabel(text)
    label.setProperty("role", "small")
    label.setWordWrap(True)
    label.setIndent(indent)
    return label


def _hairline() -> QWidget:
    line = QWidget()
    line.setFixedHeight(1)
    line.setAutoFillBackground(True)
    line.setBackgroundRole(QPalette.ColorRole.Mid)
    return line


class SettingsDialog(QDialog):
    """All options by section."""

    changed = Signal(str, object)  # (key, value)
    reload_requested = Signal()
    defaults_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.controls: dict[str, OptionControl] = {}
        self._labels: dict[str, QLabel] = {}
        self.reload_button = self._button("Reload the model now", self.reload_requested)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._page(), 1)
        column.addWidget(_hairline())
        column.addWidget(self._bottom())
        self.resize(600, 640)

    def show_settings(self, settings: Settings, *, reload_pending: bool) -> None:
        """Bring every control up to date."""
        for key, control in self.controls.items():
            control.show_value(settings[key])
            matters = settings.matters(control.option)
            control.widget.setEnabled(matters)
            self._labels[key].setEnabled(matters)
        self.reload_button.setEnabled(reload_pending)

    def _page(self) -> QScrollArea:
        page = QWidget()
        grid = QGridLayout(page)
        grid.setContentsMargins(24, 16, 24, 16)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        section = ""
        for option in OPTIONS:
            if option.section != section:
                section = option.section
                self._add_section(grid, section)
            self._add_option(grid, option)
        self._add_reload(grid)
        grid.setRowStretch(grid.rowCount(), 1)
        scroll = QScrollArea()
        scroll.setWidget(page)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        return scroll

    def _add_section(self, grid: QGridLayout, name: str) -> None:
        row = grid.rowCount()
        title = QLabel(name)
        title.setProperty("role", "title")
        title.setContentsMargins(0, 0 if row == 1 else 16, 0, 4)
        grid.addWidget(title, row, 0, 1, 2)

    def _add_option(self, grid: QGridLayout, option: Option) -> None:
        row = grid.rowCount()
        control = control_for(option)
        control.setParent(self)
        control.changed.connect(self.changed)
        self.controls[option.key] = control
        label = QLabel(option.label)
        label.setBuddy(control.named())
        self._labels[option.key] = label
        label.setContentsMargins(0, 5, 0, 0)
        grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
        wide = isinstance(control, _ExplainedChoice | _TextControl | _PlaceControl)
        grid.addWidget(control.widget, row, 1, Qt.AlignmentFlag(0) if wide else Qt.AlignmentFlag.AlignLeft)
        if option.help and not isinstance(control, _ExplainedChoice):
            grid.addWidget(help_label(option.help), row + 1, 1)
        grid.setRowMinimumHeight(row + 2, 4)

    def _add_reload(self, grid: QGridLayout) -> None:
        row = grid.rowCount()
        note = help_label("The model section applies when the model is reloaded; the rest applies to the next message.")
        grid.addWidget(note, row, 1)
        grid.addWidget(self.reload_button, row + 1, 1, Qt.AlignmentFlag.AlignLeft)

    def _bottom(self) -> QWidget:
        bottom = QWidget()
        row = QHBoxLayout(bottom)
        row.setContentsMargins(24, 12, 24, 12)
        row.addWidget(self._button("Restore defaults", self.defaults_requested))
        row.addStretch(1)
        close = QPushButton("Close")
        close.setDefault(True)
        close.clicked.connect(self.accept)
        row.addWidget(close)
        return bottom

    def _button(self, label: str, signal: object) -> QPushButton:
        button = QPushButton(label)
        button.setAutoDefault(False)
        button.clicked.connect(signal)
        return button
