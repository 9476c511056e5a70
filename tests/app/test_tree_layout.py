"""Slots that stay where they are, and grids that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.views.tree_layout import GUTTER, MARGIN, ROW_PITCH, Extent, Slot, depth_beyond, fit, reading_order, slots_of
from medusa_core.events import Node, NodeState, Source, Step
from medusa_core.testing import scripted_reply


def tree(parents: Sequence[int]) -> list[Node]:
    """A tree from parents; ranks count the children of each node in order."""
    depths, children = [0] * len(parents), [0] * len(parents)
    nodes = []
    for index, parent in enumerate(parents):
        rank = 0
        if index:
            depths[index] = depths[parent] + 1
            rank, children[parent] = children[parent], children[parent] + 1
        source, state = (Source.HEAD, NodeState.UNREACHED) if index else (Source.MODEL, NodeState.ROOT)
        nodes.append(Node(index, parent, depths[index], rank, source, state, None, None, None))
    return nodes


@st.composite
def parents(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(min_value=0, max_value=63))
    return [0, *(draw(st.integers(min_value=0, max_value=index)) for index in range(count))]


@given(parents())
def test_every_node_has_its_own_slot_and_columns_have_no_holes(parents: list[int]) -> None:
    slots = slots_of(tree(parents))
    assert len(set(slots)) == len(parents)
    for column in {slot.column for slot in slots}:
        rows = sorted(slot.row for slot in slots if slot.column == column)
        assert rows == list(range(len(rows)))


@given(parents())
def test_edges_never_cross(parents: list[int]) -> None:
    slots = slots_of(tree(parents))
    edges = [(slots[parents[i]], slots[i]) for i in range(1, len(parents))]
    for start, end in edges:
        for other_start, other_end in edges:
            if start.column == other_start.column and start.row < other_start.row:
                assert end.row < other_end.row


@given(parents())
def test_columns_are_depths_and_siblings_stand_in_order_of_rank(parents: list[int]) -> None:
    nodes = tree(parents)
    slots = slots_of(nodes)
    assert [slot.column for slot in slots] == [node.depth for node in nodes]
    for one, node in enumerate(nodes[1:], 1):
        for other, sibling in enumerate(nodes[1:], 1):
            if node.parent == sibling.parent and node.rank < sibling.rank:
                assert slots[one].row < slots[other].row


def test_the_likeliest_path_is_a_straight_line() -> None:
    nodes = tree([0, 0, 0, 1, 1, 3])
    slots = slots_of(nodes)
    assert [slots[index].row for index in (0, 1, 3, 5)] == [0, 0, 0, 0]


def test_order_follows_rank_and_not_the_order_of_the_nodes() -> None:
    nodes = tree([0, 0, 0])
    assert [slot.row for slot in slots_of([nodes[0], nodes[2], nodes[1]])] == [0, 1, 0]


def test_nothing_jumps_from_step_to_step_of_one_shape() -> None:
    steps = [event for event in scripted_reply(30, nodes=16) if isinstance(event, Step)]
    first = steps[0].nodes
    for step in steps[1:]:
        same_shape = [
            Node(n.token_id, s.parent, s.depth, s.rank, s.source, s.state, None, None, None)
            for n, s in zip(step.nodes, first, strict=True)
        ]
        assert slots_of(same_shape) == slots_of(first)


def test_a_slot_stays_put_also_while_trees_of_other_shapes_are_shown() -> None:
    steps = [event for event in scripted_reply(30, nodes=16, seed=2) if isinstance(event, Step)]
    extent = Extent()
    for step in steps:
        extent = extent.grown(slots_of(step.nodes))
    grid = fit(extent, 388, 360)
    for step in steps:
        assert extent.grown(slots_of(step.nodes)) == extent  # so the grid is the same for all of them
        assert fit(extent, 388, 360).box(Slot(1, 2)) == grid.box(Slot(1, 2))


def test_the_extent_never_shrinks() -> None:
    extent = Extent(3, 9).grown([Slot(0, 0), Slot(4, 1)])
    assert extent == Extent(5, 9)


@given(st.integers(1, 6), st.integers(1, 30), st.floats(388, 1200), st.floats(370, 1200))
def test_a_grid_with_room_lies_within_it_and_chips_do_not_touch(
    columns: int, rows: int, width: float, height: float
) -> None:
    extent = Extent(columns, rows)
    grid = fit(extent, width, height)
    needed = grid.size(extent)
    assert needed[0] <= width + 1e-6
    assert needed[1] <= height + 1e-6
    assert grid.row_pitch > grid.chip_height
    gutter = grid.column_pitch - grid.chip_width
    assert GUTTER[0] - 1e-6 <= gutter <= GUTTER[1] + 1e-6


def test_17_nodes_in_five_columns_leave_a_chip_room_for_seven_letters_at_the_panels_width() -> None:
    grid = fit(Extent(5, 7), 388, 300)
    assert grid.chip_width >= 60  # px; seven letters of 7.2 px and the insets
    assert grid.chip_height == 24


def test_too_many_rows_keep_their_least_height_and_overflow() -> None:
    grid = fit(Extent(5, 60), 388, 200)
    assert grid.row_pitch == ROW_PITCH[0]
    assert grid.size(Extent(5, 60))[1] > 200


def test_box_knows_its_inside() -> None:
    box = fit(Extent(2, 2), 388, 100).box(Slot(0, 0))
    assert box.x == MARGIN
    assert box.contains(box.x + 1, box.middle)
    assert not box.contains(box.right + 1, box.middle)


def test_seven_columns_still_fit_the_panel() -> None:
    grid = fit(Extent(7, 10), 388, 300)
    assert grid.size(Extent(7, 10))[0] <= 388
    assert grid.column_pitch - grid.chip_width < GUTTER[1]


def test_a_tree_is_read_branch_by_branch_from_the_top() -> None:
    step = next(event for event in scripted_reply(3, seed=2) if isinstance(event, Step))
    slots = slots_of(step.nodes)
    order = reading_order(step.nodes, slots)
    assert sorted(order) == list(range(len(step.nodes)))
    assert order[0] == 0
    for before, after in pairwise(order):
        parent = step.nodes[after].parent
        assert parent == before or slots[parent].column < slots[before].column  # on, or back to an upper node
    children = [index for index in order if index and step.nodes[index].parent == 0]
    assert [slots[index].row for index in children] == sorted(slots[index].row for index in children)


def test_what_lies_beyond_the_right_edge_is_told_by_its_depth() -> None:
    nodes = tree([max(depth - 1, 0) for depth in range(20)])
    slots = slots_of(nodes)
    grid = fit(Extent().grown(slots), 388, 300)
    boxes = [grid.box(slot) for slot in slots]
    assert grid.size(Extent().grown(slots))[0] > 388
    assert depth_beyond(nodes, boxes, 388) == 19
    assert depth_beyond(nodes[:6], boxes[:6], 388) == 0
    panned = [replace(box, x=box.x - boxes[-1].right + 388) for box in boxes]
    assert depth_beyond(nodes, panned, 388) == 0
