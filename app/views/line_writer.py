"""Writes lines into a text document, as little of it anew as can be. Knows nothing of widgets.

Each line is one block of the document, of the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtGui import QTextCursor

from app.views.formats import Formats
from app.views.lines import Line, Piece, length_of


def write_lines(cursor: QTextCursor, formats: Formats, first: int, old: Sequence[Line], lines: Sequence[Line]) -> None:
    """Put `lines` in place of `old`, the last ones of the document, which begin with number `first`."""
    if old and lines and _alike(old[0], lines[0]):
        _go_on(cursor, formats, first, old[0], lines)
    else:
        _rewrite(cursor, formats, first, lines)


def length_kept(old: Line, new: Line) -> int:
    """How many of the document's positions stay as they are at the beginning of a line that another one replaces."""
    return length_of(_kept(old, *_common_pieces(old, new))) if _alike(old, new) else 0


def insert_pieces(cursor: QTextCursor, formats: Formats, line: Line, number: int = 0, inside: int = 0) -> None:
    """Insert the pieces from that number on, the first without the characters `inside` that are there already."""
    if not line.pieces:
        cursor.setBlockCharFormat(formats.text(Line(0, (Piece(""),)), 0))
    for index in range(number, len(line.pieces)):
        shown = line.pieces[index].shown
        cursor.insertText(shown[inside:] if index == number else shown, formats.text(line, index))


def _rewrite(cursor: QTextCursor, formats: Formats, first: int, lines: Sequence[Line]) -> None:
    """Write whole lines anew."""
    before = cursor.document().findBlockByNumber(first - 1)
    _clear_after(cursor, before.position() + before.length() - 1 if first else 0)
    for number, line in enumerate(lines, first):
        if number:
            cursor.insertBlock()
        cursor.setBlockFormat(formats.block(line))
        insert_pieces(cursor, formats, line)


def _go_on(cursor: QTextCursor, formats: Formats, first: int, old: Line, lines: Sequence[Line]) -> None:
    """Keep what the first line begins with; the usual case, where text was added at its end."""
    same, inside = _common_pieces(old, lines[0])
    start = cursor.document().findBlockByNumber(first).position()
    _clear_after(cursor, start + length_of(_kept(old, same, inside)))
    insert_pieces(cursor, formats, lines[0], same, inside)
    for line in lines[1:]:
        cursor.insertBlock(formats.block(line))
        insert_pieces(cursor, formats, line)


def _alike(old: Line, new: Line) -> bool:
    return replace(old, pieces=()) == replace(new, pieces=())


def _common_pieces(old: Line, new: Line) -> tuple[int, int]:
    """How many pieces two lines begin with alike, and how many characters of the piece after those."""
    same, fewest = 0, min(len(old.pieces), len(new.pieces))
    while same < fewest and old.pieces[same] == new.pieces[same]:
        same += 1
    return same, _common(old.pieces[same], new.pieces[same]) if same < fewest else 0


def _kept(line: Line, same: int, inside: int) -> Line:
    """The line up to there."""
    kept = line.pieces[:same]
    if inside:
        kept += (replace(line.pieces[same], text=line.pieces[same].text[:inside]),)
    return replace(line, pieces=kept)


def _clear_after(cursor: QTextCursor, position: int) -> None:
    cursor.setPosition(position)
    cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
    cursor.removeSelectedText()


def _common(old: Piece, new: Piece) -> int:
    """How many characters two pieces begin with alike; 0 where they look different."""
    if replace(old, text="") != replace(new, text=""):
        return 0
    if new.text.startswith(old.text):
        return len(old.text)
    same = 0
    while same < min(len(old.text), len(new.text)) and old.text[same] == new.text[same]:
        same += 1
    return same
