"""The page about the app shows every key whole."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.theme import load_themes
from app.views.about import KEYS, AboutDialog


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_line_is_squeezed(theme: str, qtbot: QtBot) -> None:
    dialog = AboutDialog(load_themes()[theme], "1.0")
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitExposed(dialog)
    labels = dialog.findChildren(QLabel)
    assert {text for keys in KEYS for text in keys} <= {label.text() for label in labels}
    for label in labels:
        needed = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
        assert label.height() >= needed, label.text()
        assert label.width() >= (0 if label.wordWrap() else label.sizeHint().width()), label.text()
