"""The main window: toolbar, sidebar, chat column, decoding panel, status bar. Knows nothing of what they show or do."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import qtawesome
from PySide6.QtCore import QByteArray, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent, QKeySequence, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QMainWindow,
    QSizePolicy,
    QSplitter,
    QToolBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.options import Choice
from app.theme import Theme
from app.views.status_line import StatusLine

MINIMUM_SIZE = QSize(900, 600)
FIRST_SIZE = QSize(1280, 820)
PANEL_WIDTH = 420
SIDEBAR_WIDTH = 220
CHAT_LEAST_WIDTH = 320
_ROOM_FOR_SIDEBAR = 1200  # narrower windows fold it by themselves, never the panel: people come to see that


class MainWindow(QMainWindow):
    """Frame around the chat and the panel."""

    painted = Signal()  # once, after the first frame is on the screen
    closing = Signal()
    new_chat_requested = Signal()
    settings_requested = Signal()
    about_requested = Signal()
    models_requested = Signal()
    training_requested = Signal()
    stop_requested = Signal()
    search_requested = Signal()
    find_requested = Signal()
    find_next_requested = Signal()
    find_previous_requested = Signal()
    regenerate_requested = Signal()
    previous_variant_requested = Signal()
    next_variant_requested = Signal()
    panel_toggled = Signal(bool)
    tint_toggled = Signal(bool)
    acceptance_chosen = Signal(str)

    def __init__(
        self, theme: Theme, acceptance: Choice, sidebar: QWidget, chat_column: Sequence[QWidget], panel: QWidget
    ) -> None:
        super().__init__()
        self.setWindowTitle("Medusa Chat")
        self.setMinimumSize(MINIMUM_SIZE)
        self.resize(FIRST_SIZE)
        self.may_close: Callable[[], bool] = lambda: True  # asked before the window closes
        self._was_painted = False
        self._icons: dict[QAction, str] = {}
        self._sidebar, self._panel = sidebar, panel
        self._folded_by_itself = False
        self._splitter = self._columns(sidebar, chat_column, panel)
        self.setCentralWidget(self._splitter)
        self.setAnimated(False)  # no dock ever moves, and Qt would make an animation whenever a text is laid out
        self._make_actions()
        self.rule_box = self._make_rule_box(acceptance)
        self._toolbar = self._make_toolbar()
        self.addToolBar(self._toolbar)
        self._make_status_bar()
        self.set_theme(theme)

    def _columns(self, sidebar: QWidget, chat_column: Sequence[QWidget], panel: QWidget) -> QSplitter:
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for number, widget in enumerate(chat_column):
            column.addWidget(widget, 0 if number else 1)
        middle.setMinimumWidth(CHAT_LEAST_WIDTH)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setChildrenCollapsible(False)
        splitter.setHandleWidth(1)
        for number, widget in enumerate((sidebar, middle, panel)):
            splitter.addWidget(widget)
            splitter.setStretchFactor(number, int(widget is middle))
        splitter.setSizes([SIDEBAR_WIDTH, FIRST_SIZE.width() - SIDEBAR_WIDTH - PANEL_WIDTH, PANEL_WIDTH])
        return splitter

    # Toolbar

    def _make_actions(self) -> None:
        self.sidebar_action = self._action("Conversations", "Ctrl+B", "mdi6.dock-left", checkable=True)
        self.sidebar_action.toggled.connect(self._toggle_sidebar)
        self.new_chat_action = self._action("New chat", "Ctrl+N", "mdi6.square-edit-outline")
        self.new_chat_action.triggered.connect(self.new_chat_requested)
        self.models_action = self._action("Models", "Ctrl+M", "mdi6.cube-outline")
        self.models_action.triggered.connect(self.models_requested)
        self.settings_action = self._action("Settings", "Ctrl+,", "mdi6.cog-outline")
        self.settings_action.triggered.connect(self.settings_requested)
        self.about_action = self._action("About", "F1", "mdi6.information-outline")
        self.about_action.triggered.connect(self.about_requested)
        self.tint_action = self._action("Tint drafted words", "Ctrl+T", "mdi6.marker", checkable=True)
        self.tint_action.toggled.connect(self.tint_toggled)
        self.panel_action = self._action("Decoding panel", "F9", "mdi6.file-tree-outline", checkable=True)
        self.panel_action.toggled.connect(self._toggle_panel)
        self.rule_action = self._unseen("Choose which guesses are kept", "Ctrl+E", self._focus_rule_box)
        self._unseen("Stop the reply", "Esc", self.stop_requested)
        self.search_action = self._unseen("Search", "Ctrl+K; Ctrl+Shift+F", self._search)
        self.find_action = self._unseen("Find in this chat", "Ctrl+F", self.find_requested)
        self._unseen("Next place in this chat", "F3; Ctrl+G", self.find_next_requested)
        self._unseen("Previous place in this chat", "Shift+F3; Ctrl+Shift+G", self.find_previous_requested)
        self.regenerate_action = self._unseen("Regenerate the last reply", "Ctrl+R", self.regenerate_requested)
        self.training_action = self._unseen("Train heads for this model", "Ctrl+H", self.training_requested)
        self._unseen("Previous variant", "Alt+Left", self.previous_variant_requested)
        self._unseen("Next variant", "Alt+Right", self.next_variant_requested)

    def _unseen(self, text: str, keys: str, do: object) -> QAction:
        """An action with keys alone: a semicolon stands between two that do the same."""
        action = QAction(text, self)
        action.setShortcuts(QKeySequence.listFromString(keys))
        action.triggered.connect(do)
        self.addAction(action)
        return action

    def _action(self, text: str, keys: str, icon: str, *, checkable: bool = False) -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.setToolTip(f"{text} ({QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)})")
        action.setCheckable(checkable)
        action.setChecked(checkable)
        self._icons[action] = icon
        return action

    def _make_rule_box(self, acceptance: Choice) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(acceptance.label)
        keys = self.rule_action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        box.setToolTip(f"Which guesses are kept, from the next message on ({keys})")
        box.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        for number, alternative in enumerate(acceptance.alternatives):
            box.addItem(alternative.label, alternative.value)
            box.setItemData(number, alternative.help, Qt.ItemDataRole.ToolTipRole)
        box.activated.connect(self._choose_acceptance)
        return box

    def _focus_rule_box(self) -> None:
        self.rule_box.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _make_toolbar(self) -> QToolBar:
        bar = QToolBar("Main")
        bar.setObjectName("main-toolbar")
        bar.setMovable(False)
        bar.setIconSize(QSize(18, 18))
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        bar.addAction(self.sidebar_action)
        bar.addAction(self.new_chat_action)
        gap = QWidget()
        gap.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        bar.addWidget(gap)
        label = QLabel("Acceptance")
        label.setProperty("role", "small")
        label.setBuddy(self.rule_box)
        label.setContentsMargins(0, 0, 4, 0)
        bar.addWidget(label)
        bar.addWidget(self.rule_box)
        last = (self.models_action, self.settings_action, self.about_action)
        for action in (self.tint_action, self.panel_action, *last):
            bar.addAction(action)
        for action in self._icons:
            button = bar.widgetForAction(action)
            if isinstance(button, QToolButton):
                button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
                button.setAccessibleName(action.text())
        new_chat = bar.widgetForAction(self.new_chat_action)
        if isinstance(new_chat, QToolButton):
            new_chat.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        return bar

    def set_theme(self, theme: Theme) -> None:
        for action, name in self._icons.items():
            action.setIcon(qtawesome.icon(name, color=theme.text_muted, color_active=theme.text, color_on=theme.accent))

    def show_acceptance(self, value: str) -> None:
        """Bring the quick switch up to date."""
        self.rule_box.setCurrentIndex(self.rule_box.findData(value))

    def _choose_acceptance(self, number: int) -> None:
        self.acceptance_chosen.emit(self.rule_box.itemData(number))

    def _toggle_sidebar(self, visible: bool) -> None:
        self._folded_by_itself = False
        self._sidebar.setVisible(visible)

    def _search(self) -> None:
        self.sidebar_action.setChecked(True)
        self.search_requested.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fold the sidebar where there is no room for it, and bring it back where there is again."""
        super().resizeEvent(event)
        before, now = event.oldSize().width(), event.size().width()
        if now < _ROOM_FOR_SIDEBAR <= before or (before < 0 and now < _ROOM_FOR_SIDEBAR):
            if self.sidebar_action.isChecked():
                self.sidebar_action.setChecked(False)
                self._folded_by_itself = True
        elif before < _ROOM_FOR_SIDEBAR <= now and self._folded_by_itself:
            self.sidebar_action.setChecked(True)

    def _toggle_panel(self, visible: bool) -> None:
        self._panel.setVisible(visible)
        self.panel_toggled.emit(visible)

    # Status bar

    def _make_status_bar(self) -> None:
        self.status_line = StatusLine()
        self.status_line.cancel_asked.connect(self.stop_requested)
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status_line, 1)

    def show_work(self, stage: str, done: float, total: float) -> None:
        """What is being done; with `total` 0 nobody knows for how long."""
        self.status_line.show_work(stage, done, total)

    def show_facts(self, facts: str, context: str, reason: str = "") -> None:
        """What is loaded, how full the context is, and why nothing is drafted."""
        self.status_line.show_facts(facts, context, reason)

    # State, painting and closing

    def state(self) -> dict[str, Any]:
        """Geometry and folds, to be kept until the next start."""
        return {
            "geometry": _encode(self.saveGeometry()),
            "columns": _encode(self._splitter.saveState()),
            "sidebar": self.sidebar_action.isChecked() or self._folded_by_itself,
            "panel": self.panel_action.isChecked(),
            "tint": self.tint_action.isChecked(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """The state of an earlier start; what cannot be understood is passed over."""
        self.restoreGeometry(_decode(state.get("geometry")))
        self._splitter.restoreState(_decode(state.get("columns")))
        self.sidebar_action.setChecked(state.get("sidebar") is not False)
        self.panel_action.setChecked(state.get("panel") is not False)
        self.tint_action.setChecked(state.get("tint") is not False)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self.painted.emit)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.may_close():
            event.ignore()
            return
        self.closing.emit()
        super().closeEvent(event)


def _encode(data: QByteArray) -> str:
    return base64.b64encode(data.data()).decode("ascii")


def _decode(text: object) -> QByteArray:
    try:
        return QByteArray(base64.b64decode(text, validate=True)) if isinstance(text, str) else QByteArray()
    except (ValueError, binascii.Error):
        return QByteArray()
