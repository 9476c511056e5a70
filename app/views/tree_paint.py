"""How a candidate tree is painted: the style of every node state, edges, chips, column heads and the key.

A state is told by fill, outline and edge as well as by colour. Knows nothing of widgets, zooming or the pointer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen

from app.theme import Theme, small_font, token_font, ui_font
from app.views import tree_words as words
from app.views.tree_layout import MARGIN, Box
from medusa_core.events import Node, NodeState, Source, Step

CHIP_RADIUS = 4.0
TEXT_INSET = 5.0
BAR_FROM_PX = 18.0  # a lower chip has no room for the bar under its text
SMALLEST_PX = 9  # of a token's text
KEY_LINE_PX = 17.0
MARK_PX = 3.5  # half the size of the mark of a source
KEY = ((NodeState.ACCEPTED, "kept"), (NodeState.REJECTED, "not kept"), (NodeState.UNREACHED, "never judged"))
SOURCE_KEY = (Source.HEAD, Source.LOOKUP, Source.RECYCLING)
BACK_TO_FRONT = (NodeState.UNREACHED, NodeState.REJECTED, NodeState.ACCEPTED, NodeState.ROOT)


@dataclass(frozen=True, slots=True)
class NodeStyle:
    """How a state is drawn. Every state differs from every other in more than its colours."""

    fill: str | None
    outline: str | None
    text: str
    edge: str
    edge_dash: tuple[float, ...]  # px on, px off; empty for a solid line
    pill: bool = False  # round ends


def node_style(state: NodeState, theme: Theme) -> NodeStyle:
    """The drawing of a node in this state and of the edge that leads to it."""
    match state:
        case NodeState.ROOT:
            return NodeStyle(theme.text, None, theme.surface, theme.text, (), pill=True)
        case NodeState.ACCEPTED:
            return NodeStyle(theme.accepted, None, theme.on_accepted, theme.accepted, ())
        case NodeState.REJECTED:
            return NodeStyle(theme.surface, theme.rejected, theme.text, theme.rejected, (6.0, 3.0))
        case NodeState.UNREACHED:
            return NodeStyle(None, None, theme.text_muted, theme.unreached, (1.5, 4.0))


def edge_width(node: Node) -> float:
    """The px of the edge to `node`: by the probability its head gave it; a kept edge is thick in any case."""
    width = 0.75 + round(9 * (node.draft_probability or 0.0)) / 4  # in quarters, so that few pens serve all
    return max(width, 2.5) if node.state is NodeState.ACCEPTED else width


@lru_cache(maxsize=256)
def edge_pen(style: NodeStyle, width: float) -> QPen:
    """The pen of an edge; its dashes are as long on a thick edge as on a thin one."""
    pen = QPen(QColor(style.edge), width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if style.edge_dash:
        pen.setDashPattern([length / width for length in style.edge_dash])
    return pen


def chip_font(boxes: Sequence[Box], zoom: float) -> QFont:
    """The fixed-width font in a size that fits the chips."""
    font = token_font()
    font.setPixelSize(int(min(font.pixelSize() * zoom, max(SMALLEST_PX, boxes[0].height * 0.6))))
    return font


@lru_cache(maxsize=16)
def space_mark(font: QFont) -> str:
    """The symbol for a space (␠), or the open box (␣) that most fixed-width fonts have instead."""
    return "␠" if QFontMetricsF(font).inFontUcs4(ord("␠")) else "␣"


def paint_tree(painter: QPainter, step: Step, boxes: Sequence[Box], theme: Theme, zoom: float) -> None:
    """Edges, then chips; within both the kept path last, so that nothing crosses over it."""
    font = chip_font(boxes, zoom)
    painter.setFont(font)
    metrics = QFontMetricsF(font)
    texts, starts = _chip_texts(step.nodes, boxes, metrics, space_mark(font))
    groups = [
        (node_style(state, theme), [index for index, node in enumerate(step.nodes) if node.state is state])
        for state in BACK_TO_FRONT
    ]
    for style, members in groups:
        _paint_edges(painter, style, [index for index in members if index], step.nodes, boxes, starts)
    barred = boxes[0].height >= BAR_FROM_PX
    lift = 1.5 if barred and any(node.model_probability is not None for node in step.nodes) else 0.0
    drop = (metrics.ascent() - metrics.descent()) / 2 - lift  # from a chip's centre line to its base line
    for style, members in groups:
        _paint_chips(painter, style, [boxes[index] for index in members])
        painter.setPen(QColor(style.text))
        for index in members:
            painter.drawText(QPointF(boxes[index].x + _inset(style), boxes[index].middle + drop), texts[index])
        for index in members if barred and style.fill else ():
            _paint_bar(painter, boxes[index], style, step.nodes[index].model_probability)
    _paint_marks(painter, step.nodes, boxes, theme)


def paint_ring(painter: QPainter, theme: Theme, box: Box) -> None:
    """About the node that the keys are on."""
    painter.setPen(QPen(QColor(theme.accent), 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(QRectF(box.x - 3, box.y - 3, box.width + 6, box.height + 6), 6, 6)


def source_colour(source: Source, theme: Theme) -> str:
    """The colour of who proposed a token."""
    colours = {Source.LOOKUP: theme.source_lookup, Source.RECYCLING: theme.source_recycling}
    return colours.get(source, theme.source_head)


def source_mark(source: Source, centre: QPointF, half: float = MARK_PX) -> QPainterPath:
    """A triangle for the heads, a square for lookup, a circle for recycling: told apart without any colour."""
    path, x, y = QPainterPath(), centre.x(), centre.y()
    if source is Source.LOOKUP:
        path.addRect(QRectF(x - half + 0.5, y - half + 0.5, 2 * half - 1, 2 * half - 1))
    elif source is Source.RECYCLING:
        path.addEllipse(centre, half, half)
    else:
        path.moveTo(x - half, y - half)
        path.lineTo(x + half, y)
        path.lineTo(x - half, y + half)
        path.closeSubpath()
    return path


def paint_source(painter: QPainter, theme: Theme, source: Source, centre: QPointF) -> None:
    """The mark of a source; recycling's circle is hollow."""
    _dress_for(painter, theme, source)
    painter.drawPath(source_mark(source, centre))


