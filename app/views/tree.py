"""The widget that shows the candidate tree of one step: root at the left, a column per depth.

Ctrl and the wheel zoom, a drag pans, a double click fits, hovering tells a node's numbers. Knows nothing of the steps
before or after the one shown, and nothing of charts.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QVariantAnimation
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QStyle, QToolButton, QToolTip, QWidget

from app.theme import Theme, token_font, ui_font
from app.views import tree_words as words
from app.views.tree_layout import Box, Extent, Grid, Slot, fit, slots_of
from app.views.tree_paint import paint_heads, paint_key, paint_tree, space_mark
from medusa_core.events import Node, Step

HEAD_PX = 36.0  # the column heads
KEY_PX = 24.0  # the key to the states
FADE_MS = 120
ZOOM_LIMITS = (1.0, 6.0)


class TreeView(QWidget):
    """Shows one step's candidate tree, or a sentence where there is none."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._step: Step | None = None
        self._message = ""
        self._slots: tuple[Slot, ...] = ()
        self._extent = Extent()
        self._acceptance: tuple[float, ...] = ()
        self._zoom = 1.0
        self._offset = QPointF()
        self._drag_from: QPointF | None = None
        self._fade = QVariantAnimation(self, startValue=0.25, endValue=1.0, duration=FADE_MS)
        self._fade.valueChanged.connect(self.update)
        self._fit = QToolButton(self, text="Fit")
        self._fit.setToolTip("Show the whole tree again (double click)")
        self._fit.clicked.connect(self.fit)
        self.setMinimumHeight(140)
        self.setAccessibleName("Candidate tree")

    def sizeHint(self) -> QSize:
        """Room for the default tree at full size."""
        return QSize(388, 300)

    @property
    def step(self) -> Step | None:
        """The step on screen."""
        return self._step

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self.update()

    def clear(self, message: str) -> None:
        """Show `message` instead of a tree and forget the extent of the trees so far."""
        self._step, self._slots, self._extent, self._acceptance = None, (), Extent(), ()
        self.fit()
        self.set_message(message)

    def set_message(self, message: str) -> None:
        """The sentence shown while there is no tree."""
        self._message = message
        if self._step is None:
            self.setAccessibleDescription(message)
        self.update()

    def show_step(self, step: Step, acceptance: Sequence[float], *, fade: bool = False) -> None:
        """Draw this step's tree; `acceptance` is the running share per head, shown over the columns."""
        changed = step is not self._step
        self._step, self._acceptance = step, tuple(acceptance)
        self._slots = slots_of(step.nodes)
        self._extent = self._extent.grown(self._slots)
        self.setAccessibleDescription(words.description(step))
        self._fade.stop()
        # A duration of 0 is how a desktop asks for no motion.
        if fade and changed and self.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration, None, self):
            self._fade.start()
        self.update()

    def fit(self) -> None:
        """Back to the size at which the whole tree shows."""
        self._zoom, self._offset = 1.0, QPointF()
        self._fit.hide()
        self.update()

    @property
    def zoomed(self) -> bool:
        """Whether the tree is larger than its fitted size, or moved."""
        return self._zoom != 1.0 or not self._offset.isNull()

    @property
    def fading(self) -> bool:
        """Whether a held step is still fading in."""
        return self._fade.state() is QVariantAnimation.State.Running

    def grid(self) -> Grid:
        """The grid at the present size and zoom."""
        grid = fit(self._extent, self.width(), self.height() - HEAD_PX - KEY_PX)
        zoom = self._zoom
        return Grid(grid.chip_width * zoom, grid.chip_height * zoom, grid.column_pitch * zoom, grid.row_pitch * zoom)

    def boxes(self) -> tuple[Box, ...]:
        """The rectangle of every node in widget px."""
        grid, dx, dy = self.grid(), self._offset.x(), self._offset.y() + HEAD_PX
        boxes = (grid.box(slot) for slot in self._slots)
        return tuple(Box(box.x + dx, box.y + dy, box.width, box.height) for box in boxes)

    def node_at(self, position: QPointF) -> Node | None:
        """The node under the point."""
        if self._step is None or not HEAD_PX <= position.y() <= self.height() - KEY_PX:
            return None
        pairs = zip(self._step.nodes, self.boxes(), strict=True)
        return next((node for node, box in pairs if box.contains(position.x(), position.y())), None)

    def help_at(self, position: QPointF) -> str:
        """The tooltip for the point; empty where there is nothing to say."""
        if self._step is not None and position.y() < HEAD_PX:
            return f"<qt>{words.COLUMN_HELP}</qt>"
        if self._step is not None and position.y() > self.height() - KEY_PX:
            return f"<qt>{words.KEY_HELP}</qt>"
        node = self.node_at(position)
        if self._step is None or node is None:
            return ""
        ended_reply = self._step.stop_node is not None and node is self._step.nodes[self._step.stop_node]
        note = "" if node.depth else self._step.note
        return words.tooltip(node, ended_reply=ended_reply, note=note).replace("␠", space_mark(token_font()))

    def event(self, event: QEvent) -> bool:
        """Answers the request for a tooltip with the numbers of the node under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.help_at(QPointF(event.pos())), self)  # no text hides it
            return True
        return super().event(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ctrl: zoom about the pointer. Without Ctrl: move a tree that does not fit."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._zoom_about(event.position(), 1.2 ** (event.angleDelta().y() / 120))
        else:
            self._move_by(QPointF(event.angleDelta()) / 3)
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A drag may start here."""
        self._drag_from = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pan."""
        if self._drag_from is not None:
            self._move_by(event.position() - self._drag_from)
            self._drag_from = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The drag ends."""
        self._drag_from = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Fit."""
        self.fit()

    def _zoom_about(self, point: QPointF, factor: float) -> None:
        zoom = min(max(self._zoom * factor, ZOOM_LIMITS[0]), ZOOM_LIMITS[1])
        anchor = point - QPointF(0, HEAD_PX)
        self._offset = anchor - (anchor - self._offset) * (zoom / self._zoom)
        self._zoom = zoom
        self._move_by(QPointF())

    def _move_by(self, delta: QPointF) -> None:
        """Move, but never past the ends of the tree."""
        width, height = self.grid().size(self._extent)
        room = self.height() - HEAD_PX - KEY_PX
        x = min(max(self._offset.x() + delta.x(), min(self.width() - width, 0)), 0)
        y = min(max(self._offset.y() + delta.y(), min(room - height, 0)), 0)
        self._offset = QPointF(x, y)
        self._fit.setVisible(self.zoomed)
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The fit button stays at the lower right, and the tree within its ends."""
        size = self._fit.sizeHint()
        self._fit.setGeometry(self.width() - size.width(), self.height() - size.height(), size.width(), size.height())
        self._move_by(QPointF())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Everything, in one pass."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._step is None:
            self._paint_message(painter)
            return
        paint_heads(painter, self._theme, self._columns(), (1.0, *self._acceptance))  # the root is always kept
        painter.setClipRect(QRectF(0, HEAD_PX, self.width(), self.height() - HEAD_PX - KEY_PX))
        if self.fading:
            painter.setOpacity(self._fade.currentValue())
        paint_tree(painter, self._step, self.boxes(), self._theme, self._zoom)
        painter.setOpacity(1.0)
        painter.setClipping(False)
        paint_key(painter, self._theme, self.height() - KEY_PX / 2)

    def _columns(self) -> list[Box]:
        grid, dx = self.grid(), self._offset.x()
        boxes = (grid.box(Slot(column, 0)) for column in range(self._extent.columns))
        return [Box(box.x + dx, box.y, box.width, box.height) for box in boxes]

    def _paint_message(self, painter: QPainter) -> None:
        painter.setFont(ui_font())
        painter.setPen(QColor(self._theme.text_muted))
        room = QRectF(self.rect()).adjusted(24, 24, -24, -24)
        painter.drawText(room, int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap), self._message)
