"""One question, and one reply with its footer, each with a copy button. Knows nothing of the other messages."""

from __future__ import annotations

from abc import abstractmethod

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.theme import Theme, small_font
from app.views.abstract import AbstractQt
from app.views.blocks import BlockColumn
from app.views.copy_button import CopyButton
from app.views.lines import plain
from app.views.link_dialog import LinkDialog
from app.views.marks import Marks
from app.views.source_text import EDGE, SourceText
from medusa_core.events import Finished, Prefilled, Progress, Step, StopReason
from medusa_core.metrics import ReplyMetrics

INDENT = 12  # of the text within a message, so that questions and replies share one left edge

_ENDINGS = {
    StopReason.STOP: "",
    StopReason.LENGTH: "cut at the longest reply allowed",
    StopReason.CANCELLED: "stopped",
    StopReason.CONTEXT_FULL: "cut: the context is full",
}


def grouped(number: int) -> str:
    """A whole number with thin spaces between its thousands."""
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{grouped(number)} {noun if number == 1 else noun + 's'}"


class Message(QFrame, metaclass=AbstractQt):
    """A text with a copy button that appears on hover and on focus."""

    caret_moved = Signal(QRectF)  # where the keyboard caret is, in this widget's coordinates

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        what = f"Copy the {name.lower()}"
        self.copy_button = CopyButton(theme, what, f"{what}, as it was written")
        self.copy_button.clicked.connect(self.copy)

    def set_theme(self, theme: Theme) -> None:
        self.copy_button.set_theme(theme)

    @abstractmethod
    def source(self) -> str:
        """The whole text, as it was written."""

    def copy(self) -> None:
        """Put the whole text on the clipboard, as it was written."""
        QGuiApplication.clipboard().setText(self.source())
        self.copy_button.say_done()

    def watch(self, text: SourceText) -> None:
        """Follow the keyboard in a text of this message."""
        text.installEventFilter(self)
        text.caret_moved.connect(self._report_caret)

    def _report_caret(self, place: QRectF) -> None:
        text = self.sender()
        if isinstance(text, SourceText):
            self.caret_moved.emit(place.translated(text.viewport().mapTo(self, QPoint(0, 0))))

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Enter:
            self.copy_button.set_shown(True)
        elif event.type() is QEvent.Type.Leave:
            self.copy_button.set_shown(self._has_keyboard())
        return super().event(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.copy_button.set_shown(event.type() is QEvent.Type.FocusIn or self.underMouse())
        return super().eventFilter(watched, event)

    def _has_keyboard(self) -> bool:
        focused = self.focusWidget()
        return focused is not None and focused.hasFocus()


class Question(Message):
    """What the person asked, in a soft panel, exactly as it was typed."""

    def __init__(self, theme: Theme, text: str) -> None:
        super().__init__(theme, "Question")
        self.setProperty("role", "panel")
        self._source, self._marks = text, Marks(theme)
        self.text = SourceText(self._marks)
        self.text.setAccessibleName("Question")
        self.text.set_lines(0, plain(text))
        self.watch(self.text)
        row = QHBoxLayout(self)
        row.setContentsMargins(INDENT - EDGE, 6, 8, 6)
        row.setSpacing(4)
        row.addWidget(self.text, 1)
        row.addWidget(self.copy_button, 0, Qt.AlignmentFlag.AlignTop)

    def source(self) -> str:
        return self._source

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self._marks.theme = theme
        self.text.set_theme()


class Reply(Message):
    """What the model answered; grows while it is written."""

    step_chosen = Signal(int)

    def __init__(self, theme: Theme, rule: str, details: str = "") -> None:
        super().__init__(theme, "Reply")
        self.setAccessibleName("Reply")
        self.text = BlockColumn(theme)
        self._rule, self._details = rule, details
        self._metrics = ReplyMetrics()
        self._first_token: float | None = None
        self._last_stop: QWidget | None = None  # of the Tab key
        self.footer = QLabel("Reading the conversation…")
        self.footer.setProperty("role", "small")
        self.footer.setWordWrap(True)
        self.text.token_chosen.connect(self._choose)
        self.text.link_chosen.connect(self._ask_for_link)
        self.text.part_added.connect(self._take_part)
        column = QVBoxLayout(self)
        column.setContentsMargins(INDENT - EDGE, 0, INDENT - EDGE, 0)
        column.setSpacing(2)
        column.addWidget(self.text)
        column.addWidget(self._bottom())

    def _bottom(self) -> QWidget:
        bottom = QWidget()
        # Two lines' room from the start: nothing moves when the figures come in.
        bottom.setMinimumHeight(2 * QFontMetrics(small_font()).lineSpacing())
        row = QHBoxLayout(bottom)
        row.setContentsMargins(EDGE, 0, EDGE, 0)
        row.setSpacing(8)
        row.addWidget(self.footer, 1)
        row.addWidget(self.copy_button, 0, Qt.AlignmentFlag.AlignTop)
        return bottom

    def source(self) -> str:
        return self.text.text

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.text.set_theme(theme)

    def _take_part(self, part: QWidget) -> None:
        """Follow the keyboard in a new part, and have Tab come to it before the button of the whole."""
        before = self._last_stop
        for stop in (part, *part.findChildren(QWidget)):
            if isinstance(stop, SourceText):
                self.watch(stop)
            if isinstance(stop, SourceText | CopyButton):
                if before is not None:
                    QWidget.setTabOrder(before, stop)
                QWidget.setTabOrder(stop, self.copy_button)
                before = stop
        self._last_stop = before

    def _ask_for_link(self, link: str) -> None:
        dialog = LinkDialog(link, self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def show_events(self, events: list[object]) -> None:
        """Write what a batch of events added."""
        self._add([event for event in events if isinstance(event, Step)])
        for event in events:
            if isinstance(event, Progress):
                self.footer.setText(f"{event.stage}…")
            elif isinstance(event, Prefilled):
                self._first_token = event.seconds + (self._first_token or 0.0)
            elif isinstance(event, Finished):
                self.text.append_text(event.tail)
                self._finish(event)

    def fail(self) -> None:
        """Say that the reply broke off."""
        what = "Broke off" if self.text.text else "No reply; this question is left out of what the model is told"
        self.footer.setText(f"{what} · {self._tokens()}" if self._metrics.tokens else what)

    def _add(self, steps: list[Step]) -> None:
        if not steps:
            return
        if self._metrics.steps == 0:
            self._first_token = steps[0].seconds + (self._first_token or 0.0)
        for step in steps:
            self._metrics.add(step)
        self.text.append_steps(steps)
        self.footer.setText(f"{self._tokens()} · {self._metrics.tokens_per_second:.1f} tokens/s")

    def _tokens(self) -> str:
        return counted(self._metrics.tokens, "token")

    def _finish(self, finished: Finished) -> None:
        parts = [
            counted(finished.tokens, "token"),
            f"{finished.tokens_per_second:.1f} tokens/s",
            f"{finished.tokens_per_step:.2f} tokens per step",
            self._rule,
        ]
        if self._first_token is not None and finished.tokens:
            parts.append(f"first token {self._first_token:.2f} s")
        if ending := _ENDINGS[finished.reason]:
            parts.append(ending)
        self.footer.setText(" · ".join(part.replace(" ", "\u00a0") for part in parts))
        self.footer.setToolTip("\n".join(filter(None, (finished.message, self._details))))

    def _choose(self, offset: int) -> None:
        step = self.text.step_at(offset)
        if step >= 0:
            self.step_chosen.emit(step)
