"""From the blocks of a reply to what stands one below the other: lines of text, code blocks, tables.

Lists and quotes become insets of the lines in them. Knows nothing of widgets, or of blocks being frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.markdown import (
    Block,
    Code,
    Heading,
    Item,
    List,
    Paragraph,
    Quote,
    Rule,
    Run,
    Style,
    Table,
    is_right_to_left,
    leaves,
)
from app.views.lines import APART, NO_GAP, SECTION, TIGHT, Inset, Line, Piece, split


@dataclass(frozen=True, slots=True)
class Boxed:
    """A block that gets a widget of its own, and what sets it in."""

    block: Code | Table
    insets: tuple[Inset, ...]
    right_to_left: bool
    gap: int  # px above it


Atom = Line | Boxed


def flow(block: Block, before: Block | None) -> list[Atom]:
    """What a block shows; `before` is its elder neighbour, None for the first."""
    return list(_block(block, _gap(block, before), (), right_to_left=False))


def direction(text: str, *, otherwise: bool = False) -> bool:
    """Whether the text runs from right to left; where no character says so, as what is about it."""
    found = is_right_to_left(text)
    return otherwise if found is None else found


def _gap(block: Block, before: Block | None) -> int:
    """Above a block, below its neighbour."""
    if before is None or block.continues:
        return NO_GAP
    if isinstance(block, Heading):
        return SECTION
    return TIGHT if isinstance(before, Heading) else APART


def _block(block: Block, gap: int, insets: tuple[Inset, ...], *, right_to_left: bool) -> Iterator[Atom]:
    match block:
        case Paragraph():
            yield from _text(block, block.runs, gap, insets, right_to_left=right_to_left)
        case Heading():
            for line in _text(block, block.runs, gap, insets, right_to_left=right_to_left):
                yield replace(line, level=block.level)
        case Code() | Table():
            yield Boxed(block, insets, right_to_left, gap)
        case Rule():
            yield Line(block.start, insets=insets, gap=gap, rule=True, right_to_left=right_to_left)
        case Quote():
            side = direction(_first_text(block), otherwise=right_to_left)
            yield from _blocks(block.blocks, gap, (*insets, Inset.QUOTE), right_to_left=side, start=block.start)
        case List():
            inset = Inset.NUMBER if block.ordered else Inset.BULLET
            for number, item in enumerate(block.items):
                yield from _item(item, TIGHT if number else gap, (*insets, inset), right_to_left=right_to_left)


def _blocks(
    blocks: Sequence[Block], gap: int, insets: tuple[Inset, ...], *, right_to_left: bool, start: int
) -> Iterator[Atom]:
    """Neighbours inside a quote or an entry of a list."""
    if not blocks:
        yield Line(start, insets=insets, gap=gap, right_to_left=right_to_left)
    before: Block | None = None
    for block in blocks:
        above = gap if before is None else TIGHT if isinstance(block, List) else _gap(block, before)
        yield from _block(block, above, insets, right_to_left=right_to_left)
        before = block


def _item(item: Item, gap: int, insets: tuple[Inset, ...], *, right_to_left: bool) -> Iterator[Atom]:
    """The marker stands on the first line of the entry, or on one of its own where that is not its own text."""
    first = item.blocks[0] if item.blocks else None
    side = direction(_first_text(first) if first else "", otherwise=right_to_left)
    is_text = isinstance(first, Paragraph | Heading)
    atoms = list(_blocks(item.blocks, gap if is_text else TIGHT, insets, right_to_left=side, start=item.marker.offset))
    marker = _marker(item.marker, bullet=insets[-1] is Inset.BULLET)
    head = atoms[0]
    if isinstance(head, Line) and (is_text or not item.blocks):
        yield replace(head, start=item.marker.offset, pieces=(*marker, *head.pieces), marked=True, gap=gap)
        yield from atoms[1:]
    else:
        yield Line(item.marker.offset, marker, insets=insets, marked=True, gap=gap, right_to_left=side)
        yield from atoms


def _marker(run: Run, *, bullet: bool) -> tuple[Piece, ...]:
    return Piece(run.text, run.offset, bullet=bullet), Piece(" ")


def _text(
    block: Block, runs: Sequence[Run], gap: int, insets: tuple[Inset, ...], *, right_to_left: bool
) -> Iterator[Line]:
    side = direction("".join(run.text for run in runs if Style.CODE not in run.style), otherwise=right_to_left)
    start = block.start
    for number, pieces in enumerate(split(runs)):
        start = pieces[0].offset if pieces else start
        yield Line(start, pieces, insets=insets, right_to_left=side, gap=NO_GAP if number else gap)
        start = pieces[-1].offset + len(pieces[-1].text) + 1 if pieces else start + 1


def _first_text(block: Block) -> str:
    """The text that tells a container's direction."""
    for leaf in leaves([block]):
        if not isinstance(leaf, Item | Code):
            return "".join(run.text for run in leaf.runs)
    return ""


def cells(table: Table) -> list[list[Line]]:
    """A table's rows as lines, the header first, all with as many cells as the longest has."""
    rows = [*([table.header] if table.header else []), *table.rows]
    width = max([len(table.alignments), *(len(row) for row in rows)])
    grid: list[list[Line]] = []
    at = table.start
    for row in rows:
        lines = []
        for column in range(width):
            runs = row[column].runs if column < len(row) else ()
            pieces = tuple(piece for line in split(runs) for piece in line)
            at = pieces[0].offset if pieces else at
            alignment = table.alignments[column] if column < len(table.alignments) else ""
            text = "".join(run.text for run in runs)
            lines.append(Line(at, pieces, right_to_left=direction(text), alignment=alignment))
            at = pieces[-1].offset + len(pieces[-1].text) if pieces else at
        grid.append(lines)
    return grid
