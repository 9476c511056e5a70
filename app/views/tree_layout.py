"""Where each node of a candidate tree goes: a column for its depth, a slot in the column for its order there.

The order within a column is by the parent's slot, then by rank, so edges never cross and the most likely guesses run
along the top. The n-th slot of a column is always at the same place, so nothing jumps between steps, also where the
tree is grown anew each step. Knows nothing of Qt, colours or fonts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medusa_core.events import Node

GUTTER = (12.0, 20.0)  # px between columns, where the edges run
MARGIN = 1.0  # px on every side
ROW_PITCH = (12.0, 44.0)  # px from row to row, tightest and roomiest
CHIP_HEIGHT = 24.0  # px at most
ROW_GAP = 0.2  # of the pitch, at least
CHIP_WIDTH = (44.0, 96.0)


@dataclass(frozen=True, slots=True)
class Slot:
    """A place on the grid."""

    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How many columns and rows the grid has."""

    columns: int = 1
    rows: int = 1

    def grown(self, slots: Iterable[Slot]) -> Extent:
        """The extent that also holds `slots`; it never shrinks, so that a small tree does not move the others."""
        columns, rows = self.columns, self.rows
        for slot in slots:
            columns, rows = max(columns, slot.column + 1), max(rows, slot.row + 1)
        return Extent(columns, rows)


@dataclass(frozen=True, slots=True)
class Box:
    """A chip's rectangle, in px."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The y of its centre line."""
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.x + self.width

    def contains(self, x: float, y: float) -> bool:
        """Whether the point lies in it."""
        return self.x <= x <= self.right and self.y <= y <= self.y + self.height


@dataclass(frozen=True, slots=True)
class Grid:
    """Turns slots into rectangles."""

    chip_width: float
    chip_height: float
    column_pitch: float
    row_pitch: float

    def box(self, slot: Slot) -> Box:
        """The rectangle of the chip in `slot`."""
        x = MARGIN + slot.column * self.column_pitch
        return Box(x, MARGIN + slot.row * self.row_pitch, self.chip_width, self.chip_height)

    def size(self, extent: Extent) -> tuple[float, float]:
        """Width and height that hold the whole extent."""
        last = self.box(Slot(extent.columns - 1, extent.rows - 1))
        return last.right + MARGIN, last.y + last.height + MARGIN


def slots_of(nodes: Sequence[Node]) -> tuple[Slot, ...]:
    """The slot of every node, in the order of `nodes`."""
    columns: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        columns.setdefault(node.depth, []).append(index)
    rows = [0] * len(nodes)
    for depth in sorted(columns):
        ordered = sorted(columns[depth], key=lambda index: (rows[nodes[index].parent], nodes[index].rank, index))
        for row, index in enumerate(ordered):
            rows[index] = row
    return tuple(Slot(node.depth, row) for node, row in zip(nodes, rows, strict=True))


def depth_beyond(nodes: Sequence[Node], boxes: Sequence[Box], width: float) -> int:
    """How deep the nodes reach whose chips end beyond `width`; 0: all are in sight."""
    return max((node.depth for node, box in zip(nodes, boxes, strict=True) if box.right > width + MARGIN), default=0)


def reading_order(nodes: Sequence[Node], slots: Sequence[Slot]) -> list[int]:
    """Every node, each followed by what grows from it, upper branches first: the order in which a tree is read."""
    children: dict[int, list[int]] = {}
    for index, node in enumerate(nodes[1:], 1):
        children.setdefault(node.parent, []).append(index)
    order, ahead = [], [0]
    while ahead:
        index = ahead.pop()
        order.append(index)
        ahead += sorted(children.get(index, ()), key=lambda child: -slots[child].row)
    return order


def fit(extent: Extent, width: float, height: float) -> Grid:
    """The grid that shows `extent` in the room given, with chips no tighter than can be read.

    Where even the tightest chips do not fit, the grid is larger than the room and the view pans.
    """
    inner_width, inner_height = width - 2 * MARGIN, height - 2 * MARGIN
    gaps = max(extent.columns - 1, 1)
    gutter = _clamp((inner_width - extent.columns * CHIP_WIDTH[0]) / gaps, GUTTER)
    chip_width = _clamp((inner_width - (extent.columns - 1) * gutter) / extent.columns, CHIP_WIDTH)
    row_pitch = _clamp(inner_height / (extent.rows - ROW_GAP), ROW_PITCH)
    return Grid(chip_width, min(CHIP_HEIGHT, row_pitch * (1 - ROW_GAP)), chip_width + gutter, row_pitch)


def _clamp(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])
