"""The conversation as a scrolling page: questions, replies, and a hint where there is nothing yet.

Follows the end only while the reader is there. Knows nothing of models, threads or settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.theme import Theme
from app.views.message import INDENT, Message, Question, Reply
from app.views.source_text import MEASURE

_MARGIN = 16


class Chat(QWidget):
    """Every message of the conversation."""

    suggestion_chosen = Signal(str)
    step_chosen = Signal(int, int)  # (number of the reply, 0-based; index of the step)

    def __init__(self, theme: Theme, suggestions: Sequence[str]) -> None:
        super().__init__()
        self._theme = theme
        self._tinted = True
        self._following = True
        self._messages: list[Message] = []
        self._replies: list[Reply] = []
        self._held: Reply | None = None
        self._welcome = _Welcome(suggestions)
        self._welcome.chosen.connect(self.suggestion_chosen)
        self._scroll = self._scroll_area()
        self.jump_button = self._jump_button()
        page = QVBoxLayout(self)
        page.setContentsMargins(0, 0, 0, 0)
        page.addWidget(self._scroll)
        bar = self._scroll.verticalScrollBar()
        bar.valueChanged.connect(self._note_position)
        bar.rangeChanged.connect(self._keep_position)

    def _scroll_area(self) -> QScrollArea:
        self._column = QWidget()
        self._column.setMaximumWidth(column_width(self))
        self._list = QVBoxLayout(self._column)
        self._list.setContentsMargins(0, _MARGIN, 0, _MARGIN)
        self._list.setSpacing(16)
        self._list.addWidget(self._welcome, 1)
        self._list.addStretch(0)
        self._page = page = QWidget()
        self._row = row = QHBoxLayout(page)
        row.setContentsMargins(_MARGIN, 0, _MARGIN, 0)
        row.addStretch(1)
        row.addWidget(self._column, 1000)
        row.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(page)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setAccessibleName("Conversation")
        scroll.viewport().installEventFilter(self)
        return scroll

    def _jump_button(self) -> QPushButton:
        button = QPushButton("New text ↓", self)
        button.setToolTip("Go to the end of the conversation")
        button.setAccessibleName("Go to the new text")
        button.clicked.connect(self.follow)
        button.hide()
        return button

    # What it shows

    def set_hint(self, title: str, text: str, *, suggest: bool) -> None:
        """What an empty conversation says; with `suggest`, questions to begin with."""
        self._welcome.say(title, text, suggest=suggest)

    def clear(self) -> None:
        """Back to an empty conversation."""
        for message in self._messages:
            self._list.removeWidget(message)
            message.hide()
            message.deleteLater()
        self._messages, self._replies, self._held = [], [], None
        self._welcome.show()
        self.follow()

    def add_question(self, text: str) -> None:
        """The person's next message; brings the end into view."""
        self._welcome.hide()
        self._add(Question(self._theme, text))
        self.follow()

    def begin_reply(self, rule: str, details: str = "") -> None:
        """An empty reply for the events to come; `details` of how it is decoded are for its footer's tooltip."""
        reply = Reply(self._theme, rule, details)
        reply.text.set_tinted(self._tinted)
        reply.step_chosen.connect(self._choose_step)
        self._replies.append(reply)
        self._add(reply)

    def drop_reply(self) -> None:
        """Take the last reply away, for another try at the same question."""
        reply = self._replies.pop()
        self._messages.remove(reply)
        self._list.removeWidget(reply)
        self._held = None if self._held is reply else self._held
        reply.hide()
        reply.deleteLater()

    def show_events(self, events: list[object]) -> None:
        """Write what a batch of events added to the newest reply."""
        before = self._replies[-1].height()
        self._replies[-1].show_events(events)
        if not self._following and self._replies[-1].sizeHint().height() > before:
            self.jump_button.show()

    def fail_reply(self) -> None:
        """Mark the newest reply as broken off."""
        self._replies[-1].fail()

    def hold_step(self, reply: int, step: int) -> None:
        """Outline what a step of a reply wrote; -1 for none."""
        if self._held is not None:
            self._held.text.hold_step(-1)
        self._held = self._replies[reply] if 0 <= reply < len(self._replies) else None
        if self._held is None:
            return
        self._held.text.hold_step(step)
        if step >= 0 and (place := self._held.text.held_rectangle()):
            self._bring_into_view(self._held.text, place)

    def set_tinted(self, tinted: bool) -> None:
        """Whether drafted tokens carry a tint."""
        self._tinted = tinted
        for reply in self._replies:
            reply.text.set_tinted(tinted)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for message in self._messages:
            message.set_theme(theme)

    def follow(self) -> None:
        """Go to the end, and stay there while text comes in."""
        self._following = True
        self.jump_button.hide()
        bar = self._scroll.verticalScrollBar()
        bar.setValue(bar.maximum())

    def is_following(self) -> bool:
        """Whether new text is brought into view."""
        return self._following

    def replies(self) -> Sequence[Reply]:
        """The replies in order."""
        return tuple(self._replies)

    def _add(self, message: Message) -> None:
        message.caret_moved.connect(self._follow_caret)
        self._messages.append(message)
        self._list.insertWidget(self._list.count() - 1, message)

    # Where the reader is

    def _note_position(self, value: int) -> None:
        bar = self._scroll.verticalScrollBar()
        self._following = value >= bar.maximum() - self.fontMetrics().lineSpacing()
        if self._following:
            self.jump_button.hide()

    def _keep_position(self, _low: int, high: int) -> None:
        if self._following:
            self._scroll.verticalScrollBar().setValue(high)

    def _follow_caret(self, place: QRectF) -> None:
        text = self.sender()
        if isinstance(text, QWidget):
            self._bring_into_view(text, place)

    def _bring_into_view(self, text: QWidget, place: QRectF) -> None:
        page = self._page
        top = text.mapTo(page, place.topLeft().toPoint()).y()
        bar, height = self._scroll.verticalScrollBar(), self._scroll.viewport().height()
        if top < bar.value() + _MARGIN:
            bar.setValue(top - _MARGIN)
        elif top + place.height() > bar.value() + height - _MARGIN:
            bar.setValue(round(top + place.height()) + _MARGIN - height)

    def _choose_step(self, step: int) -> None:
        reply = self.sender()
        if isinstance(reply, Reply):
            self.step_chosen.emit(self._replies.index(reply), step)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Resize:
            # The scroll bar comes out of the right margin, so that the column stays where it is.
            bar_width = self._scroll.width() - self._scroll.viewport().width()
            self._row.setContentsMargins(_MARGIN, 0, max(0, _MARGIN - bar_width), 0)
            size, view = self.jump_button.sizeHint(), self._scroll.viewport().geometry()
            self.jump_button.setGeometry(
                view.center().x() - size.width() // 2, view.bottom() - size.height() - 8, size.width(), size.height()
            )
            self.jump_button.raise_()
        return super().eventFilter(watched, event)


