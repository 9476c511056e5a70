"""From the source to the text that is shown, and back: for tints, for clicks, for copying. Knows nothing of widgets.

What is shown are leaves: paragraphs, headings, code blocks, cells and the markers of lists, in reading order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.markdown.blocks import Block, Cell, Code, Heading, Item, List, Paragraph, Quote, Run, Table

Leaf = Paragraph | Heading | Code | Cell | Item  # of an item, its marker


@dataclass(frozen=True, slots=True)
class Place:
    """Characters [first, last) of a leaf's text."""

    leaf: Leaf
    first: int
    last: int


def places(blocks: Sequence[Block], start: int, end: int) -> Iterator[Place]:
    """Where the characters [start, end) of the source are shown; those that are only markup are nowhere."""
    number = max(0, bisect_right(blocks, start, key=lambda block: block.start) - 1)
    while number < len(blocks) and blocks[number].start < end:
        for leaf in leaves(blocks[number : number + 1]):
            yield from _within(leaf, start, end)
        number += 1


def leaves(blocks: Sequence[Block]) -> Iterator[Leaf]:
    """Everything with text of its own, in reading order."""
    for block in blocks:
        match block:
            case Paragraph() | Heading() | Code():
                yield block
            case Quote():
                yield from leaves(block.blocks)
            case List():
                for item in block.items:
                    yield item
                    yield from leaves(item.blocks)
            case Table():
                yield from block.header
                for row in block.rows:
                    yield from row


def runs_of(leaf: Leaf) -> tuple[Run, ...]:
    """The runs that make up a leaf's text."""
    return (leaf.marker,) if isinstance(leaf, Item) else leaf.runs


def offset_of(leaf: Leaf, position: int) -> int:
    """The offset in the source of a character of a leaf's text; at its end, of what comes after the last character."""
    runs, at = runs_of(leaf), 0
    for run in runs:
        if position < at + len(run.text):
            return run.offset + position - at
        at += len(run.text)
    if runs:
        return runs[-1].offset + len(runs[-1].text)
    return leaf.start if isinstance(leaf, Block) else 0


def _within(leaf: Leaf, start: int, end: int) -> Iterator[Place]:
    """Neighbouring characters of a leaf as one place, over the marks hidden between its runs."""
    runs = runs_of(leaf)
    number = max(0, bisect_right(runs, start, key=lambda run: run.offset) - 1)
    stop = bisect_left(runs, end, key=lambda run: run.offset)
    at = sum(len(run.text) for run in runs[:number])
    found: tuple[int, int] | None = None
    for run in runs[number:stop]:
        low, high = max(start, run.offset), min(end, run.offset + len(run.text))
        if low < high:
            first = found[0] if found else at + low - run.offset
            found = first, at + high - run.offset
        at += len(run.text)
    if found:
        yield Place(leaf, *found)
