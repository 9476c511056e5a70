"""A reply's Markdown as blocks of plain data, while it streams. Knows nothing of widgets, threads or models."""

from app.markdown.blocks import Block, Cell, Code, Heading, Item, List, Paragraph, Quote, Rule, Run, Style, Table
from app.markdown.colours import highlight
from app.markdown.direction import is_right_to_left
from app.markdown.source_map import Leaf, Place, leaves, offset_of, places
from app.markdown.stream import MarkdownStream, parse

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Heading",
    "Item",
    "Leaf",
    "List",
    "MarkdownStream",
    "Paragraph",
    "Place",
    "Quote",
    "Rule",
    "Run",
    "Style",
    "Table",
    "highlight",
    "is_right_to_left",
    "leaves",
    "offset_of",
    "parse",
    "places",
]