def paint_heads(painter: QPainter, theme: Theme, columns: Sequence[Box], shares: Sequence[float]) -> None:
    """Over every column: how far ahead it guesses, and the share of steps in which that far was kept."""
    painter.setFont(small_font())
    line = QFontMetricsF(painter.font()).lineSpacing()
    for depth, (box, share) in enumerate(zip(columns, shares, strict=False)):
        rect = QRectF(box.x + TEXT_INSET, 0, box.width, line)
        painter.setPen(QColor(theme.text_muted))
        painter.drawText(rect, Qt.AlignmentFlag.AlignLeft, words.column_head(depth))
        painter.setPen(QColor(theme.text))
        painter.drawText(rect.translated(0, line), Qt.AlignmentFlag.AlignLeft, f"{100 * share:.0f} %")


def paint_message(painter: QPainter, theme: Theme, room: QRectF, message: str) -> None:
    """A sentence in the middle, where there is no tree."""
    painter.setFont(ui_font())
    painter.setPen(QColor(theme.text_muted))
    flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
    painter.drawText(room.adjusted(24, 24, -24, -24), int(flags), message)


def paint_beyond(painter: QPainter, theme: Theme, width: float, depth: int) -> None:
    """In the upper right corner: the tree goes on to the right, so many tokens ahead."""
    painter.setFont(small_font())
    metrics, text = QFontMetricsF(painter.font()), f"… {words.column_head(depth)} ▸"
    wide = metrics.horizontalAdvance(text) + 2 * TEXT_INSET
    room = QRectF(width - wide, 0, wide, 2 * metrics.lineSpacing())
    painter.fillRect(room, QColor(theme.surface))
    painter.setPen(QColor(theme.text))
    painter.drawText(room, int(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight), text)


def paint_key(painter: QPainter, theme: Theme, middle: float) -> None:
    """The states by name, each beside a small drawing of itself; a line below them the sources by their marks."""
    painter.setFont(small_font())
    metrics = QFontMetricsF(painter.font())
    x = MARGIN
    for state, name in KEY:
        style = node_style(state, theme)
        painter.setPen(edge_pen(style, 2.5 if state is NodeState.ACCEPTED else 1.25))
        painter.drawLine(QPointF(x, middle), QPointF(x + (12 if style.fill else 26), middle))
        _paint_chips(painter, style, [Box(x + 12, middle - 5, 14, 10)])
        painter.setPen(QColor(theme.text_muted))
        painter.drawText(QPointF(x + 32, middle + metrics.capHeight() / 2), name)
        x += 32 + metrics.horizontalAdvance(name) + 16
    x, middle = MARGIN, middle + KEY_LINE_PX
    for source in SOURCE_KEY:
        name = words.SOURCES[source]
        paint_source(painter, theme, source, QPointF(x + MARK_PX + 1, middle))
        painter.setPen(QColor(theme.text_muted))
        painter.drawText(QPointF(x + 14, middle + metrics.capHeight() / 2), name)
        x += 14 + metrics.horizontalAdvance(name) + 16


