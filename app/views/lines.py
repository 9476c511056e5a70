"""The lines a text widget shows, as data: pieces of one look, each with its place in the source.

Offsets count characters; positions count as Qt does, where characters beyond U+FFFF count twice. Knows nothing of
widgets, or of what the lines were made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from app.markdown import Run, Style

NO_GAP, TIGHT, APART, SECTION = 0, 4, 8, 16  # px above a line

# Characters that a text document would drop, double or take for its own structure, one for one, so offsets stay.
_SHOWN_AS = str.maketrans({"\r": "\u200b", "\u2029": "\u2028", "\0": "\u2400"})
_SHOWN_AS |= {ord(reserved): "\ufffd" for reserved in "\ufdd0\ufdd1\ufffc"}


class Inset(Enum):
    """What sets a line in from the side."""

    QUOTE = auto()
    BULLET = auto()
    NUMBER = auto()


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of one look."""

    text: str
    offset: int = -1  # of its first character in the source; -1: not of the source
    style: Style = Style.PLAIN
    link: str = ""
    kind: str = ""  # of code, as Pygments names it
    bullet: bool = False  # the marker of a list: shown as a dot

    @property
    def shown(self) -> str:
        """The text as it goes into a document; as long as the text itself."""
        return "•" if self.bullet else self.text.translate(_SHOWN_AS)


@dataclass(frozen=True, slots=True)
class Line:
    """What stands between two line ends."""

    start: int  # in the source
    pieces: tuple[Piece, ...] = ()
    level: int = 0  # of a heading, 1 to 6
    insets: tuple[Inset, ...] = ()  # from the outside in
    marked: bool = False  # begins with the marker of its list, in the last inset
    right_to_left: bool = False
    gap: int = NO_GAP  # px above it
    rule: bool = False  # a line across, no text
    alignment: str = ""  # "left", "center", "right", or as the direction has it

    @property
    def text(self) -> str:
        """Its characters of the source."""
        return "".join(piece.text for piece in self.pieces if piece.offset >= 0)


def width_of(text: str) -> int:
    """How many of Qt's positions the text takes."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def length_of(line: Line) -> int:
    """How many of Qt's positions the line takes."""
    return sum(width_of(piece.text) for piece in line.pieces)


def ranges(line: Line, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the characters [start, end) of the source stand in the line, as positions; neighbours as one."""
    at, found = 0, None
    for piece in line.pieces:
        low, high = max(start, piece.offset), min(end, piece.offset + len(piece.text))
        if piece.offset >= 0 and low < high:
            first = at + width_of(piece.text[: low - piece.offset])
            last = first + width_of(piece.text[low - piece.offset : high - piece.offset])
            if found and found[1] != first:
                yield found
                found = None
            found = (found[0] if found else first), last
        at += width_of(piece.text)
    if found:
        yield found


def offset_at(line: Line, position: int) -> int:
    """The offset in the source of the character at a position of the line; at its end, of what comes after it."""
    after = line.start
    for piece in line.pieces:
        width = width_of(piece.text)
        if piece.offset >= 0:
            if position < width:
                return piece.offset + characters(piece.text, position)
            after = piece.offset + len(piece.text)
        elif position < width:
            return after
        position -= width
    return after


def cut(line: Line, first: int, last: int) -> str:
    """The source's characters in [first, last), positions of the line."""
    kept, at = [], 0
    for piece in line.pieces:
        low, high = max(first - at, 0), min(last - at, width_of(piece.text))
        if low < high and piece.offset >= 0:
            kept.append(piece.text[characters(piece.text, low) : characters(piece.text, high)])
        elif low < high:
            kept.append(" ")
        at += width_of(piece.text)
    return "".join(kept)


def characters(text: str, width: int) -> int:
    """How many characters of the text take up `width` of Qt's positions."""
    if text.isascii():
        return width
    count = 0
    for character in text:
        width -= 2 if character > "\uffff" else 1
        if width < 0:
            break
        count += 1
    return count


def split(runs: Sequence[Run]) -> list[tuple[Piece, ...]]:
    """The pieces of each line of a text; at least one line."""
    lines: list[list[Piece]] = [[]]
    for run in runs:
        offset = run.offset
        for number, text in enumerate(run.text.split("\n")):
            if number:
                lines.append([])
            if text:
                lines[-1].append(Piece(text, offset, run.style, run.link))
            offset += len(text) + 1
    return [tuple(line) for line in lines]


def plain(text: str, start: int = 0) -> list[Line]:
    """Text exactly as it stands, a line each."""
    lines = []
    for part in text.split("\n"):
        lines.append(Line(start, (Piece(part, start),) if part else ()))
        start += len(part) + 1
    return lines
