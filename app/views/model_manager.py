"""The models and heads of this machine, those that can be had, and what is on its way between the two.

Every wish is passed on; nothing is done here. Knows nothing of the disk, of connections or of what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.shelf import FOR, Shelf
from app.views.file_drops import FileDrops
from app.views.model_rows import OfferRow, ThingRow
from app.views.transfers import Transfers

_Row = TypeVar("_Row", bound=QWidget)
_FIRST_SIZE = (760, 680)
_MARGIN = 16
_FILES = "*.gguf *.GGUF *.safetensors *.pt"
EMPTY = (
    "There is nothing here yet. Turn to “Get more” for models from the Hub, or drop a model’s folder, "
    "a .gguf file or a file of heads here."
)
_LOOKING = "Looking through the folder of models…"
_NETWORK = "Nothing is asked of the network before you press Get."


class ModelManager(QDialog):
    """Two pages: what is here, and what can be had. Signals of things carry their keys."""

    use_asked = Signal(str)
    removal_asked = Signal(str)
    check_asked = Signal(str)
    reveal_asked = Signal(str)
    training_asked = Signal()
    get_asked = Signal(object)  # Wanted
    named_asked = Signal(str, str)  # what was written as a name, and the GGUF file
    import_asked = Signal(list)  # of Paths
    export_asked = Signal(str, str, object)  # key of heads, format, Path of the folder to write into

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Models")
        FileDrops(self).dropped.connect(self.import_asked)
        self.things: dict[str, ThingRow] = {}
        self.offers: dict[str, OfferRow] = {}
        self.transfers = Transfers()
        self._pages = QStackedWidget()
        self.here_tab, self.more_tab = self._tab("On this computer", 0), self._tab("Get more", 1)
        self._empty = _words(_LOOKING)
        self._here, self._more = QVBoxLayout(), QVBoxLayout()
        self.repo_edit, self.file_edit = QLineEdit(), QLineEdit()
        self.get_button = self._button("Get", self._get_named)
        self._pages.addWidget(self._page(self._here, self._import_bar()))
        self._pages.addWidget(self._page(self._more, self._named_bar()))
        self._here.addWidget(self._empty)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN, 12, _MARGIN, 12)
        column.setSpacing(12)
        column.addLayout(self._tabs())
        column.addWidget(self.transfers)
        column.addWidget(self._pages, 1)
        column.addLayout(self._bottom())
        self.resize(*_FIRST_SIZE)
        self.show_page(0)

    # What is shown

    def show_shelf(self, shelf: Shelf, uses: Mapping[str, str], checks: Mapping[str, str], underway: set[str]) -> None:
        """All rows. By key: how things are used, and what verifying found; `underway`: names of downloads."""
        self._sync(self.things, [thing.key for thing in shelf.things], self._here, self._thing_row)
        for thing in shelf.things:
            self.things[thing.key].show_thing(thing, uses.get(thing.key, ""), checks.get(thing.key, ""))
        self._empty.setText(EMPTY)
        self._empty.setVisible(not shelf.things)
        self._sync(self.offers, [offer.entry.model for offer in shelf.offers], self._more, self._offer_row)
        for offer in shelf.offers:
            entry = offer.entry
            self.offers[entry.model].show_offer(
                offer,
                here=entry.model == "default" or shelf.has(entry.model),
                heads_here=any(shelf.has(heads.repo) for heads in entry.heads),
                underway=entry.model in underway,
            )

    def show_page(self, number: int) -> None:
        """0: what is here; 1: what can be had."""
        self._pages.setCurrentIndex(number)
        self.here_tab.setChecked(number == 0)
        self.more_tab.setChecked(number == 1)

    def _sync(self, rows: dict[str, _Row], keys: Sequence[str], column: QVBoxLayout, make: Callable[[], _Row]) -> None:
        """One row for each key, in this order; rows that stay keep focus and state."""
        for key in set(rows) - set(keys):
            row = rows.pop(key)
            column.removeWidget(row)
            row.hide()
            row.deleteLater()
        for place, key in enumerate(keys):
            if key not in rows:
                rows[key] = make()
            if column.indexOf(rows[key]) != place:
                column.insertWidget(place, rows[key])

    def _thing_row(self) -> ThingRow:
        row = ThingRow()
        row.use_asked.connect(self.use_asked)
        row.removal_asked.connect(self.removal_asked)
        row.check_asked.connect(self.check_asked)
        row.reveal_asked.connect(self.reveal_asked)
        row.export_asked.connect(self._choose_target)
        row.training_asked.connect(self.training_asked)
        return row

    def _offer_row(self) -> OfferRow:
        row = OfferRow()
        row.get_asked.connect(self.get_asked)
        return row

    # Bringing things in

    def _get_named(self) -> None:
        if text := self.repo_edit.text().strip():
            self.named_asked.emit(text, self.file_edit.text().strip())
            self.repo_edit.clear()
            self.file_edit.clear()

    def _choose_target(self, key: str, to: str) -> None:
        if chosen := QFileDialog.getExistingDirectory(self, f"Write heads {FOR[to]}: into which folder?"):
            self.export_asked.emit(key, to, Path(chosen))

    def _choose_folder(self) -> None:
        if chosen := QFileDialog.getExistingDirectory(self, "Import a model’s or heads’ folder"):
            self.import_asked.emit([Path(chosen)])

    def _choose_file(self) -> None:
        chosen, _kind = QFileDialog.getOpenFileName(
            self, "Import a GGUF file, or published heads", "", f"Models and heads ({_FILES});;All files (*)"
        )
        if chosen:
            self.import_asked.emit([Path(chosen)])

    def showEvent(self, event: QShowEvent) -> None:
        """Never larger than the screen, whatever the scale."""
        super().showEvent(event)
        self.resize(self.size().boundedTo(self.screen().availableSize() * 0.95))

    # Building

    def _tab(self, label: str, number: int) -> QPushButton:
        tab = self._button(label, self._turn)
        tab.setProperty("role", "tab")
        tab.setProperty("page", number)
        tab.setCheckable(True)
        return tab

    def _turn(self) -> None:
        tab = self.sender()
        if isinstance(tab, QPushButton):
            self.show_page(int(tab.property("page")))

    def _tabs(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(0)
        row.addWidget(self.here_tab)
        row.addWidget(self.more_tab)
        row.addStretch(1)
        return row

    def _page(self, rows: QVBoxLayout, bar: QWidget) -> QWidget:
        rows.setContentsMargins(0, 0, 8, 0)
        rows.setSpacing(4)
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(rows)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(inner)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        page = QWidget()
        both = QVBoxLayout(page)
        both.setContentsMargins(0, 0, 0, 0)
        both.setSpacing(8)
        both.addWidget(scroll, 1)
        both.addWidget(bar)
        return page

    def _import_bar(self) -> QWidget:
        folder, file = (
            self._button("Import a folder…", self._choose_folder),
            self._button("Import a file…", self._choose_file),
        )
        words = "A model’s or heads’ folder, a .gguf file or a file of heads can be dropped here too."
        return _bar(_words(words), folder, file)

    def _named_bar(self) -> QWidget:
        self.repo_edit.setPlaceholderText("Any model or heads of the Hub: ORG/NAME, or a page’s address")
        self.repo_edit.setAccessibleName("Name on the Hub")
        self.file_edit.setPlaceholderText("FILE.gguf")
        self.file_edit.setAccessibleName("GGUF file of the repository")
        for edit in (self.repo_edit, self.file_edit):
            edit.returnPressed.connect(self._get_named)
        return _bar(self.repo_edit, self.file_edit, self.get_button)

    def _bottom(self) -> QHBoxLayout:
        close = self._button("Close", self.accept)
        note = _words(_NETWORK)
        row = QHBoxLayout()
        row.addWidget(note, 1)
        row.addWidget(close)
        return row

    def _button(self, label: str, do: object) -> QPushButton:
        button = QPushButton(label)
        button.setAutoDefault(False)
        button.clicked.connect(do)
        return button


def _words(text: str) -> QLabel:
    label = QLabel(text)
    label.setProperty("role", "small")
    label.setWordWrap(True)
    return label


def _bar(first: QWidget, *others: QWidget) -> QWidget:
    bar = QWidget()
    row = QHBoxLayout(bar)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(8)
    row.addWidget(first, 1)
    for widget in others:
        row.addWidget(widget)
    return bar
