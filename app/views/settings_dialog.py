"""The settings, generated from their declaration: a page per section, one control per option, its help beneath.

A change is passed on at once; nothing waits for an OK. Knows nothing of files, or of what an option does.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.option_table import OPTIONS
from app.options import Option
from app.settings import Settings
from app.theme import Theme
from app.views.settings_controls import OptionControl, control_for, help_label
from app.views.threshold_plot import ThresholdPlot

_NAV_WIDTH = 148  # px
_FIRST_SIZE = (760, 640)
RELOAD_NOTE = "This page applies when the model is reloaded. Everything else applies to the next message, or at once."
RESTART_NOTE = "Applies when the app is started again."
PENDING = "Model settings have changed: they apply when the model is reloaded."


class SettingsDialog(QDialog):
    """All options by section."""

    changed = Signal(str, object)  # (key, value)
    reload_requested = Signal()
    defaults_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.controls: dict[str, OptionControl] = {}
        self._beside: dict[str, list[QLabel]] = {}  # label and help of each option
        self._headings: dict[str, QLabel] = {}
        self.plot = ThresholdPlot(theme)
        self.reload_button = self._button("Reload the model", self.reload_requested)
        self.pending = QLabel(PENDING)
        self.pending.setProperty("role", "small")
        self._pages = QStackedWidget()
        self.nav = self._navigation()
        middle = QHBoxLayout()
        middle.setSpacing(0)
        middle.addWidget(self._beside_pages())
        middle.addWidget(_hairline(vertical=True))
        middle.addWidget(self._pages, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(middle, 1)
        column.addWidget(_hairline())
        column.addWidget(self._bottom())
        self.resize(*_FIRST_SIZE)

    def show_settings(self, settings: Settings, *, reload_pending: bool) -> None:
        """Bring every control up to date."""
        alive = set()
        for key, control in self.controls.items():
            control.show_settings(settings)
            matters = settings.matters(control.option)
            control.widget.setEnabled(matters)
            for widget in self._beside[key]:
                widget.setEnabled(matters)
            if matters:
                alive.add(control.option.group)
        for group, heading in self._headings.items():
            heading.setEnabled(group in alive)
        self.plot.show_numbers(settings["epsilon"], settings["delta"])
        self.plot.setEnabled(self.controls["epsilon"].widget.isEnabled())
        self.reload_button.setEnabled(reload_pending)
        self.pending.setVisible(reload_pending)

    def show_section(self, name: str) -> None:
        """Turn to a page."""
        for found in self.nav.findItems(name, Qt.MatchFlag.MatchExactly):
            self.nav.setCurrentItem(found)

    def texts_beside(self, key: str) -> list[str]:
        """What an option's label and help say."""
        return [label.text() for label in self._beside[key]]

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self.plot.set_theme(theme)

    def showEvent(self, event: QShowEvent) -> None:
        """Never larger than the screen, whatever the scale."""
        super().showEvent(event)
        self.nav.doItemsLayout()  # the first one was made before the style sheet gave the rows their height
        room = self.screen().availableSize()
        self.resize(self.size().boundedTo(room * 0.95))

    def _navigation(self) -> QListWidget:
        nav = QListWidget()
        nav.setAccessibleName("Sections")
        nav.setFixedWidth(_NAV_WIDTH)
        nav.setFrameShape(QFrame.Shape.NoFrame)
        for section in dict.fromkeys(option.section for option in OPTIONS):
            nav.addItem(section)
            self._pages.addWidget(self._page(section))
        nav.currentRowChanged.connect(self._pages.setCurrentIndex)
        nav.setCurrentRow(0)
        return nav

    def _beside_pages(self) -> QWidget:
        box = QWidget()
        column = QVBoxLayout(box)
        column.setContentsMargins(8, 12, 8, 12)
        column.addWidget(self.nav)
        return box

    def _page(self, section: str) -> QScrollArea:
        page = QWidget()
        grid = QGridLayout(page)
        grid.setContentsMargins(24, 20, 24, 20)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(4)
        grid.setColumnMinimumWidth(0, self._label_width())
        grid.setColumnStretch(1, 1)
        title = QLabel(section)
        title.setProperty("role", "title")
        grid.addWidget(title, 0, 0, 1, 2)
        grid.setRowMinimumHeight(1, 8)
        options = [option for option in OPTIONS if option.section == section]
        if any(option.needs_reload for option in options):
            grid.addWidget(self._reload_notice(), 2, 0, 1, 2)
            grid.setRowMinimumHeight(3, 8)
        group = ""
        for option in options:
            if option.group != group:
                group = option.group
                self._add_heading(grid, group)
            self._add_option(grid, option)
        grid.setRowStretch(grid.rowCount(), 1)
        return _scrolling(page)

    def _label_width(self) -> int:
        """Of the widest label on any page, so that the controls of all pages stand in one line."""
        return max(self.fontMetrics().horizontalAdvance(option.label) for option in OPTIONS)

    def _add_heading(self, grid: QGridLayout, name: str) -> None:
        row = grid.rowCount()
        heading = self._headings[name] = QLabel(name)
        heading.setProperty("role", "title")
        heading.setContentsMargins(0, 16, 0, 4)
        grid.addWidget(heading, row, 0, 1, 2)

    def _add_option(self, grid: QGridLayout, option: Option) -> None:
        row = grid.rowCount()
        control = control_for(option)
        control.setParent(self)
        control.changed.connect(self.changed)
        self.controls[option.key] = control
        label = QLabel(option.label)
        label.setBuddy(control.named())
        label.setContentsMargins(0, 5, 0, 0)
        beside = self._beside[option.key] = [label]
        grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(control.widget, row, 1, Qt.AlignmentFlag(0) if control.is_wide else Qt.AlignmentFlag.AlignLeft)
        text = f"{option.help} {RESTART_NOTE}" if option.needs_restart else option.help
        if text and not control.explains_itself:
            beside.append(help_label(text))
            grid.addWidget(beside[-1], row + 1, 1)
        if option.key == "delta":
            grid.setRowMinimumHeight(row + 2, 8)
            grid.addWidget(self.plot, row + 3, 1)
            row += 2
        grid.setRowMinimumHeight(row + 2, 8)

    def _reload_notice(self) -> QFrame:
        notice = QFrame()
        notice.setProperty("role", "panel")
        row = QHBoxLayout(notice)
        row.setContentsMargins(12, 8, 8, 8)
        row.setSpacing(12)
        row.addWidget(help_label(RELOAD_NOTE), 1)
        row.addWidget(self.reload_button)
        return notice

    def _bottom(self) -> QWidget:
        bottom = QWidget()
        row = QHBoxLayout(bottom)
        row.setContentsMargins(16, 12, 24, 12)
        row.setSpacing(12)
        row.addWidget(self._button("Restore defaults", self.defaults_requested))
        row.addStretch(1)
        row.addWidget(self.pending)
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


def _scrolling(page: QWidget) -> QScrollArea:
    scroll = QScrollArea()
    scroll.setWidget(page)
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return scroll


def _hairline(*, vertical: bool = False) -> QWidget:
    line = QWidget()
    if vertical:
        line.setFixedWidth(1)
    else:
        line.setFixedHeight(1)
    line.setAutoFillBackground(True)
    line.setBackgroundRole(QPalette.ColorRole.Mid)
    return line
