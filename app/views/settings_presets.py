"""A row to pick a text by name, to keep the present one under a name, and to remove a kept one.

Knows nothing of what the texts are for, or of where they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QInputDialog, QPushButton, QWidget

CUSTOM = "Not kept"  # the text belongs to no name


class PresetPicker(QWidget):
    """The names, "Keep as…" and "Remove"."""

    chosen = Signal(str)  # the text of the name that was picked
    edited = Signal(object)  # every text the person keeps, by name

    def __init__(self, built_in: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._built_in = dict(built_in)
        self._own: dict[str, str] = {}
        self._text = ""
        self.box = QComboBox()
        self.keep_button, self.remove_button = QPushButton("Keep as…"), QPushButton("Remove")
        self.keep_button.setToolTip("Keep the system prompt below under a name")
        self.remove_button.setToolTip("Remove this preset; the system prompt stays")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.box, 1)
        for button in (self.keep_button, self.remove_button):
            button.setAutoDefault(False)
            row.addWidget(button)
        self.box.activated.connect(self._choose)
        self.keep_button.clicked.connect(self._ask_for_name)
        self.remove_button.clicked.connect(self._remove)

    def show_texts(self, own: Mapping[str, str], text: str) -> None:
        """Offer the app's texts and these; the one that reads like `text` is shown as picked."""
        self._own, self._text = dict(own), text
        texts = {**self._built_in, **self._own}
        name = next((name for name, known in texts.items() if known.strip() == text.strip()), CUSTOM)
        names = [*texts, *([CUSTOM] if name == CUSTOM else [])]
        if names != [self.box.itemText(number) for number in range(self.box.count())]:
            self.box.clear()
            self.box.addItems(names)
        self.box.setCurrentText(name)
        self.keep_button.setEnabled(name == CUSTOM)
        self.remove_button.setEnabled(name in self._own)

    def keep(self, name: str) -> None:
        """Keep the present text under a name; one of the app's names is left to the app."""
        if (name := name.strip()) and name not in self._built_in and name != CUSTOM:
            self.edited.emit({**self._own, name: self._text})

    def _choose(self, _number: int) -> None:
        texts = {**self._built_in, **self._own}
        if self.box.currentText() in texts:
            self.chosen.emit(texts[self.box.currentText()])

    def _ask_for_name(self) -> None:
        dialog = QInputDialog(self)
        dialog.setWindowTitle("Keep the system prompt")
        dialog.setLabelText("Name of the preset")
        dialog.textValueSelected.connect(self.keep)
        dialog.open()

    def _remove(self) -> None:
        name = self.box.currentText()
        self.edited.emit({kept: text for kept, text in self._own.items() if kept != name})
