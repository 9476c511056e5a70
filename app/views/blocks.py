"""A reply's Markdown as a column of widgets: prose, code blocks, tables.

What the parser calls frozen is never touched again; only the tail is written anew. Offsets are those of the source, so
that a step's tokens are found in whatever shows them. Knows nothing of how a block is drawn, or of messages.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from PySide6.QtCore import QPoint, QRectF, Signal
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.markdown import Code, MarkdownStream, Table
from app.theme import Theme
from app.views.code_block import CodeBlock
from app.views.flow import Atom, Boxed, flow
from app.views.lines import Line
from app.views.marks import Marks
from app.views.prose import Prose
from app.views.source_text import SourceText
from app.views.step_spans import StepSpans
from app.views.table_block import TableBlock
from medusa_core.events import Step

Part = Prose | CodeBlock | TableBlock


class BlockColumn(QWidget):
    """The blocks of one reply, which grows at its end."""

    token_chosen = Signal(int)  # offset of a character that was clicked, or chosen with Enter
    link_chosen = Signal(str)
    caret_moved = Signal(QRectF)  # where the keyboard caret is, in this widget's coordinates
    part_added = Signal(QWidget)  # a text that takes the keyboard
    changed = Signal()

    def __init__(self, theme: Theme, steps: StepSpans | None = None, name: str = "Reply") -> None:
        """`steps`: those of the whole reply, where this shows only part of it; `name` is for screen readers."""
        super().__init__()
        self._marks, self._name = Marks(theme, StepSpans() if steps is None else steps), name
        self._stream = MarkdownStream()
        self.start = 0  # of what is shown, in the source
        self._parts: list[Part] = []
        self._places: list[tuple[int, int]] = []  # by block: the part it begins in, and the line there
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    # What it holds

    @property
    def text(self) -> str:
        """The source: everything so far, untouched, with what it begins after."""
        return self._stream.source

    @property
    def parts(self) -> Sequence[Part]:
        """The widgets, in order."""
        return self._parts

    def append_text(self, text: str) -> None:
        """Add to the source's end."""
        if not text:
            return
        first = self._stream.append(text)
        number, line = self._places[first] if first < len(self._places) else self._end()
        del self._places[first:]
        fresh: list[list[Atom]] = []
        if line:  # the part goes on
            fresh.append([])
            skipped = line
        else:
            skipped = 0
        for index in range(first, len(self._stream.blocks)):
            atoms = flow(self._stream.blocks[index], self._stream.blocks[index - 1] if index else None)
            goes_on = bool(fresh) and isinstance(atoms[0], Line) and not _is_boxed(fresh[-1])
            at = len(fresh) - 1 if goes_on else len(fresh)
            inside = len(fresh[-1]) + (skipped if at == 0 else 0) if goes_on else 0
            self._places.append((number + at, inside))
            for atom in atoms:
                if isinstance(atom, Boxed) or not fresh or _is_boxed(fresh[-1]):
                    fresh.append([])
                fresh[-1].append(atom)
        self._show(number, skipped, fresh)
        self.changed.emit()

    def _end(self) -> tuple[int, int]:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Prose):
            return len(self._parts) - 1, len(last.lines)
        return len(self._parts), 0

    def _show(self, number: int, skipped: int, fresh: list[list[Atom]]) -> None:
        """Bring the parts from that number on in line with what they are to hold."""
        for at, atoms in enumerate(fresh, number):
            kind = _kind(atoms) if atoms else Prose
            if at < len(self._parts) and type(self._parts[at]) is not kind:
                self._drop(at)
            if at == len(self._parts):
                self._add(kind, at)
            self._fill(at, atoms, skipped if at == number else 0)
        self._drop(number + len(fresh))
        # All heights are right before anything is painted. Twice: a box knows its own once its text has its width.
        for _ in range(2):
            self._column.activate()
            for part in self._parts[number:]:
                if isinstance(part, CodeBlock | TableBlock):
                    part.settle()

    def _fill(self, at: int, atoms: list[Atom], skipped: int) -> None:
        part = self._parts[at]
        if isinstance(part, Prose):
            part.set_lines(skipped, [atom for atom in atoms if isinstance(atom, Line)])
            return
        atom = atoms[0]
        assert isinstance(atom, Boxed), "a part that is not prose holds one block"
        part.start = atom.block.start
        part.set_in(atom.insets, right_to_left=atom.right_to_left, gap=atom.gap)
        if isinstance(part, CodeBlock) and isinstance(atom.block, Code):
            part.show_code(atom.block)
        elif isinstance(part, TableBlock) and isinstance(atom.block, Table):
            before = self._parts[at - 1] if at else None
            part.show_table(atom.block, before if isinstance(before, TableBlock) else None)

    def _add(self, kind: type[Part], at: int) -> None:
        part = kind(self._marks)
        text = text_of(part)
        if isinstance(part, Prose):
            text.setAccessibleName(self._name)
        text.offset_chosen.connect(self.token_chosen)
        text.link_chosen.connect(self.link_chosen)
        text.caret_moved.connect(self._report_caret)
        self._parts.append(part)
        self._column.insertWidget(at, part)
        part.show()  # now, not with the next event: its height depends on the width it is given
        self.part_added.emit(part)

    def _drop(self, first: int) -> None:
        """Take away the parts from that number on."""
        for part in self._parts[first:]:
            self._column.removeWidget(part)
            part.hide()
            part.deleteLater()
        del self._parts[first:]

    # Steps

    def append_steps(self, steps: Sequence[Step]) -> None:
        """Add what the next steps wrote, in one go."""
        self._marks.steps.append(steps)
        self.append_text("".join(step.text for step in steps))

    def mark_steps(self, steps: Sequence[Step]) -> None:
        """Note which steps wrote text that is here already."""
        self._marks.steps.append(steps)
        self.refresh()

    def set_text(self, text: str) -> None:
        """Begin the source anew; the steps stay."""
        self.begin_after("")
        self.append_text(text)
        self.changed.emit()

    def begin_after(self, before: str) -> None:
        """Begin the source anew with something that is not shown; offsets count it."""
        self._drop(0)
        self._stream, self._places = MarkdownStream(before=before), []
        self.start = len(before)

    def drafted_spans(self) -> list[tuple[int, int]]:
        """The spans of the source that are tinted, in order."""
        return self._marks.steps.drafted()

    def held_span(self) -> tuple[int, int] | None:
        """The span of the source that is outlined."""
        span = self._marks.steps[self._marks.held]
        return (span.start, span.end) if span else None

    def step_at(self, offset: int) -> int:
        """The step that wrote the character at `offset` of the source, or -1."""
        return self._marks.steps.at(offset)

    def hold_step(self, index: int) -> None:
        """Outline what a step wrote; -1 for none."""
        if index != self._marks.held:
            self._marks.held = index
            self.refresh()

    def held_rectangle(self) -> QRectF | None:
        """Where the outlined step stands, in this widget's coordinates; None where nothing of it is shown."""
        span = self.held_span()
        rectangles = list(self.rectangles(*span)) if span else []
        return rectangles[0].united(rectangles[-1]) if rectangles else None

    def rectangles(self, start: int, end: int) -> Iterator[QRectF]:
        """Where the characters [start, end) of the source are shown, in this widget's coordinates."""
        number = max(0, bisect_right(self._parts, start, key=start_of) - 1)
        while number < len(self._parts) and start_of(self._parts[number]) < end:
            text = text_of(self._parts[number])
            aside = text.viewport().mapTo(self, QPoint(0, 0))
            yield from (rectangle.translated(aside) for rectangle in text.rectangles(start, end))
            number += 1

    # What is looked for

    def texts(self) -> list[SourceText]:
        """The text of every part."""
        return [text_of(part) for part in self._parts]

    def look_for(self, words: re.Pattern[str] | None) -> None:
        """Mark these words wherever they stand; None: nothing is looked for."""
        self._marks.words = words
        for text in self.texts():
            text.found.search()

    # How it looks

    def set_tinted(self, tinted: bool) -> None:
        """Whether drafted tokens carry a tint."""
        self._marks.tinted = tinted
        self.refresh()

    def set_theme(self, theme: Theme) -> None:
        self._marks.theme = theme
        for part in self._parts:
            part.set_theme()

    def refresh(self) -> None:
        """Paint all of it again, the steps or the marks changed."""
        for part in self._parts:
            text_of(part).refresh()

    def _report_caret(self, place: QRectF) -> None:
        text = self.sender()
        if isinstance(text, SourceText):
            self.caret_moved.emit(place.translated(text.viewport().mapTo(self, QPoint(0, 0))))


def text_of(part: Part) -> SourceText:
    """The text inside a part."""
    return part if isinstance(part, Prose) else part.text


def start_of(part: Part) -> int:
    """Where in the source a part begins."""
    if isinstance(part, Prose):
        return part.lines[0].start if part.lines else 0
    return part.start


def _is_boxed(atoms: list[Atom]) -> bool:
    return bool(atoms) and isinstance(atoms[-1], Boxed)


def _kind(atoms: list[Atom]) -> type[Part]:
    atom = atoms[0]
    if isinstance(atom, Line):
        return Prose
    return CodeBlock if isinstance(atom.block, Code) else TableBlock
