"""The dialect: which rules of CommonMark hold in a reply, and where in the source each block's text stands.

Nothing a model writes may vanish or turn into something it did not mean, so HTML, entities, reference links, setext
headings and indented code are text; underscores never emphasise (`__init__`); backslashes stay, save before the few
characters that mark something (TeX writes `\\(`); and line ends stay line ends. Knows nothing of inline markup.
"""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, fence, heading, table

SCHEMES = ("http", "https", "mailto")
_MOST_NESTED = 60
_BAR = re.compile(r"(?<!\\)\|")

Slice = tuple[int, int]  # [start, end) in the text that is parsed


def dialect() -> MarkdownIt:
    """The parser of markdown-it-py with the block rules of replies. Its tokens carry slices, see the rules below."""
    parser = MarkdownIt("zero", {"maxNesting": _MOST_NESTED})
    parser.enable(["fence", "blockquote", "hr", "list", "heading", "table"])
    parser.block.ruler.at("paragraph", _paragraph)
    parser.block.ruler.at("fence", _fence, {"alt": ["paragraph", "blockquote", "list"]})
    parser.block.ruler.at("heading", _heading, {"alt": ["paragraph", "blockquote"]})
    parser.block.ruler.at("table", _table, {"alt": ["paragraph"]})
    parser.validateLink = is_allowed  # type: ignore[method-assign,assignment]
    parser.normalizeLink = str.strip  # type: ignore[method-assign,assignment]
    parser.normalizeLinkText = str  # type: ignore[method-assign,assignment]
    return parser


def is_allowed(link: str) -> bool:
    """Whether a link leads where a link may lead."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme.lower() in SCHEMES and bool(parts.netloc or parts.scheme.lower() == "mailto")


def _line_start(state: StateBlock, line: int, indent: int) -> int:
    """Where the line begins once its indent (in columns) is taken off. A tab that reaches beyond it goes whole."""
    start, column = state.bMarks[line], 0
    while start < state.eMarks[line] and column < indent:
        if state.src[start] == "\t":
            column += 4 - (column + state.bsCount[line]) % 4
        elif state.src[start] == " " or start - state.bMarks[line] < state.tShift[line]:  # the marker of its item, too
            column += 1
        else:
            break
        start += 1
    return start


def _lines(state: StateBlock, first: int, end: int, indent: int) -> list[Slice]:
    """The lines [first, end), each with its line end, save the last."""
    return [
        (_line_start(state, line, indent), state.eMarks[line] + (1 if line + 1 < end else 0))
        for line in range(first, end)
    ]


def _paragraph(state: StateBlock, start: int, _end: int, silent: bool) -> bool:
    """Lines up to an empty one or one that begins something else, white space at their ends and all."""
    if silent:
        return False
    outer, state.parentType = state.parentType, "paragraph"
    line = start + 1
    while line < state.lineMax and not state.isEmpty(line) and not _ends_paragraph(state, line):
        line += 1
    state.parentType, state.line = outer, line
    token = state.push("paragraph", "", 0)
    token.map = [start, line]
    token.meta["slices"] = _lines(state, start, line, state.blkIndent)
    return True


def _ends_paragraph(state: StateBlock, line: int) -> bool:
    if state.sCount[line] - state.blkIndent > 3 or state.sCount[line] < 0:  # indented far, or a quote's lazy line
        return False
    return any(rule(state, line, state.lineMax, True) for rule in state.md.block.ruler.getRules("paragraph"))


def _heading(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if not heading(state, start, end, silent):
        return False
    if not silent:
        opening, inline = state.tokens[-3], state.tokens[-2]
        mark = state.bMarks[start] + state.tShift[start]
        at = state.src.index(inline.content, mark + len(opening.markup))
        opening.meta["span"] = (mark, state.eMarks[start])
        opening.meta["slices"] = [(at, at + len(inline.content))]
    return True


def _fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if not fence(state, start, end, silent):
        return False
    if not silent:
        token = state.tokens[-1]
        mark = state.bMarks[start] + state.tShift[start]
        last = state.line - 1
        tail = state.src[state.bMarks[last] + state.tShift[last] : state.eMarks[last]].rstrip(" \t")
        closed = last > start and len(tail) >= len(token.markup) and not tail.strip(token.markup[0])
        token.meta["closed"] = closed
        token.meta["span"] = (mark, state.eMarks[last])
        token.meta["info"] = (mark + len(token.markup), state.eMarks[start])
        token.meta["slices"] = _lines(state, start + 1, last if closed else state.line, state.sCount[start])
    return True


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """One token for the whole table: its cells, those beyond the header's number too."""
    before = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    if not silent:
        heads = [token for token in state.tokens[before:] if token.type == "th_open"]
        del state.tokens[before:]
        token = state.push("grid", "", 0)
        token.map = [start, state.line]
        token.meta["alignments"] = [str(head.attrs.get("style", "")).partition(":")[2] for head in heads]
        token.meta["rows"] = [_cells(state, line) for line in range(start, state.line) if line != start + 1]
        token.meta["span"] = (state.bMarks[start] + state.tShift[start], state.eMarks[state.line - 1])
    return True


def _cells(state: StateBlock, line: int) -> list[Slice]:
    base, end = state.bMarks[line] + state.tShift[line], state.eMarks[line]
    edges = [base - 1, *(bar.start() for bar in _BAR.finditer(state.src, base, end)), end]
    cells = [_trimmed(state.src, left + 1, right) for left, right in pairwise(edges)]
    if cells and cells[0] == (base, base):  # nothing before the first bar
        cells = cells[1:]
    if len(cells) > 1 and cells[-1][0] == cells[-1][1]:
        cells = cells[:-1]
    return cells


def _trimmed(text: str, start: int, end: int) -> Slice:
    part = text[start:end]
    start += len(part) - len(part.lstrip(" \t"))
    return start, start + len(part.strip(" \t"))