class _Welcome(QWidget):
    """What stands in an empty conversation."""

    chosen = Signal(str)

    def __init__(self, suggestions: Sequence[str]) -> None:
        super().__init__()
        self._title, self._text = QLabel(), QLabel()
        self._title.setProperty("role", "title")
        self._text.setProperty("role", "muted")
        self._text.setWordWrap(True)
        self._buttons = [self._button(text) for text in suggestions]
        column = QVBoxLayout(self)
        column.setContentsMargins(INDENT, 0, INDENT, 0)
        column.setSpacing(8)
        column.addStretch(2)
        column.addWidget(self._title)
        column.addWidget(self._text)
        column.addSpacing(8)
        for button in self._buttons:
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(3)

    def _button(self, text: str) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip("Ask this")
        button.clicked.connect(self._choose)
        return button

    def _choose(self) -> None:
        button = self.sender()
        if isinstance(button, QPushButton):
            self.chosen.emit(button.text())

    def say(self, title: str, text: str, *, suggest: bool) -> None:
        self._title.setText(title)
        self._text.setText(text)
        for button in self._buttons:
            button.setVisible(suggest)


def column_width(widget: QWidget) -> int:
    """The widest a message may be: the measure, and the indents at its sides."""
    metrics = QFontMetricsF(widget.font())
    return round(metrics.averageCharWidth() * MEASURE) + 2 * INDENT