def _paint_edges(
    painter: QPainter,
    style: NodeStyle,
    members: Sequence[int],
    nodes: Sequence[Node],
    boxes: Sequence[Box],
    starts: Sequence[float],
) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    paths: dict[float, QPainterPath] = {}  # by width: one stroke a pen is much cheaper than one an edge
    for index in members:
        parent = nodes[index].parent
        path = paths.setdefault(edge_width(nodes[index]), QPainterPath())
        _add_edge(path, boxes[parent], starts[parent], boxes[index])
    for width, path in paths.items():
        painter.strokePath(path, edge_pen(style, width))


def _paint_chips(painter: QPainter, style: NodeStyle, boxes: Sequence[Box]) -> None:
    if not style.fill:
        return
    painter.setPen(QPen(QColor(style.outline), 1.25) if style.outline else Qt.PenStyle.NoPen)
    painter.setBrush(QColor(style.fill))
    for box in boxes:
        radius = box.height / 2 if style.pill else min(CHIP_RADIUS, box.height / 3)
        painter.drawRoundedRect(QRectF(box.x, box.y, box.width, box.height), radius, radius)


def _paint_bar(painter: QPainter, box: Box, style: NodeStyle, share: float | None) -> None:
    """The model's probability, on a faint track of full length so that it does not read as an underline."""
    if share is None:
        return
    track = QRectF(box.x + TEXT_INSET, box.y + box.height - 4, box.width - 2 * TEXT_INSET, 2)
    colour = QColor(style.text)
    colour.setAlphaF(0.22)
    painter.fillRect(track, colour)
    track.setWidth(track.width() * share)
    painter.fillRect(track, QColor(style.text))


def _paint_marks(painter: QPainter, nodes: Sequence[Node], boxes: Sequence[Box], theme: Theme) -> None:
    """Where the edge arrives: who proposed the token. One drawing a source is much cheaper than one a node."""
    half = min(MARK_PX, boxes[0].height / 3)
    for source in SOURCE_KEY:
        marks = QPainterPath()
        for node, box in zip(nodes, boxes, strict=True):
            if node.source is source and node.depth:
                marks.addPath(source_mark(source, QPointF(box.x, box.middle), half))
        if marks.isEmpty():
            continue
        _dress_for(painter, theme, source)
        painter.drawPath(marks)


def _dress_for(painter: QPainter, theme: Theme, source: Source) -> None:
    """A hollow mark for recycling, full ones with a thin rim for the others."""
    colour = QColor(source_colour(source, theme))
    hollow = source is Source.RECYCLING
    painter.setPen(QPen(colour, 1.5) if hollow else QPen(QColor(theme.surface), 1))
    painter.setBrush(QColor(theme.surface) if hollow else colour)


def _inset(style: NodeStyle) -> float:
    return TEXT_INSET + 3 if style.pill else TEXT_INSET


def _chip_texts(
    nodes: Sequence[Node], boxes: Sequence[Box], metrics: QFontMetricsF, space: str
) -> tuple[list[str], list[float]]:
    """Every token as it is written into its chip, and the x where edges leave the node.

    Edges leave a chip at its right side, but a token without a chip at the end of its text.
    """
    texts, starts = [], []
    for node, box in zip(nodes, boxes, strict=True):
        room = box.width - 2 * TEXT_INSET + 1 if node.depth else box.width - 2 * TEXT_INSET - 5
        text = words.visible(node.text).replace("␠", space)
        advance = metrics.horizontalAdvance(text)
        if advance > room:
            text, advance = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room), room
        texts.append(text)
        starts.append(min(box.x + TEXT_INSET + advance + 4, box.right) if _bare(node) else box.right)
    return texts, starts


def _bare(node: Node) -> bool:
    return node.state is NodeState.UNREACHED


def _add_edge(path: QPainterPath, start: Box, start_x: float, end: Box) -> None:
    path.moveTo(start_x, start.middle)
    if start_x < start.right:
        path.lineTo(start.right, start.middle)
    middle = (start.right + end.x) / 2
    path.cubicTo(middle, start.middle, middle, end.middle, end.x, end.middle)
