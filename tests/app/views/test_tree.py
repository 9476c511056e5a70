"""The painted tree: states told apart, numbers told on hover, and room for 64 nodes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QProxyStyle, QStyle, QToolButton
from pytestqt.qtbot import QtBot

from app.theme import Theme, load_themes
from app.views import tree_words as words
from app.views.tree import HEAD_PX, TreeView
from app.views.tree_paint import edge_pen, edge_width, node_style, paint_source, source_mark
from medusa_core.events import Node, NodeState, Source, Step, Verdict
from medusa_core.testing import scripted_reply

LIGHT = load_themes()["light"]


def steps(count: int = 10, nodes: int = 16, seed: int = 0) -> list[Step]:
    return [event for event in scripted_reply(count, nodes=nodes, seed=seed) if isinstance(event, Step)]


def node(state: NodeState = NodeState.REJECTED, **changes: object) -> Node:
    verdict = Verdict(passed=False, probability=0.041, threshold=0.09, entropy=1.2, choice=7, choice_text=" old")
    made = Node(
        token_id=42,
        parent=0,
        depth=2,
        rank=0,
        source=Source.HEAD,
        state=state,
        draft_probability=0.123,
        model_probability=0.041,
        verdict=verdict,
        text=" cat",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def step_of(*nodes: Node, path: tuple[int, ...] = (0,)) -> Step:
    return replace(steps(1)[0], nodes=nodes, path=path, token_ids=tuple(nodes[i].token_id for i in path))


def test_the_tooltip_tells_the_token_that_was_drawn_and_what_was_noted() -> None:
    drawn = Verdict(passed=False, probability=0.2, threshold=None, entropy=1.0, choice=7, choice_text=" old", drawn=9)
    other = words.tooltip(node(verdict=replace(drawn, drawn_text=" new")))
    assert "Drawn here: ␠new" in other
    assert "wanted" not in other
    assert "Drawn here: this token" in words.tooltip(node(verdict=replace(drawn, passed=True, drawn=42)))
    assert "does not pay" in words.tooltip(node(), note="Drafting does not pay here at present.")


@pytest.fixture
def view(qtbot: QtBot) -> TreeView:
    view = TreeView(LIGHT)
    qtbot.addWidget(view)
    view.resize(388, 420)
    return view


def image_of(view: TreeView) -> QImage:
    return view.grab().toImage()


@pytest.mark.parametrize("theme", load_themes().values(), ids=lambda theme: theme.name)
def test_states_differ_in_more_than_colour(theme: Theme) -> None:
    def shape(state: NodeState) -> tuple[object, ...]:
        style = node_style(state, theme)
        filled = style.fill is not None and style.fill != theme.surface
        return filled, style.outline is not None, style.edge_dash, style.pill

    assert len({shape(state) for state in NodeState}) == len(NodeState)
    assert shape(NodeState.ACCEPTED) == (True, False, (), False)
    assert shape(NodeState.REJECTED)[1] is True
    assert shape(NodeState.UNREACHED)[:2] == (False, False)


def test_dashes_and_dots_differ_and_are_as_long_on_thick_edges() -> None:
    rejected, unreached = (node_style(state, LIGHT) for state in (NodeState.REJECTED, NodeState.UNREACHED))
    assert edge_pen(rejected, 1.0).dashPattern() != edge_pen(unreached, 1.0).dashPattern()
    assert edge_pen(node_style(NodeState.ACCEPTED, LIGHT), 2.5).style() is Qt.PenStyle.SolidLine
    for width in (1.0, 3.0):
        assert edge_pen(rejected, width).dashPattern()[0] * width == pytest.approx(rejected.edge_dash[0])


def test_a_likelier_guess_has_a_wider_edge_and_a_kept_one_is_thick() -> None:
    widths = [edge_width(node(draft_probability=p)) for p in (0.0, 0.25, 0.5, 1.0)]
    assert widths == sorted(set(widths))
    assert edge_width(node(NodeState.ACCEPTED, draft_probability=0.0)) > edge_width(node(draft_probability=0.5))


def test_the_painted_chips_are_filled_outlined_or_bare(view: TreeView) -> None:
    root = node(NodeState.ROOT, depth=0, verdict=None, draft_probability=None, model_probability=None)
    children = [
        node(state, depth=1, rank=rank, model_probability=None, text="i")
        for rank, state in enumerate((NodeState.ACCEPTED, NodeState.REJECTED, NodeState.UNREACHED))
    ]
    view.show_step(step_of(root, *children, path=(0, 1)), (1.0,))
    image, boxes = image_of(view), view.boxes()
    right = [QPoint(int(box.right - 6), int(box.middle)) for box in boxes[1:]]
    border = [QPoint(int(box.right - 6), round(box.y)) for box in boxes[1:]]
    assert image.pixelColor(right[0]).name() == LIGHT.accepted
    bare = image.pixelColor(380, 300)
    assert image.pixelColor(right[1]).name() == LIGHT.surface
    assert image.pixelColor(right[2]) == bare
    contrast = [abs(image.pixelColor(point).lightness() - bare.lightness()) for point in border]
    assert contrast[1] > 40  # an outline
    assert contrast[2] == 0  # none


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_the_bar_in_a_chip_is_as_long_as_the_models_probability(view: TreeView, share: float) -> None:
    root = node(NodeState.ROOT, depth=0, verdict=None, draft_probability=None, model_probability=None)
    view.show_step(step_of(root, node(depth=1, model_probability=share, text="")), (0.0,))
    image, box = image_of(view), view.boxes()[1]
    row = int(box.y + box.height - 3)
    dark = [x for x in range(int(box.x) + 3, int(box.right) - 3) if image.pixelColor(x, row).lightness() < 90]
    assert len(dark) == pytest.approx((box.width - 10) * share, abs=2)


def test_slots_do_not_move_between_steps(view: TreeView) -> None:
    shown = steps(12)
    for step in shown:
        view.show_step(step, (0.5, 0.4, 0.3, 0.2))
    places = {}
    for step in shown:
        view.show_step(step, (0.5, 0.4, 0.3, 0.2))
        order: dict[int, list[float]] = {}
        for found, box in zip(step.nodes, view.boxes(), strict=True):
            order.setdefault(found.depth, []).append(box.y)
        for depth, rows in order.items():
            for row, y in enumerate(sorted(rows)):
                assert places.setdefault((depth, row), y) == y


def test_hovering_tells_every_number_of_a_node(view: TreeView) -> None:
    step = steps(1)[0]
    view.show_step(step, (0.5,))
    index = next(i for i, found in enumerate(step.nodes) if found.state is NodeState.REJECTED)
    box = view.boxes()[index]
    assert view.node_at(QPointF(box.x + 2, box.middle)) is step.nodes[index]
    text = view.help_at(QPointF(box.x + 2, box.middle))
    assert "Not kept" in text
    assert words.percent(step.nodes[index].draft_probability or 0.0) in text
    assert "kept" in view.help_at(QPointF(50, 5))  # the column heads explain themselves
    assert "edge" in view.help_at(QPointF(50, view.height() - 5))  # and so does the key
    assert view.help_at(QPointF(box.right + 5, HEAD_PX + 300)) == ""


def test_tooltip_numbers() -> None:
    text = words.tooltip(node())
    for part in ("␠cat", "id 42", "Head 2, most likely guess, 2 tokens ahead", "Head's probability: 12 %"):
        assert part in text
    for part in ("Model's probability: 4.1 %", "more than 9.0 %", "1.20 nats", "wanted ␠old", "Not kept"):
        assert part in text


def test_tooltip_of_a_node_that_passed_but_lost_and_of_one_never_judged() -> None:
    passed = node(verdict=Verdict(True, 0.3, 0.09, 1.0, 42, " cat"))
    assert "it passed" in words.tooltip(passed)
    assert "wanted" not in words.tooltip(passed)  # the model wanted this very token
    unreached = words.tooltip(node(NodeState.UNREACHED, verdict=None))
    assert "Never judged" in unreached
    assert "Model's probability: 4.1 %" in unreached


def test_tooltip_of_a_greedy_verdict_without_numbers_has_none() -> None:
    bare = node(model_probability=None, verdict=Verdict(False, None, None, None, None))
    assert "Model's" not in words.tooltip(bare)


def test_a_token_that_looks_like_markup_stays_text() -> None:
    assert "&lt;b&gt;" in words.tooltip(node(text="<b>"))


@pytest.mark.parametrize(
    ("token", "shown"),
    [(" the", "␠the"), ("\n\n", "⏎⏎"), ("\t", "⇥"), ("", "∅"), ("<E2 9F>", "<E2 9F>"), ("a\x00", "a<00>"), ("é", "é")],
)
def test_white_space_and_control_characters_can_be_seen(token: str, shown: str) -> None:
    assert words.visible(token) == shown


def test_description_and_summary_for_those_who_listen(view: TreeView) -> None:
    root = node(NodeState.ROOT, depth=0, text="on")
    kept = [node(NodeState.ACCEPTED, depth=d, parent=d - 1, text=t) for d, t in ((1, " the"), (2, " cat"), (3, " sat"))]
    last = node(depth=4, parent=3)
    step = replace(step_of(root, *kept, last, path=(0, 1, 2, 3)), index=11, seconds=0.031)
    view.show_step(step, ())
    assert view.accessibleDescription() == "Step 12: 3 of 4 guesses kept: ' the', ' cat', ' sat'"
    assert words.summary(step) == "Step 12 · 4 tokens · 31 ms"
    assert words.timing(step) == "draft 2.0 ms · verify 27 ms · accept 1.0 ms"


def test_a_guessed_stop_token_is_kept_and_ended_the_reply(view: TreeView) -> None:
    root = node(NodeState.ROOT, depth=0, text=".")
    end = node(NodeState.ACCEPTED, depth=1, parent=0, text="<end>")
    step = replace(step_of(root, end, path=(0, 1)), index=0, token_ids=(root.token_id,))
    view.show_step(step, ())
    assert view.accessibleDescription() == "Step 1: 1 of 1 guesses kept: '<end>', which ended the reply"
    ended, other = (view.help_at(QPointF(box.x + 5, box.y + 5)) for box in reversed(view.boxes()))
    assert "Kept: it ended the reply" in ended
    assert "ended" not in other


def test_without_a_tree_the_message_is_there_for_eyes_and_ears(view: TreeView) -> None:
    view.clear("Nothing yet.")
    assert view.accessibleDescription() == "Nothing yet."
    image = image_of(view)
    colours = {image.pixelColor(x, y).name() for x in range(0, 388, 1) for y in range(195, 225)}
    assert len(colours) > 3  # antialiased text


def test_ctrl_and_wheel_zoom_a_drag_pans_and_fit_returns(view: TreeView, qtbot: QtBot) -> None:
    view.show_step(steps(1)[0], ())
    view.show()
    fitted = view.boxes()
    wheel = QWheelEvent(
        QPointF(100, 100),
        QPointF(100, 100),
        QPoint(),
        QPoint(0, 240),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.ControlModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, wheel)
    button = view.findChild(QToolButton)
    assert view.boxes()[0].width == pytest.approx(fitted[0].width * 1.44)
    assert button.isVisible()
    before = view.boxes()[0].x
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(200, 200))
    QTest.mouseMove(view, QPoint(180, 200))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(180, 200))
    assert view.boxes()[0].x == pytest.approx(before - 20)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert view.boxes() == fitted
    assert not button.isVisible()


def silhouette(source: Source) -> frozenset[tuple[int, int]]:
    """The mark of a source, without its colour."""
    image = QImage(24, 24, QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.surface))
    painter = QPainter(image)
    painter.scale(2, 2)
    paint_source(painter, LIGHT, source, QPointF(6, 6))
    painter.end()
    dark = ((x, y) for x in range(24) for y in range(24) if image.pixelColor(x, y).lightness() < 200)
    return frozenset(dark)


def test_sources_are_told_apart_by_shape_alone() -> None:
    heads, lookup, recycling = (silhouette(source) for source in (Source.HEAD, Source.LOOKUP, Source.RECYCLING))
    for one, other in ((heads, lookup), (heads, recycling), (lookup, recycling)):
        assert len(one ^ other) > 12
    assert (12, 12) in heads & lookup
    assert (12, 12) not in recycling  # hollow


def test_the_mark_stands_where_the_edge_arrives(view: TreeView) -> None:
    root = node(NodeState.ROOT, depth=0, verdict=None, draft_probability=None, model_probability=None)
    child = node(NodeState.UNREACHED, depth=1, source=Source.LOOKUP, verdict=None, text="x")
    view.show_step(step_of(root, child), (0.0,))
    box = view.boxes()[1]
    assert image_of(view).pixelColor(round(box.x), round(box.middle)).name() == LIGHT.source_lookup
    assert source_mark(Source.HEAD, QPointF(0, 0)).contains(QPointF(0, 0))


class Style(QProxyStyle):
    """A desktop that asks for animations of this many ms; 0 asks for none."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__("Fusion")
        self.milliseconds = milliseconds

    def styleHint(self, hint: QStyle.StyleHint, *rest: object) -> int:
        if hint is QStyle.StyleHint.SH_Widget_Animation_Duration:
            return self.milliseconds
        return super().styleHint(hint, *rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(("milliseconds", "held", "fades"), [(200, True, True), (200, False, False), (0, True, False)])
def test_only_a_held_step_fades_in_and_only_where_the_desktop_allows_motion(
    view: TreeView, milliseconds: int, held: bool, fades: bool
) -> None:
    style = Style(milliseconds)
    view.setStyle(style)
    first, second = steps(2)
    view.show_step(first, ())
    view.show_step(second, (), fade=held)
    assert view.fading is fades
    view.show_step(first, ())
    assert not view.fading


def test_the_tree_cannot_be_dragged_away(view: TreeView) -> None:
    view.show_step(steps(1)[0], ())
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(200, 200))
    QTest.mouseMove(view, QPoint(20, 20))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(20, 20))
    assert not view.zoomed


def test_64_nodes_fit_the_panel_and_paint_fast(view: TreeView) -> None:
    shown = steps(20, nodes=63)
    for step in shown:
        view.show_step(step, (0.6, 0.4, 0.2, 0.1))
    target = QImage(view.size(), QImage.Format.Format_ARGB32_Premultiplied)
    spent = []
    for step in shown:
        view.show_step(step, (0.6, 0.4, 0.2, 0.1))
        start = time.process_time()
        view.render(target)
        spent.append(time.process_time() - start)
    assert max(box.y + box.height for box in view.boxes()) <= view.height()
    assert min(spent) < 0.010  # the aim is 5 ms; the margin is for a busy machine


def test_a_tree_that_goes_on_to_the_right_says_so_in_the_corner(view: TreeView) -> None:
    chain = [node(parent=max(depth - 1, 0), depth=depth) for depth in range(30)]

    def corner(count: int) -> bytes:
        view.clear("")
        view.show_step(step_of(*chain[:count]), ())
        image = image_of(view).copy(view.width() - 70, 0, 70, 14)
        return bytes(image.constBits())

    assert len({corner(12), corner(20), corner(28)}) == 3, "how far"
