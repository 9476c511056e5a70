"""The frame of a block with a widget of its own: set in as its list or quote is. Knows nothing of what is inside."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.views.formats import inset_width
from app.views.lines import Inset
from app.views.marks import Marks
from app.views.prose import BAR_PX
from app.views.source_text import EDGE, SourceText


class BoxedText(QWidget):
    """A text in a frame, and what sets the frame in. `edge` px bring it level with the text of other blocks."""

    def __init__(self, marks: Marks, text: SourceText, edge: int) -> None:
        super().__init__()
        self.marks, self.text, self._edge = marks, text, edge
        self.start = 0  # of its block in the source
        self._insets: Sequence[Inset] = ()
        self._right_to_left = False
        self.column = QVBoxLayout(self)
        self.column.setSpacing(0)

    def set_in(self, insets: Sequence[Inset], *, right_to_left: bool, gap: int) -> None:
        """Where it stands: beneath a gap of some px, and how far from the side."""
        self._insets, self._right_to_left = insets, right_to_left
        aside = self._edge + sum(inset_width(inset) for inset in insets)
        left, right = (self._edge, aside) if right_to_left else (aside, self._edge)
        self.column.setContentsMargins(left, gap, right, 0)

    def settle(self) -> None:
        """Take the height that the text has now."""
        self.column.activate()

    def set_theme(self) -> None:
        """Dress it in the theme and the font of now."""
        self.text.set_theme()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        aside = EDGE
        for inset in self._insets:
            if inset is Inset.QUOTE:
                left = self.width() - aside - 2 * BAR_PX if self._right_to_left else aside + BAR_PX
                painter.fillRect(QRectF(left, 0, BAR_PX, self.height()), QColor(self.marks.theme.unreached))
            aside += inset_width(inset)
