"""The text of one reply, which grows at its end: what was thought, folded away, and the answer below it.

Offsets are those of the whole text, tags and all, in both parts. Knows nothing of footers, buttons or events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRectF, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.theme import Theme
from app.views.blocks import BlockColumn, Part
from app.views.source_text import SourceText
from app.views.step_spans import StepSpans
from app.views.thinking import Thinking, thinking_words
from medusa_core.events import Step
from medusa_core.thinking import answer_of, split


class ReplyText(QWidget):
    """Two columns of blocks over one source; the upper one is there only where the model thinks aloud."""

    token_chosen = Signal(int)  # offset of a character that was clicked, or chosen with Enter
    link_chosen = Signal(str)
    part_added = Signal(QWidget)  # a text that takes the keyboard
    changed = Signal()
    reshaped = Signal()  # the reader has folded or unfolded what was thought

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._source, self._opened = "", ""
        self._parts = split("")
        self._is_growing = True
        self._steps = StepSpans()
        self.thinking, self.answer = Thinking(theme, self._steps), BlockColumn(theme, self._steps)
        self.columns = (self.thinking.column, self.answer)
        for column in self.columns:
            column.token_chosen.connect(self.token_chosen)
            column.link_chosen.connect(self.link_chosen)
            column.part_added.connect(self.part_added)
        self.thinking.toggled.connect(self._reshape)
        self._page = QVBoxLayout(self)
        self._page.setContentsMargins(0, 0, 0, 0)
        self._page.setSpacing(0)
        self._page.addWidget(self.thinking)
        self._page.addWidget(self.answer)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    # What it holds

    @property
    def text(self) -> str:
        """Everything appended so far, untouched."""
        return self._source

    @property
    def answer_text(self) -> str:
        """The text without what was thought."""
        return answer_of(self._source, self._opened)

    @property
    def parts(self) -> Sequence[Part]:
        """The widgets, in order."""
        return [part for column in self.columns for part in column.parts]

    def begin_inside(self, opened: str) -> None:
        """The prompt ended with this tag of thinking, or with none; to be known before the first character."""
        if not self._source:
            self._opened = opened

    def append_text(self, text: str) -> None:
        """Add to the source's end."""
        if text:
            self._source += text
            self._show()

    def set_text(self, text: str) -> None:
        """Begin the source anew; the steps stay."""
        self._source = text
        for column in self.columns:
            column.begin_after("")
        self._show()

    def set_growing(self, is_growing: bool) -> None:
        """While more may come, what may be the first half of a tag is not shown."""
        self._is_growing = is_growing
        self._show()

    def _show(self) -> None:
        parts = self._parts = split(self._source, self._opened)
        end = parts.settled if self._is_growing else len(self._source)
        self._fill(self.thinking.column, parts.start, min(parts.end, end) if parts.has_thinking else 0)
        # While there is no answer, where it will begin moves on with the text.
        self._fill(self.answer, parts.answer if parts.is_closed else 0, end if parts.is_closed else 0)
        self._say()
        self.changed.emit()

    def _fill(self, column: BlockColumn, start: int, end: int) -> None:
        """Have a column show the characters [start, end); the usual case is that only its end has moved on."""
        if column.start != start or len(column.text) > max(start, end):
            column.begin_after(self._source[:start])
        column.append_text(self._source[len(column.text) : end])

    def _say(self) -> None:
        """Bring the line above what was thought up to date, and the heights."""
        parts = self._parts
        if self.thinking.column.parts or not self.thinking.isHidden():
            seconds, tokens = self._steps.spent(parts.end if parts.is_closed else len(self._source) + 1)
            words = 0 if tokens else len(self._source[parts.start : parts.end].split())
            self.thinking.say(
                thinking_words(seconds, tokens, words, is_closed=parts.is_closed, is_growing=self._is_growing)
            )
            self.thinking.settle()
        self._mark_line()
        self._page.activate()

    # What is folded away

    def reveal(self, text: QWidget) -> bool:
        """Unfold what was thought if the text is in there; whether it was."""
        inside = self.thinking.column.isAncestorOf(text) and self.thinking.is_folded
        if inside:
            self.thinking.unfold()
        return inside

    def _reshape(self) -> None:
        self._mark_line()
        self.reshaped.emit()

    def _is_folded_away(self, span: tuple[int, int] | None) -> bool:
        hidden = self.thinking.is_folded and not self.thinking.isHidden()
        return hidden and span is not None and span[0] < self._parts.answer

    def _mark_line(self) -> None:
        self.thinking.head.set_outlined(self._is_folded_away(self.held_span()))

    # Steps

    def append_steps(self, steps: Sequence[Step]) -> None:
        """Add what the next steps wrote, in one go."""
        self._steps.append(steps)
        self.append_text("".join(step.text for step in steps))

    def mark_steps(self, steps: Sequence[Step]) -> None:
        """Note which steps wrote text that is here already."""
        self._steps.append(steps)
        for column in self.columns:
            column.refresh()
        self._say()

    def drafted_spans(self) -> list[tuple[int, int]]:
        """The spans of the source that are tinted, in order."""
        return self._steps.drafted()

    def held_span(self) -> tuple[int, int] | None:
        """The span of the source that is outlined."""
        return self.answer.held_span()

    def step_at(self, offset: int) -> int:
        """The step that wrote the character at `offset` of the source, or -1."""
        return self._steps.at(offset)

    def hold_step(self, index: int) -> None:
        """Outline what a step wrote; -1 for none."""
        for column in self.columns:
            column.hold_step(index)
        self._mark_line()

    def held_rectangle(self) -> QRectF | None:
        """Where the outlined step stands, or the line it is folded away under, in this widget's coordinates."""
        if self._is_folded_away(self.held_span()):
            return QRectF(self.thinking.head_place().translated(self.thinking.pos()))
        places = [
            place.translated(column.mapTo(self, QPoint(0, 0)))
            for column in self.columns
            if (place := column.held_rectangle()) is not None
        ]
        return places[0].united(places[-1]) if places else None

    # What is looked for, and how it looks

    def texts(self) -> list[SourceText]:
        """The text of every part, folded away or not."""
        return [text for column in self.columns for text in column.texts()]

    def look_for(self, words: re.Pattern[str] | None) -> None:
        """Mark these words wherever they stand; None: nothing is looked for."""
        for column in self.columns:
            column.look_for(words)

    def set_tinted(self, tinted: bool) -> None:
        """Whether drafted tokens carry a tint."""
        for column in self.columns:
            column.set_tinted(tinted)

    def set_theme(self, theme: Theme) -> None:
        self.thinking.set_theme(theme)
        self.answer.set_theme(theme)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width() and not self.thinking.isHidden():
            self.thinking.settle()
