"""What the app is, whose work it builds on, and its keys. Knows nothing of the rest."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.theme import Theme

_WIDTH = 560  # px
_WHAT = (
    "A local language model answers; its Medusa heads guess several tokens ahead, and one pass of the model checks "
    "all guesses at once. Everything runs on this computer."
)
_CREDITS = (
    "Default model: <b>SmolLM2-135M-Instruct</b> by Hugging Face, Apache‑2.0.<br>"
    'Method: T. Cai, Y. Li, Z. Geng, H. Peng, J. D. Lee, D. Chen, T. Dao: <a href="https://arxiv.org/abs/2401.10774">'
    "<i>Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads</i></a>, 2024."
)
KEYS = (
    ("Enter", "Send the message"),
    ("Shift+Enter", "New line"),
    ("Esc", "Stop the reply, or cancel loading"),
    ("Ctrl+R", "Regenerate the last reply"),
    ("Alt+← Alt+→", "Previous or next variant of a question or reply"),
    ("Ctrl+N", "New chat"),
    ("Ctrl+F", "Find in this chat"),
    ("F3  Shift+F3", "In this chat: the next place found, or the one before"),
    ("Ctrl+K", "Search in all conversations (also Ctrl+Shift+F)"),
    ("Ctrl+B", "Show or fold the conversations"),
    ("Enter  F2  Del", "In the conversations: open, rename, delete"),
    ("Alt+U", "Undo a deletion"),
    ("Ctrl+E", "Go to the acceptance rule; ↑ ↓ choose"),
    ("Ctrl+T", "Tint drafted words, or not"),
    ("F9", "Show or fold the decoding panel"),
    ("← →  Home  End", "In the panel: previous or next step, the first, the newest"),
    ("↑ ↓  Enter", "In the tree: another node, and what can be done with it"),
    ("+ −  0", "In the tree: zoom, and fit again"),
    ("Click, or Enter", "On a word of a reply: show the step that wrote it"),
    ("Ctrl+M", "Models: get, import, switch, remove"),
    ("Ctrl+H", "Train heads for the loaded model"),
    ("Ctrl+,", "Settings"),
    ("F1", "This page"),
)


class AboutDialog(QDialog):
    """One page."""

    def __init__(self, theme: Theme, version: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Medusa Chat")
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 16)
        column.setSpacing(12)
        title = QLabel(f"Medusa Chat {version}")
        title.setProperty("role", "title")
        column.addWidget(title)
        column.addWidget(_paragraph(_WHAT))
        column.addWidget(_paragraph(_CREDITS.replace("<a ", f'<a style="color:{theme.accent}" ')))
        column.addLayout(_keys())
        close = QPushButton("Close")
        close.clicked.connect(self.accept)
        close.setDefault(True)
        column.addWidget(close, 0, Qt.AlignmentFlag.AlignRight)
        self.setFixedSize(_WIDTH, column.heightForWidth(_WIDTH))  # of wrapped lines Qt takes too little by itself


def _paragraph(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setToolTip("")
    return label


def _keys() -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(4)
    grid.setColumnStretch(1, 1)
    for row, (keys, what) in enumerate(KEYS):
        key, does = QLabel(keys), QLabel(what)
        key.setProperty("role", "muted")
        grid.addWidget(key, row, 0)
        grid.addWidget(does, row, 1)
    return grid
