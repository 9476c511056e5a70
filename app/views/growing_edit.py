"""A text field as high as its text, up to eight lines. Knows nothing of what is typed."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy

_MOST_LINES = 8
_PADDING = 4  # px, inside the text field
_FRAME = 5  # px, the style sheet's border and padding


class GrowingEdit(QPlainTextEdit):
    """Tab leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(_PADDING)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.height())

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Files that are dropped are the window's: their addresses are no text to send."""
        return not any(url.isLocalFile() for url in source.urls()) and super().canInsertFromMimeData(source)

    def height_of(self, lines: int) -> int:
        """With so many lines of text."""
        line = math.ceil(QFontMetricsF(self.font()).lineSpacing() + 0.5)  # the layout rounds up, metrics round down
        return lines * line + 2 * (_PADDING + _FRAME) + 2  # one spare pixel a side, or the text can be scrolled

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        lines = max(1, math.ceil(self.document().size().height()))
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if lines > _MOST_LINES else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(policy)
        self.setFixedHeight(self.height_of(min(_MOST_LINES, lines)))
