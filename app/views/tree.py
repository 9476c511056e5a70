"""The candidate tree of one step, painted: root at the left, a column per depth, the kept path thick and filled.

A node's state is told by fill, outline and edge as well as by colour. Ctrl and the wheel zoom, a drag pans, a double
click fits. Knows nothing of steps before or after the one shown, and nothing of charts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QVariantAnimation
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QStyle, QToolTip, QWidget

from app.theme import Theme, small_font, token_font, ui_font
from app.views import tree_words as words
from app.views.tree_layout import Box, Extent, Grid, Slot, fit, slots_of
from medusa_core.events import Node, NodeState, Step

HEAD_PX = 36.0  # the column heads
KEY_PX = 24.0  # the key to the states
CHIP_RADIUS = 4.0
TEXT_INSET = 5.0
FADE_MS = 120
ZOOM_LIMITS = (1.0, 6.0)


@dataclass(frozen=True, slots=True)
class NodeStyle:
    """How a state is drawn. Every state differs from every other in more than its colours."""

    fill: str | None
    outline: str | None
    outline_pen: Qt.PenStyle
    text: str
    edge: str
    edge_pen: Qt.PenStyle
    pill: bool = False  # round ends


def node_style(state: NodeState, theme: Theme) -> NodeStyle:
    """The drawing of a node in this state and of the edge that leads to it."""
    solid, dashed, dotted, none = Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.NoPen
    match state:
        case NodeState.ROOT:
            return NodeStyle(theme.text, None, none, theme.surface, theme.text, solid, pill=True)
        case NodeState.ACCEPTED:
            return NodeStyle(theme.accepted, None, none, theme.on_accepted, theme.accepted, solid)
        case NodeState.REJECTED:
            return NodeStyle(theme.surface, theme.rejected, solid, theme.text, theme.rejected, dashed)
        case NodeState.UNREACHED:
            return NodeStyle(None, None, none, theme.text_muted, theme.unreached, dotted)


def edge_width(node: Node) -> float:
    """The px of the edge to `node`: by the probability its head gave it; a kept edge is thick in any case."""
    width = 1.0 + 3.0 * (node.draft_probability or 0.0)
    return max(width, 2.5) if node.state is NodeState.ACCEPTED else width


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
        self.update()

    @property
    def zoomed(self) -> bool:
        """Whether the tree is larger than its fitted size, or moved."""
        return self._zoom != 1.0 or not self._offset.isNull()

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

    def event(self, event: QEvent) -> bool:
        """Answers the request for a tooltip with the numbers of the node under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            node = self.node_at(QPointF(event.pos()))
            if node is None:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), words.tooltip(node), self)
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
        event.ignore()  # the panel takes the focus

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
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Everything, in one pass."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._step is None:
            self._paint_message(painter)
            return
        self._paint_heads(painter)
        painter.setClipRect(QRectF(0, HEAD_PX, self.width(), self.height() - HEAD_PX - KEY_PX))
        if self._fade.state() is QVariantAnimation.State.Running:
            painter.setOpacity(self._fade.currentValue())
        boxes = self.boxes()
        self._paint_edges(painter, self._step, boxes)
        self._paint_chips(painter, self._step, boxes)
        painter.setOpacity(1.0)
        painter.setClipping(False)
        self._paint_key(painter)

    def _paint_message(self, painter: QPainter) -> None:
        painter.setFont(ui_font())
        painter.setPen(QColor(self._theme.text_muted))
        room = QRectF(self.rect()).adjusted(24, 24, -24, -24)
        painter.drawText(room, int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap), self._message)

    def _paint_heads(self, painter: QPainter) -> None:
        grid = self.grid()
        font = small_font()
        painter.setFont(font)
        line = QFontMetricsF(font).lineSpacing()
        for column in range(self._extent.columns):
            box = grid.box(Slot(column, 0))
            rect = QRectF(box.x + self._offset.x(), 0, box.width, line)
            painter.setPen(QColor(self._theme.text_muted))
            painter.drawText(rect, Qt.AlignmentFlag.AlignHCenter, words.column_head(column))
            shares = (1.0, *self._acceptance)
            if column < len(shares):
                painter.setPen(QColor(self._theme.text))
                painter.drawText(rect.translated(0, line), Qt.AlignmentFlag.AlignHCenter, f"{100 * shares[column]:.0f} %")

    def _paint_edges(self, painter: QPainter, step: Step, boxes: tuple[Box, ...]) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        # The kept path last, so that nothing crosses over it.
        for wanted in (NodeState.UNREACHED, NodeState.REJECTED, NodeState.ACCEPTED):
            style = node_style(wanted, self._theme)
            for node, box in zip(step.nodes, boxes, strict=True):
                if node.state is wanted and node.depth:
                    painter.setPen(QPen(QColor(style.edge), edge_width(node), style.edge_pen))
                    painter.drawPath(_edge(boxes[node.parent], box))

    def _paint_chips(self, painter: QPainter, step: Step, boxes: tuple[Box, ...]) -> None:
        font = token_font()
        font.setPixelSize(int(min(font.pixelSize() * self._zoom, max(9.0, boxes[0].height * 0.6))))
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        for node, box in zip(step.nodes, boxes, strict=True):
            style = node_style(node.state, self._theme)
            rect = QRectF(box.x, box.y, box.width, box.height)
            painter.setPen(QPen(QColor(style.outline), 1.25, style.outline_pen) if style.outline else Qt.PenStyle.NoPen)
            painter.setBrush(QColor(style.fill) if style.fill else Qt.BrushStyle.NoBrush)
            radius = box.height / 2 if style.pill else CHIP_RADIUS
            painter.drawRoundedRect(rect, radius, radius)
            inner = rect.adjusted(TEXT_INSET, 0, -TEXT_INSET, 0)
            text = metrics.elidedText(words.visible(node.text), Qt.TextElideMode.ElideRight, inner.width() + 1)
            painter.setPen(QColor(style.text))
            painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter, text)
            if node.model_probability is not None:
                bar = QRectF(inner.x(), rect.bottom() - 3, inner.width() * node.model_probability, 1.5)
                painter.fillRect(bar, QColor(style.text))

    def _paint_key(self, painter: QPainter) -> None:
        pass


def _edge(start: Box, end: Box) -> QPainterPath:
    path = QPainterPath(QPointF(start.right, start.middle))
    middle = (start.right + end.x) / 2
    path.cubicTo(middle, start.middle, middle, end.middle, end.x, end.middle)
    return path
