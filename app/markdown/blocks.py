"""What a reply is made of, frozen: paragraphs, headings, lists, code, tables, quotes, rules, and runs of text in them.

Every character shown is a slice of the source, never rewritten: `source[run.offset:][:len(run.text)] == run.text`.
Knows nothing of how the source is parsed or drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto


class Style(Flag):
    """How a run is set; several at once."""

    PLAIN = 0
    BOLD = auto()
    ITALIC = auto()
    CODE = auto()
    STRIKE = auto()
    IMAGE = auto()  # the description of an image, then its address in brackets; nothing is ever fetched


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one look. Line ends are kept: a line feed starts a new line."""

    text: str
    offset: int  # of its first character in the source
    style: Style = Style.PLAIN
    link: str = ""  # http, https or mailto; to be opened only after asking


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Part of a reply. `source[start:end]` is all it was made from, markup and what is inside it included."""

    start: int
    end: int
    continues: bool = False  # goes on from the block before, cut only to keep blocks short: no gap above it


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph(Block):
    """Text."""

    runs: tuple[Run, ...]

    @property
    def text(self) -> str:
        return joined(self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading(Block):
    """A heading; level 1 to 6."""

    level: int
    runs: tuple[Run, ...]

    @property
    def text(self) -> str:
        return joined(self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code(Block):
    """A code block, its text as it stands between the fences."""

    language: str  # "" where none is named
    info: str  # all that stands after the opening fence
    closed: bool  # whether the closing fence is there; until then it may grow
    runs: tuple[Run, ...]

    @property
    def text(self) -> str:
        return joined(self.runs)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list. Its marker is shown as it was written: "-", "3."."""

    marker: Run
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class List(Block):
    """A list; lists inside it are blocks of its items."""

    ordered: bool
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote(Block):
    """Quoted blocks."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    runs: tuple[Run, ...]

    @property
    def text(self) -> str:
        return joined(self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Block):
    """A table. A row can have fewer cells than the header, or more: nothing is dropped."""

    header: tuple[Cell, ...]  # empty where the table continues the one before
    rows: tuple[tuple[Cell, ...], ...]
    alignments: tuple[str, ...]  # "left", "center", "right" or "", by column


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Block):
    """A line across."""


def joined(runs: tuple[Run, ...]) -> str:
    """The text of the runs in one piece."""
    return runs[0].text if len(runs) == 1 else "".join(run.text for run in runs)
