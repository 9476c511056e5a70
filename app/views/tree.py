"""The widget that shows the candidate tree of one step: root at the left, a column per depth.

Ctrl and the wheel zoom, a drag pans, a double click fits; hovering, or ↑ and ↓, tell a node's numbers, and a click, or
Enter, chooses it. Knows nothing of the steps before or after the one shown, and nothing of charts.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, QVariantAnimation, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QStyle, QToolButton, QToolTip, QWidget

from app.theme import Theme, token_font
from app.views import tree_words as words
from app.views.tree_layout import Box, Extent, Grid, Slot, depth_beyond, fit, reading_order, slots_of
from app.views.tree_paint import (
    KEY_LINE_PX,
    paint_beyond,
    paint_heads,
    paint_key,
    paint_message,
    paint_ring,
    paint_tree,
    space_mark,
)
from medusa_core.events import Node, Step

HEAD_PX = 36.0  # the column heads
KEY_PX = 24.0 + KEY_LINE_PX  # the key to the states and the sources
RING_PX = 4.0  # that the ring about a node stands out
FADE_MS = 120
ZOOM_LIMITS = (1.0, 6.0)


class TreeView(QWidget):
    """Shows one step's candidate tree, or a sentence where there is none."""

    node_pointed = Signal(int)  # index of the node under the pointer, else of the one the keys are on; -1: none
    node_chosen = Signal(int)

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
        self._dragged = 0.0  # px since the button went down
        self._selected = -1  # the node that the keys are on
        self._hovered = -1
        self._fade = QVariantAnimation(self, startValue=0.25, endValue=1.0, duration=FADE_MS)
        self._fade.valueChanged.connect(self.update)
        self._fit = QToolButton(self, text="Fit")
        self._fit.setToolTip("Show the whole tree again (double click)")
        self._fit.clicked.connect(self.fit)
        self.setMinimumHeight(150)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
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
        self._selected, self._hovered = -1, -1
        self.fit()
        self.set_message(message)

    def set_message(self, message: str) -> None:
        """The sentence shown while there is no tree."""
        self._message = message
        if self._step is None:
            self.setAccessibleDescription(message)
        self.update()

    def make_room(self, steps: Sequence[Step]) -> None:
        """Have every node keep its place from the first of these steps to the last."""
        for step in steps:
            self._extent = self._extent.grown(slots_of(step.nodes))

    def show_step(self, step: Step, acceptance: Sequence[float], *, fade: bool = False) -> None:
        """Draw this step's tree; `acceptance` is the running share per head, shown over the columns."""
        changed = step is not self._step
        if changed:
            self._hovered = -1
            self._selected = min(self._selected, 0)  # the keys begin at the root of every tree
        self._step, self._acceptance = step, tuple(acceptance)
        self._slots = slots_of(step.nodes)
        self._extent = self._extent.grown(self._slots)
        self.setAccessibleDescription(words.description(step))
        self._fade.stop()
        # A duration of 0 is how a desktop asks for no motion.
        if changed:
            self.node_pointed.emit(self.pointed)
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

    @property
    def pointed(self) -> int:
        """The node under the pointer, else the one the keys are on; -1: none."""
        return self._hovered if self._hovered >= 0 else self._selected

    def index_at(self, position: QPointF) -> int:
        """The node under the point; -1: none."""
        if self._step is None or not HEAD_PX <= position.y() <= self.height() - KEY_PX:
            return -1
        boxes = enumerate(self.boxes())
        return next((index for index, box in boxes if box.contains(position.x(), position.y())), -1)

    def node_at(self, position: QPointF) -> Node | None:
        """The node under the point."""
        index = self.index_at(position)
        return self._step.nodes[index] if self._step is not None and index >= 0 else None

    def place_of(self, index: int) -> QPoint:
        """Just below a node, on the screen: where a menu about it opens."""
        box = self.boxes()[index]
        return self.mapToGlobal(QPoint(round(box.x), round(box.y + box.height + 2)))

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
        """A drag may start here, or a click."""
        self._drag_from, self._dragged = event.position(), 0.0

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pan; without a button: tell what is under the pointer."""
        if self._drag_from is not None:
            moved = event.position() - self._drag_from
            self._dragged += moved.manhattanLength()
            self._move_by(moved)
            self._drag_from = event.position()
        elif (index := self.index_at(event.position())) != self._hovered:
            self._hovered = index
            steps = index > 0 and self._step is not None
            self.setCursor(Qt.CursorShape.PointingHandCursor if steps else Qt.CursorShape.ArrowCursor)
            self.node_pointed.emit(self.pointed)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The drag ends; where nothing was dragged it was a click."""
        clicked = self._drag_from is not None and self._dragged < QApplication.startDragDistance()
        self._drag_from = None
        index = self.index_at(event.position())
        if clicked and index >= 0 and event.button() is Qt.MouseButton.LeftButton:
            self._select(index)
            self.node_chosen.emit(index)

    def leaveEvent(self, event: QEvent) -> None:
        """The pointer is elsewhere."""
        self._hovered = -1
        self.node_pointed.emit(self.pointed)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """↑ ↓ from node to node, Enter chooses, + − 0 zoom; the rest is the panel's."""
        match event.key():
            case Qt.Key.Key_Up | Qt.Key.Key_Down if self._step is not None:
                order = reading_order(self._step.nodes, self._slots)
                place = -1 if self._selected < 0 else order.index(self._selected)
                place += 1 if event.key() == Qt.Key.Key_Down else -1
                self._select(order[min(max(place, 0), len(order) - 1)])
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if self._selected >= 0:
                self.node_chosen.emit(self._selected)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self.zoom_by(1.25)
            case Qt.Key.Key_Minus:
                self.zoom_by(0.8)
            case Qt.Key.Key_0:
                self.fit()
            case _:
                super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The keys begin at the root."""
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self._select(max(self._selected, 0 if self._step is not None else -1))

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The ring goes; a menu about the node leaves it."""
        if event.reason() is not Qt.FocusReason.PopupFocusReason:
            self._select(-1)

    def _select(self, index: int) -> None:
        if index == self._selected:
            return
        self._selected = index
        if self._step is not None:
            self.setAccessibleDescription(
                words.details(self._step, index) if index >= 0 else words.description(self._step)
            )
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))
            if index >= 0:
                self._bring_into_view(self.boxes()[index])
        self.node_pointed.emit(self.pointed)
        self.update()

    def _bring_into_view(self, box: Box) -> None:
        bottom = self.height() - KEY_PX
        x = min(self.width() - box.right - 4, 0) or max(4 - box.x, 0)
        y = min(bottom - box.y - box.height - 4, 0) or max(HEAD_PX + 4 - box.y, 0)
        if x or y:
            self._move_by(QPointF(x, y))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Fit."""
        self.fit()

    def zoom_by(self, factor: float) -> None:
        """Zoom about the node that is pointed at, or the middle."""
        pointed = self._step is not None and 0 <= self.pointed < len(self._step.nodes)
        box = self.boxes()[self.pointed] if pointed else None
        point = QPointF(self.rect().center()) if box is None else QPointF(box.x + box.width / 2, box.middle)
        self._zoom_about(point, factor)

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
            paint_message(painter, self._theme, QRectF(self.rect()), self._message)
            return
        paint_heads(painter, self._theme, self._columns(), (1.0, *self._acceptance))  # the root is always kept
        boxes = self.boxes()
        if beyond := depth_beyond(self._step.nodes, boxes, self.width()):
            paint_beyond(painter, self._theme, self.width(), beyond)
        room = QRectF(0, HEAD_PX, self.width(), self.height() - HEAD_PX - KEY_PX)
        painter.setClipRect(room.adjusted(0, -RING_PX, 0, RING_PX))
        if self.fading:
            painter.setOpacity(self._fade.currentValue())
        paint_tree(painter, self._step, boxes, self._theme, self._zoom)
        painter.setOpacity(1.0)
        if self._selected >= 0:
            paint_ring(painter, self._theme, boxes[self._selected])
        painter.setClipping(False)
        paint_key(painter, self._theme, self.height() - KEY_PX + 12)

    def _columns(self) -> list[Box]:
        grid, dx = self.grid(), self._offset.x()
        boxes = (grid.box(Slot(column, 0)) for column in range(self._extent.columns))
        return [Box(box.x + dx, box.y, box.width, box.height) for box in boxes]
