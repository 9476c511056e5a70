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
    if old and lines and replace(old[0], pieces=()) == replace(lines[0], pieces=()):
        _go_on(cursor, formats, first, old[0], lines)
    else:
        _rewrite(cursor, formats, first, lines)


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
    new, same, inside = lines[0], 0, 0
    while same < min(len(old.pieces), len(new.pieces)) and old.pieces[same] == new.pieces[same]:
        same += 1
    if same < min(len(old.pieces), len(new.pieces)):
        inside = _common(old.pieces[same], new.pieces[same])
    kept = list(old.pieces[:same])
    if inside:
        kept.append(replace(old.pieces[same], text=old.pieces[same].text[:inside]))
    start = cursor.document().findBlockByNumber(first).position()
    _clear_after(cursor, start + length_of(replace(old, pieces=tuple(kept))))
    insert_pieces(cursor, formats, new, same, inside)
    for line in lines[1:]:
        cursor.insertBlock(formats.block(line))
        insert_pieces(cursor, formats, line)


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
