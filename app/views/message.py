"""One question, and one reply with its footer, each with a copy button. Knows nothing of the other messages."""

from __future__ import annotations

import qtawesome
from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from app.theme import Theme, small_font
from app.views.token_text import EDGE, TokenText
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


class CopyButton(QToolButton):
    """Copies a message. Unseen until the pointer is over the message or the keyboard is on the button."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._shown = False
        self.setAccessibleName(name)
        self.setToolTip(f"{name}, as it was written")
        self.setIconSize(QSize(14, 14))
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self.setIcon(qtawesome.icon("mdi6.content-copy", color=theme.text_muted, color_active=theme.text))

    def set_shown(self, shown: bool) -> None:
        self._shown = shown
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shown or self.hasFocus():
            super().paintEvent(event)


class Message(QFrame):
    """Text with a copy button that appears on hover and on focus."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self.text = TokenText(theme)
        self.text.setAccessibleName(name)
        self.copy_button = CopyButton(theme, f"Copy the {name.lower()}")
        self.copy_button.clicked.connect(self.copy)
        self.text.installEventFilter(self)

    def set_theme(self, theme: Theme) -> None:
        self.text.set_theme(theme)
        self.copy_button.set_theme(theme)

    def copy(self) -> None:
        """Put the whole text on the clipboard, as it was written."""
        QGuiApplication.clipboard().setText(self.text.text)

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Enter:
            self.copy_button.set_shown(True)
        elif event.type() is QEvent.Type.Leave:
            self.copy_button.set_shown(self.text.hasFocus())
        return super().event(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.copy_button.set_shown(event.type() is QEvent.Type.FocusIn or self.underMouse())
        return super().eventFilter(watched, event)


class Question(Message):
    """What the person asked, in a soft panel."""

    def __init__(self, theme: Theme, text: str) -> None:
        super().__init__(theme, "Question")
        self.setProperty("role", "panel")
        self.text.append_text(text)
        row = QHBoxLayout(self)
        row.setContentsMargins(INDENT - EDGE, 6, 8, 6)
        row.setSpacing(4)
        row.addWidget(self.text, 1)
        row.addWidget(self.copy_button, 0, Qt.AlignmentFlag.AlignTop)


class Reply(Message):
    """What the model answered; grows while it is written."""

    step_chosen = Signal(int)

    def __init__(self, theme: Theme, rule: str, details: str = "") -> None:
        super().__init__(theme, "Reply")
        self._rule, self._details = rule, details
        self._metrics = ReplyMetrics()
        self._first_token: float | None = None
        self.footer = QLabel("Reading the conversation…")
        self.footer.setProperty("role", "small")
        self.footer.setWordWrap(True)
        self.text.token_chosen.connect(self._choose)
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
