"""The decoding panel: the candidate tree of a step, the walk through the steps of a reply, and pages of figures.

Shows the newest step while a reply is written (live), or holds the step the reader asked for. Knows nothing of the
model, of threads, of files, or of where the events come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QGuiApplication, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app.theme import RADIUS_PX, Theme, load_themes, small_font, system_theme
from app.views import tree_words as words
from app.views.chart_pages import ChartPages
from app.views.labels import Still, small
from app.views.panel_menu import node_menu, panel_menu, steered
from app.views.reply_lines import prompt_line, reply_line
from app.views.step_bar import StepBar
from app.views.step_table import StepTable
from app.views.tree import TreeView
from app.views.tree_paint import space_mark
from medusa_core.events import Event, Finished, Prefilled, Step

EMPTY = "Send a message: the tree of guesses behind every step of the reply is drawn here."
READING = "Reading the prompt …"
NO_STEPS = "Nothing was decoded in this reply."
WAITING = "The prompt is read; waiting for the first step …"
NO_STEERING = "There is no model to go on with."
WALK_KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End)


class DecodingPanel(QWidget):
    """Everything to the right of the chat."""

    slow_toggled = Signal(bool)
    step_shown = Signal(int)  # index of the held step; -1 when live again
    reply_shown = Signal()  # another one, or none
    steer_asked = Signal(tuple)  # token ids of the whole reply up to the chosen node
    save_asked = Signal()  # this reply, as a recording
    open_asked = Signal()  # a recording
    example_asked = Signal(int)  # number of a recording that came with the app
    export_asked = Signal()  # the page of charts on screen

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = load_themes()[system_theme()]
        self._events: list[Event] = []
        self._steps: list[Step] = []
        self._held: int | None = None
        self._reason = ""
        self._no_steering = NO_STEERING
        self._examples: tuple[str, ...] = ()
        self._message = EMPTY
        self.menu: QMenu | None = None  # the one that was opened last
        self._bar = StepBar(self._theme)
        self._tree, self._table = TreeView(self._theme), StepTable()
        self._shown_tree = QStackedWidget()
        self._details, self._figures = small(), small()
        self._explore = QPushButton("Explore a recorded reply")
        self._explore.setToolTip("Opens a reply that was recorded with its decoding steps; needs no model")
        self._under_tree = QStackedWidget()
        self.pages = ChartPages(self._theme)
        self._stack()
        self._connect()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Decoding")
        self._clear(EMPTY)

    def _stack(self) -> None:
        for view in (self._tree, self._table):
            self._shown_tree.addWidget(view)
        self._details.setWordWrap(True)
        self._details.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._offer = QWidget()
        offer = QHBoxLayout(self._offer)
        offer.setContentsMargins(0, 0, 0, 0)
        offer.addWidget(self._explore, 0, Qt.AlignmentFlag.AlignCenter)
        self._told = Still(self._details)
        for widget in (self._told, self._offer):
            self._under_tree.addWidget(widget)
        # Room for four lines from the start, so that nothing below moves with what is pointed at.
        self._under_tree.setFixedHeight(4 * self._details.fontMetrics().lineSpacing())
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(8)
        column.addWidget(self._bar)
        column.addWidget(self._shown_tree, 6)
        column.addWidget(self._under_tree)
        column.addWidget(self.pages, 7)
        column.addWidget(self._figures)

    def _connect(self) -> None:
        bar = self._bar
        bar.previous_asked.connect(self.show_previous)
        bar.next_asked.connect(self.show_next)
        bar.live_asked.connect(self.go_live)
        bar.step_asked.connect(self.show_step)
        bar.slow_toggled.connect(self.slow_toggled)
        bar.table_toggled.connect(self.show_table)
        bar.menu_asked.connect(self.open_menu)
        for control in bar.controls:
            control.installEventFilter(self)
        self._tree.node_pointed.connect(self._tell_node)
        for view in (self._tree, self._table):
            view.node_chosen.connect(self._open_node_menu)
        self._explore.clicked.connect(partial(self.example_asked.emit, 0))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step of the reply so far."""
        return tuple(self._steps)

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that was taken in of this reply."""
        return tuple(self._events)

    @property
    def finished(self) -> Finished | None:
        """The end of this reply, where it has come."""
        last = self._events[-1] if self._events else None
        return last if isinstance(last, Finished) else None

    @property
    def live(self) -> bool:
        """Whether the newest step is followed."""
        return self._held is None

    def begin_reply(self) -> None:
        """Forget the reply before; one is coming."""
        self._clear(READING)

    def clear(self) -> None:
        """Forget the reply before; none is coming."""
        self._clear(EMPTY)

    def show_events(self, events: Sequence[Event]) -> None:
        """Take a batch in: keep every step, draw only the newest, and that only while live."""
        steps = [event for event in events if isinstance(event, Step)]
        self._events += events
        for event in events:
            if isinstance(event, Prefilled):
                self._show_prefilled(event)
        if steps:
            self._steps += steps
            self._tree.make_room(steps)
            self.pages.add(steps)
            self._draw()
        for event in events:
            if isinstance(event, Finished):
                self._show_finished(event)

    def show_step(self, index: int) -> None:
        """Hold the step with this index; one outside the reply is ignored."""
        if 0 <= index < len(self._steps):
            self._held = index
            self._draw(fade=True)
            self.step_shown.emit(index)

    def show_previous(self) -> None:
        """Hold the step before the one on screen."""
        self.show_step(self._index() - 1)

    def show_next(self) -> None:
        """Hold the step after the one on screen; after the last one, go live."""
        if self._held is not None and self._held + 1 >= len(self._steps):
            self.go_live()
        elif self._held is not None:
            self.show_step(self._held + 1)

    def go_live(self) -> None:
        """Follow the newest step again."""
        if self._held is not None:
            self._held = None
            self._draw()
            self.step_shown.emit(-1)

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        for part in (self._bar, self._tree, self.pages):
            part.set_theme(theme)
        self.update()

    def set_reason(self, text: str) -> None:
        """Say why there are no trees; an empty text where there are."""
        self._reason = text
        self._tree.set_message(text or self._message)
        self._draw()

    def set_steering(self, reason: str) -> None:
        """Why the reply cannot be steered now; "": it can."""
        self._no_steering = reason

    def set_examples(self, titles: Sequence[str]) -> None:
        """The recordings that come with the app, by name."""
        self._examples = tuple(titles)
        self._show_under_tree()

    def show_slow(self, slow: bool) -> None:
        """Bring the switch up to date."""
        self._bar.show_slow(slow)

    def show_table(self, shown: bool) -> None:
        """The table in place of the tree, or the tree again."""
        self._shown_tree.setCurrentWidget(self._table if shown else self._tree)
        self._draw()

    def open_menu(self) -> None:
        """Everything that has no button of its own."""
        examples = [(title, partial(self.example_asked.emit, number)) for number, title in enumerate(self._examples)]
        self.menu = panel_menu(
            self,
            self._bar.table_action(),
            copy_table=self._table.copy,
            zoom=self._tree.zoom_by,
            fit=self._tree.fit,
            save=self.save_asked.emit if self.finished and self._steps else None,
            open_file=self.open_asked.emit,
            examples=examples,
            export=self.export_asked.emit,
        )
        self.menu.popup(self._bar.more.mapToGlobal(self._bar.more.rect().bottomLeft()))

    def _open_node_menu(self, index: int) -> None:
        if self._held is None:
            self.show_step(len(self._steps) - 1)  # it must not change under the menu
        step = self._steps[self._index()]
        view = self._tree if self._shown_tree.currentWidget() is self._tree else self._table
        self.menu = node_menu(
            self,
            step,
            index,
            steer=partial(self._steer, step, index),
            reason=self._no_steering,
            copy=partial(QGuiApplication.clipboard().setText, words.details(step, index)),
        )
        self.menu.popup(view.place_of(index))

    def _steer(self, step: Step, index: int) -> None:
        self.steer_asked.emit(steered(self._steps, step, index, self.finished))

    def _tell_node(self, index: int) -> None:
        if not self._steps:
            return
        step = self._steps[self._index()]
        if 0 <= index < len(step.nodes) and self._tree.step is step:
            self._details.setText(words.details(step, index).replace("␠", space_mark(small_font())))
        else:
            self._details.setText(f"{words.summary(step)}\n{words.timing(step).capitalize()}\n{words.POINTING}")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """← → step by step, Home to the first, End to live."""
        match event.key():
            case Qt.Key.Key_Left:
                self.show_previous()
            case Qt.Key.Key_Right:
                self.show_next()
            case Qt.Key.Key_Home:
                self.show_step(0)
            case Qt.Key.Key_End:
                self.go_live()
            case _:
                super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Buttons would spend the arrow keys on moving the focus; here they walk."""
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress and event.key() in WALK_KEYS:
            self.keyPressEvent(event)
            return True
        return super().eventFilter(watched, event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The focus ring appears."""
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The focus ring goes."""
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The focus ring about the tree: the part that the keys walk."""
        if self.hasFocus():
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(self._theme.accent), 1.5))
            ring = QRectF(self._shown_tree.geometry()).adjusted(-8, -4, 8, 0)
            painter.drawRoundedRect(ring, RADIUS_PX, RADIUS_PX)

    def _index(self) -> int:
        return len(self._steps) - 1 if self._held is None else self._held

    def _clear(self, message: str) -> None:
        self._steps.clear()
        self._events.clear()
        self._held, self._message = None, message
        self.pages.clear()
        self._details.clear()
        self._table.show_step(None)
        self._prompt_line = ""
        self._write_figures()
        self._tree.clear(self._reason or message)
        self._bar.show_position(None, 0, live=True)
        self._show_under_tree()
        self.reply_shown.emit()

    def _show_under_tree(self) -> None:
        nothing = not self._events and self._message == EMPTY and bool(self._examples)
        self._under_tree.setCurrentWidget(self._offer if nothing else self._told)

    def _draw(self, *, fade: bool = False) -> None:
        if not self._steps:
            return
        index = self._index()
        step = self._steps[index]
        if self._reason and len(step.nodes) == 1:
            self._tree.clear(self._reason)
        else:
            self._tree.show_step(step, self.pages.figures.shares, fade=fade)
        if self._shown_tree.currentWidget() is self._table:
            self._table.show_step(step)
        self._tell_node(self._tree.pointed)
        self.pages.speed.mark(self._held)
        self._bar.show_position(index, len(self._steps), live=self.live)

    def _show_prefilled(self, event: Prefilled) -> None:
        self._message = WAITING
        self._tree.set_message(self._reason or WAITING)
        self._prompt_line = prompt_line(event)
        self._write_figures()

    def _show_finished(self, event: Finished) -> None:
        self._write_figures(reply_line(event))
        if not self._steps:
            self._message = NO_STEPS
            self._tree.clear(self._reason or NO_STEPS)

    def _write_figures(self, reply_line: str = "") -> None:
        # Always two lines, so that the end of a reply moves nothing above them.
        self._figures.setText(f"{self._prompt_line or ' '}\n{reply_line or ' '}")
