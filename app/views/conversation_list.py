"""The conversations at the left of the window: search, the list, and what can be done with its rows.

Knows nothing of the store, or of what the open conversation shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListView,
    QMenu,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.conversations import Conversation, Group, Hit
from app.theme import Theme
from app.views.conversation_delegate import ConversationDelegate
from app.views.conversation_model import ROW, ConversationModel, conversation_of
from app.views.quiet_button import QuietButton

WIDTH = 220
_SEARCH_AFTER_MS = 120
_EMPTY = "No conversations yet.\n\nWhat you ask is kept here, on this computer only."


class ConversationList(QWidget):
    """One list for both: all conversations by date, or what a search found."""

    search_changed = Signal(str)
    opened = Signal(int, object)  # a conversation, and the message that was found, or None
    renamed = Signal(int, str)
    pinning_asked = Signal(int, bool)
    duplicate_asked = Signal(int)
    removal_asked = Signal(int)
    export_asked = Signal(object, str)  # the conversations' ids, None for all; "markdown" or "json"
    import_asked = Signal()
    all_removal_asked = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setAccessibleName("Conversations")
        self.setMinimumWidth(160)
        self._current: int | None = None
        self.model = ConversationModel(self)
        self.model.renamed.connect(self.renamed)
        self._delegate = ConversationDelegate(theme, self)
        self.search = self._search_field()
        self.more_button = self._more_button(theme)
        self.list = self._list_view()
        self._empty = QLabel(_EMPTY)
        self._empty.setProperty("role", "muted")
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._empty.setContentsMargins(10, 12, 10, 0)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.list)
        self._stack.addWidget(self._empty)
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(self.search, 1)
        head.addWidget(self.more_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 12, 4, 8)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self._stack, 1)
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(_SEARCH_AFTER_MS)
        self._wait.timeout.connect(self._report_search)

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, super().sizeHint().height())

    def _search_field(self) -> QLineEdit:
        field = QLineEdit()
        field.setPlaceholderText("Search")
        field.setAccessibleName("Search in all conversations")
        field.setToolTip("Search titles and texts (Ctrl+K)")
        field.setClearButtonEnabled(True)
        field.setMaxLength(500)
        for button in field.findChildren(QToolButton):
            button.setAccessibleName("Clear the search")
        field.textChanged.connect(self._search_soon)
        field.installEventFilter(self)
        return field

    def _more_button(self, theme: Theme) -> QuietButton:
        button = QuietButton(theme, "mdi6.dots-horizontal", "All conversations", "Import, export all", waits=False)
        menu = QMenu(button)
        self._add(menu, "Import…", self.import_asked.emit)
        menu.addSeparator()
        self._add(menu, "Export all as Markdown…", self._export_all_markdown)
        self._add(menu, "Export all as JSON…", self._export_all_json)
        menu.addSeparator()
        self._add(menu, "Delete all", self.all_removal_asked.emit)
        self.more_menu = menu
        button.clicked.connect(self._open_more)  # not setMenu, which draws an arrow beside the icon
        return button

    def _open_more(self) -> None:
        self.more_menu.popup(self.more_button.mapToGlobal(self.more_button.rect().bottomLeft()))

    def _list_view(self) -> QListView:
        view = QListView()
        view.setAccessibleName("Conversations")
        view.setModel(self.model)
        view.setItemDelegate(self._delegate)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        view.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(self._open_menu)
        view.clicked.connect(self._open)
        view.installEventFilter(self)
        return view

    # What it shows

    def show_groups(self, groups: Sequence[Group]) -> None:
        """All conversations."""
        self.model.show_groups(groups)
        self._settle(_EMPTY)

    def show_hits(self, words: str, hits: Sequence[Hit]) -> None:
        """What a search found."""
        self.model.show_hits(hits)
        self._settle(f"Nothing found for “{words}”.\n\nWords are found from their beginning, in titles and in texts.")

    def show_current(self, conversation: int | None) -> None:
        """Mark the open conversation."""
        self._current = conversation
        index = self.model.index_of(conversation)
        if index.isValid() or conversation is None:
            self.list.setCurrentIndex(index)

    def set_theme(self, theme: Theme) -> None:
        self._delegate.theme = theme
        self.more_button.set_theme(theme)
        self.list.viewport().update()

    def start_search(self) -> None:
        """Give the search field the keyboard."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    @property
    def empty_text(self) -> str:
        """What stands in place of an empty list; "" where there are rows."""
        return self._empty.text() if self._stack.currentWidget() is self._empty else ""

    def _settle(self, empty: str) -> None:
        self._empty.setText(empty)
        self._stack.setCurrentWidget(self.list if self.model.rows else self._empty)
        self.show_current(self._current)

    # What people do

    def _search_soon(self, text: str) -> None:
        if text:
            self._wait.start()
        else:
            self._report_search()

    def _report_search(self) -> None:
        self._wait.stop()
        self.search_changed.emit(self.search.text())

    def _open(self, index: QModelIndex) -> None:
        row = index.data(ROW) if index.isValid() else None
        if isinstance(row, Hit):
            self.opened.emit(row.conversation, row.message)
        elif isinstance(row, Conversation):
            self.opened.emit(row.id, None)

    def menu_for(self, index: QModelIndex) -> QMenu | None:
        """What can be done with a row."""
        row = index.data(ROW) if index.isValid() else None
        number = conversation_of(row) if isinstance(row, Conversation | Hit) else None
        if number is None:
            return None
        self.list.setCurrentIndex(index)
        menu = QMenu(self)
        if isinstance(row, Conversation):
            rename = self._add(menu, "Rename", self._rename)
            rename.setShortcut("F2")
            self._add(menu, "Unpin" if row.pinned else "Pin", self._toggle_pin)
        self._add(menu, "Duplicate", self._duplicate)
        menu.addSeparator()
        self._add(menu, "Export as Markdown…", self._export_markdown)
        self._add(menu, "Export as JSON…", self._export_json)
        menu.addSeparator()
        self._add(menu, "Delete", self._remove).setShortcut("Del")
        return menu

    def _open_menu(self, place: QPoint) -> None:
        # From the keyboard, the place is the middle of the list.
        index = self.list.indexAt(place)
        menu = self.menu_for(index if index.isValid() else self.list.currentIndex())
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.list.viewport().mapToGlobal(place))

    def _add(self, menu: QMenu, text: str, do: object) -> QAction:
        action = menu.addAction(text)
        action.triggered.connect(do)
        return action

    def _chosen(self) -> int:
        index = self.list.currentIndex()
        number = conversation_of(index.data(ROW)) if index.isValid() else None
        return -1 if number is None else number

    def _rename(self) -> None:
        self.list.edit(self.list.currentIndex())

    def _toggle_pin(self) -> None:
        row = self.list.currentIndex().data(ROW)
        if isinstance(row, Conversation):
            self.pinning_asked.emit(row.id, not row.pinned)

    def _duplicate(self) -> None:
        self.duplicate_asked.emit(self._chosen())

    def _remove(self) -> None:
        if (number := self._chosen()) >= 0:
            self.removal_asked.emit(number)

    def _export_markdown(self) -> None:
        self.export_asked.emit([self._chosen()], "markdown")

    def _export_json(self) -> None:
        self.export_asked.emit([self._chosen()], "json")

    def _export_all_markdown(self) -> None:
        self.export_asked.emit(None, "markdown")

    def _export_all_json(self) -> None:
        self.export_asked.emit(None, "json")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            key = event.key()
            if watched is self.search and key in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._enter_list()
                return True
            if watched is self.search and key == Qt.Key.Key_Escape and self.search.text():
                self.search.clear()
                return True
            if watched is self.list and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._open(self.list.currentIndex())
                return True
            if watched is self.list and key == Qt.Key.Key_Delete:
                self._remove()
                return True
        return super().eventFilter(watched, event)

    def _enter_list(self) -> None:
        if self._wait.isActive():
            self._report_search()
        first = next((n for n in range(self.model.rowCount()) if conversation_of(self.model.rows[n]) is not None), None)
        if first is not None:
            self.list.setFocus(Qt.FocusReason.OtherFocusReason)
            if not self.list.currentIndex().isValid() or self.search.text():
                self.list.setCurrentIndex(self.model.index(first))
