"""One reply with its footer; grows while it is written. Knows nothing of the other messages, or of how it is saved."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.conversations import Figures, MessageState, state_after
from app.theme import Theme, small_font
from app.views.copy_button import CopyButton
from app.views.figures_line import USUAL, counted, details_of, figures_line
from app.views.link_dialog import LinkDialog
from app.views.message import INDENT, Message
from app.views.quiet_button import QuietButton
from app.views.reply_text import ReplyText
from app.views.source_text import EDGE, SourceText
from app.views.thinking import FoldButton
from medusa_core.events import Finished, Prefilled, Progress, Step
from medusa_core.metrics import ReplyMetrics

_NO_REPLY = "No reply; this question is left out of what the model is told"


class Reply(Message):
    """What the model answered."""

    step_chosen = Signal(int)
    regeneration_asked = Signal()
    continuation_asked = Signal()

    def __init__(self, theme: Theme, rule: str, details: str = "") -> None:
        super().__init__(theme, "Reply")
        self.setAccessibleName("Reply")
        self.text = ReplyText(theme)
        self.state = MessageState.STREAMING
        self._figures, self._details = Figures(rule=rule), details
        self._metrics = ReplyMetrics()
        self._read_seconds = 0.0
        self._first_token: float | None = None
        self._is_last = True
        self._last_stop: QWidget | None = None  # of the Tab key
        self.footer = QLabel("Reading the conversation…")
        self.footer.setProperty("role", "small")
        self.footer.setWordWrap(True)
        self.footer.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.footer.setContentsMargins(EDGE, 0, EDGE, 0)
        self.text.token_chosen.connect(self._choose)
        self.text.link_chosen.connect(self._ask_for_link)
        self.text.part_added.connect(self._take_part)
        self.text.changed.connect(self._take_change)
        self.text.reshaped.connect(self.reshaped)
        self._make_bar(theme)
        column = QVBoxLayout(self)
        column.setContentsMargins(INDENT - EDGE, 0, INDENT - EDGE, 8)
        column.setSpacing(2)
        column.addWidget(self.text)
        column.addWidget(self.footer)
        column.addWidget(self.bar)
        self._take_part(self.text.thinking.head)

    def _make_bar(self, theme: Theme) -> None:
        self.again_button = QuietButton(theme, "mdi6.refresh", "Regenerate", "Another reply, beside this one (Ctrl+R)")
        self.again_button.clicked.connect(self.regeneration_asked)
        self.answer_button = CopyButton(
            theme, "Copy the answer", "Copy the answer alone, without the thinking", icon="mdi6.clipboard-text-outline"
        )
        self.answer_button.clicked.connect(self.copy_answer)
        self.answer_button.hide()
        self.fill_bar(self.answer_button, self.again_button)
        self.bar.layout().setContentsMargins(0, 0, 0, 0)
        self.continue_button = QPushButton("Continue")
        self.continue_button.setToolTip("Go on writing where this reply ends")
        self.continue_button.setAccessibleName("Continue the reply")
        self.continue_button.clicked.connect(self.continuation_asked)
        self.continue_button.hide()
        self.bar.add_way(self.continue_button)

    def source(self) -> str:
        return self.text.text

    def texts(self) -> Sequence[SourceText]:
        return self.text.texts()

    def look_for(self, words: re.Pattern[str] | None) -> None:
        self.text.look_for(words)

    def reveal(self, text: SourceText) -> bool:
        return self.text.reveal(text)

    def copy_answer(self) -> None:
        """Put the answer on the clipboard, as it was written, without what was thought before it."""
        QGuiApplication.clipboard().setText(self.text.answer_text)
        self.answer_button.say_done()

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.text.set_theme(theme)

    def set_usable(self, usable: bool, *, can_ask: bool) -> None:
        super().set_usable(usable, can_ask=can_ask)
        self.again_button.setEnabled(usable and can_ask)
        self.continue_button.setEnabled(usable and can_ask)

    def set_last(self, is_last: bool) -> None:
        """Only the last reply can go on: what follows the others was said after they ended."""
        self._is_last = is_last
        self._offer_to_continue()

    # What it holds

    def restore(self, text: str, figures: Figures, state: MessageState) -> None:
        """A reply of an earlier time; its steps may come later."""
        self._figures, self._details = figures, details_of(figures)
        self._first_token = figures.first_token_seconds
        self.begin_inside(figures.opened)
        self.text.append_text(text)
        self._end(state)

    def begin_inside(self, opened: str) -> None:
        """The prompt ended with this tag of thinking, or with none; to be known before the first character."""
        self.text.begin_inside(opened)

    def add_steps(self, steps: Sequence[Step]) -> None:
        """The steps that wrote text which is here already."""
        for step in steps:
            self._metrics.add(step)
        self.text.mark_steps(steps)
        if self.state is not MessageState.STREAMING and not self._figures.tokens and self.text.text:
            self._figures = self._measured()  # a killed process left none
            self._end(self.state)

    def go_on(self, rule: str, details: str) -> None:
        """More is coming."""
        self.state = MessageState.STREAMING
        self._figures, self._details = Figures(rule=rule), details
        self.footer.setText("Reading the conversation…")
        self.text.set_growing(True)
        self._offer_to_continue()

    def rewrite(self, text: str) -> None:
        """Other text than was shown so far; the steps stay."""
        self.text.set_text(text)

    def show_events(self, events: list[object]) -> None:
        """Write what a batch of events added."""
        for event in events:
            if isinstance(event, Prefilled):
                self.begin_inside(event.opened)
                if self._first_token is None:
                    self._read_seconds = event.seconds
        self._add([event for event in events if isinstance(event, Step)])
        for event in events:
            if isinstance(event, Progress):
                self.footer.setText(f"{event.stage}…")
            elif isinstance(event, Finished):
                self.text.append_text(event.tail)
                self._figures = self._measured(str(event.reason))
                self._details = "\n".join(filter(None, (event.message, self._details)))
                self._end(state_after(event.reason))

    def fail(self) -> None:
        """Say that the reply broke off."""
        if not self.text.text:
            self.footer.setText(_NO_REPLY)
            self.state = MessageState.CUT
            return
        self._figures = self._measured()
        self._end(MessageState.CUT)

    def _add(self, steps: list[Step]) -> None:
        if not steps:
            return
        if self._first_token is None:
            self._first_token = self._read_seconds + steps[0].seconds
        for step in steps:
            self._metrics.add(step)
        self.text.append_steps(steps)
        self.footer.setText(f"{self._tokens()} · {self._metrics.tokens_per_second:.1f} tokens/s")

    def _measured(self, ending: str = "") -> Figures:
        metrics, known = self._metrics, self._figures
        return Figures(
            known.model,
            known.rule,
            known.seed,
            metrics.tokens,
            metrics.tokens_per_second,
            metrics.tokens_per_step,
            self._first_token,
            ending,
        )

    def _tokens(self) -> str:
        return counted(self._metrics.tokens, "token")

    def _end(self, state: MessageState) -> None:
        self.state = state
        self.text.set_growing(False)
        self.footer.setText(figures_line(self._figures, state) or _NO_REPLY)
        self.footer.setToolTip(self._details)
        self._offer_to_continue()

    def _offer_to_continue(self) -> None:
        ended_early = self.state in (MessageState.CUT, MessageState.STOPPED)
        offered = ended_early and self._is_last and bool(self.text.text)
        self.continue_button.setVisible(offered)
        self.bar.make_room(for_way=offered)

    def _take_change(self) -> None:
        self.answer_button.setVisible(not self.text.thinking.isHidden())
        self.text_changed.emit()

    # Keyboard, links, steps

    def _take_part(self, part: QWidget) -> None:
        """Follow the keyboard in a new part, and have Tab come to it before the buttons of the whole."""
        before = self._last_stop
        for stop in (part, *part.findChildren(QWidget)):
            if isinstance(stop, SourceText):
                self.watch(stop)
            elif isinstance(stop, FoldButton):
                stop.installEventFilter(self)
            if isinstance(stop, SourceText | CopyButton | FoldButton):
                if before is not None:
                    QWidget.setTabOrder(before, stop)
                QWidget.setTabOrder(stop, self.bar.previous_button)
                before = stop
        self._last_stop = before

    def _ask_for_link(self, link: str) -> None:
        dialog = LinkDialog(link, self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _choose(self, offset: int) -> None:
        step = self.text.step_at(offset)
        if step >= 0:
            self.step_chosen.emit(step)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Room for the footer's last words from the start: nothing moves when they come."""
        super().resizeEvent(event)
        if event.size().width() == event.oldSize().width():
            return
        room = QRect(0, 0, max(1, self.width() - 2 * INDENT), 1000)
        metrics = QFontMetrics(small_font())
        wrapped = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, figures_line(USUAL))
        self.footer.setMinimumHeight(wrapped.height() + 1)
