"""The decoding panel: the candidate tree of a step, the walk through the steps of a reply, and the charts.

Shows the newest step while a reply is written (live), or holds the step the reader asked for. Knows nothing of the
model, of threads, or of where the events come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.theme import RADIUS_PX, Theme, load_themes, system_theme
from app.views import tree_words as words
from app.views.charts import AcceptanceBars, SpeedChart
from app.views.step_bar import StepBar
from app.views.tree import TreeView
from medusa_core.events import Event, Finished, Prefilled, Step, StopReason
from medusa_core.metrics import ReplyMetrics

EMPTY = "Send a message: the tree of guesses behind every step of the reply is drawn here."
READING = "Reading the prompt …"
WAITING = "The prompt is read; waiting for the first step …"
WALK_KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End)
ENDINGS = {
    StopReason.STOP: "ended by the model",
    StopReason.LENGTH: "length limit reached",
    StopReason.CANCELLED: "stopped",
    StopReason.CONTEXT_FULL: "context full",
}


class DecodingPanel(QWidget):
    """Everything to the right of the chat."""

    slow_toggled = Signal(bool)
    step_shown = Signal(int)  # index of the held step; -1 when live again

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = load_themes()[system_theme()]
        self._steps: list[Step] = []
        self._metrics = ReplyMetrics()
        self._held: int | None = None
        self._reason = ""
        self._message = EMPTY
        self._bar = StepBar(self._theme)
        self._tree = TreeView(self._theme)
        self._summary, self._figures = self._small_label(), self._small_label()
        self._speed = SpeedChart(self._theme)
        self._acceptance = AcceptanceBars(self._theme)
        self._stack()
        self._bar.previous_asked.connect(self.show_previous)
        self._bar.next_asked.connect(self.show_next)
        self._bar.live_asked.connect(self.go_live)
        self._bar.slow_toggled.connect(self.slow_toggled)
        for control in self._bar.controls:
            control.installEventFilter(self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Decoding")
        self._clear(EMPTY)

    def _stack(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(8)
        column.addWidget(self._bar)
        column.addWidget(self._tree, 5)
        column.addWidget(self._summary)
        column.addSpacing(12)
        column.addWidget(self._speed, 2)
        column.addSpacing(12)
        column.addWidget(self._acceptance)
        column.addWidget(self._figures)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step of the reply so far."""
        return tuple(self._steps)

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
        for event in events:
            if isinstance(event, Prefilled):
                self._show_prefilled(event)
        if steps:
            self._steps += steps
            for step in steps:
                self._metrics.add(step)
            self._speed.add(steps)
            self._acceptance.show_metrics(self._metrics)
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
        for part in (self._bar, self._tree, self._speed, self._acceptance):
            part.set_theme(theme)
        self.update()

    def set_reason(self, text: str) -> None:
        """Say why there are no trees; an empty text where there are."""
        self._reason = text
        self._tree.set_message(text or self._message)
        self._draw()

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
            ring = QRectF(self._tree.geometry()).adjusted(-8, -4, 8, 0)
            painter.drawRoundedRect(ring, RADIUS_PX, RADIUS_PX)

    def _index(self) -> int:
        return len(self._steps) - 1 if self._held is None else self._held

    def _clear(self, message: str) -> None:
        self._steps.clear()
        self._metrics, self._held, self._message = ReplyMetrics(), None, message
        self._speed.clear()
        self._acceptance.clear()
        self._summary.clear()
        self._prompt_line = ""
        self._write_figures()
        self._tree.clear(self._reason or message)
        self._bar.show_position(None, 0, live=True)

    def _draw(self, *, fade: bool = False) -> None:
        if not self._steps:
            return
        index = self._index()
        step = self._steps[index]
        if self._reason and len(step.nodes) == 1:
            self._tree.clear(self._reason)
        else:
            self._tree.show_step(step, self._metrics.acceptance_per_head, fade=fade)
        self._summary.setText(words.summary(step))
        self._summary.setToolTip(words.timing(step))
        self._speed.mark(self._held)
        self._bar.show_position(index, len(self._steps), live=self.live)

    def _show_prefilled(self, event: Prefilled) -> None:
        self._message = WAITING
        self._tree.set_message(self._reason or WAITING)
        kept = f", {event.reused_tokens:,} of them kept from before" if event.reused_tokens else ""
        tokens = words.counted(event.prompt_tokens, "token")
        self._prompt_line = f"Prompt {tokens}{kept} · read in {words.duration(event.seconds)}"
        self._write_figures()

    def _show_finished(self, event: Finished) -> None:
        reply = f"Reply {words.counted(event.tokens, 'token')} in {words.counted(event.steps, 'step')}"
        reply += f" · {words.duration(event.decode_seconds)} · {ENDINGS[event.reason]}"
        self._write_figures(reply)

    def _write_figures(self, reply_line: str = "") -> None:
        # Always two lines, so that the end of a reply moves nothing above them.
        self._figures.setText(f"{self._prompt_line or ' '}\n{reply_line or ' '}")

    def _small_label(self) -> QLabel:
        label = QLabel()
        label.setProperty("role", "small")
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label
