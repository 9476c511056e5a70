"""One stretch of a reply's source as blocks. Knows nothing of streaming, or of where the stretches are cut.

A stretch that goes on from the one before is parsed behind a prefix that sets the scene (the first line of a paragraph,
the head of a table); nothing of the prefix is in the blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TypedDict

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.markdown.blocks import Block, Cell, Code, Heading, Item, List, Paragraph, Quote, Rule, Run, Table
from app.markdown.inline import pieces, set_up
from app.markdown.rules import Slice, dialect

_MARKER = re.compile(r"[ \t>]*([-+*]|\d{1,9}[.)])")
_WORD = re.compile(r"[^\W_]")
# A carriage return before a line feed is white space; the text itself keeps it.
_SEEN_AS = str.maketrans({"\r": " "})


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return set_up(dialect())


def build(source: str, start: int, end: int, prefix: str = "") -> tuple[Block, ...]:
    """The blocks of source[start:end]."""
    text = prefix + source[start:end].translate(_SEEN_AS)
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(text, parser, {}, tokens)
    builder = _Builder(parser, source, text, start - len(prefix), len(prefix))
    blocks = tuple(builder.blocks(iter(tokens), ""))
    if builder.lost_words():
        # Beyond the parser's limits (dozens of quotes or lists inside one another): as it stands.
        run = Run(source[start:end], start)
        blocks = (Paragraph(start=start, end=end, runs=(run,)),)
    if blocks and prefix:
        blocks = (replace(blocks[0], continues=True), *blocks[1:])
    return blocks


class _Span(TypedDict):
    """Of a block, in the source."""

    start: int
    end: int


class _Builder:
    """Turns the tokens of one stretch into blocks, and keeps account of the characters they show."""

    def __init__(self, parser: MarkdownIt, source: str, text: str, base: int, skipped: int) -> None:
        self._parser, self._source, self._text = parser, source, text
        self._base, self._skipped = base, skipped  # the text's offset in the source; characters of the prefix
        self._seen: list[Slice] = [(0, skipped)]  # of the text: shown, or hidden though it holds words
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._markers: dict[int, int] = {}  # by line: where its last list marker ends

    def lost_words(self) -> bool:
        """Whether some letter or digit of the text is in no block."""
        reached = 0
        for start, end in sorted(self._seen):
            if _WORD.search(self._text, reached, max(reached, start)):
                return True
            reached = max(reached, end)
        return _WORD.search(self._text, reached) is not None

    def blocks(self, tokens: Iterator[Token], closing: str) -> Iterator[Block]:
        """The blocks up to the token that closes their container."""
        for token in tokens:
            if token.type == closing:
                return
            block = self._block(token, tokens)
            if block is not None:
                yield block

    def _block(self, token: Token, tokens: Iterator[Token]) -> Block | None:
        """What the token begins; None for the inline and closing tokens of what was read before."""
        match token.type:
            case "blockquote_open":
                return self._quote(token, tokens)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, tokens)
            case "paragraph":
                return self._paragraph(token)
        kinds = {"heading_open": self._heading, "fence": self._code, "grid": self._table, "hr": self._rule}
        return kinds[token.type](token) if token.type in kinds else None

    def _paragraph(self, token: Token) -> Paragraph | None:
        slices = [(max(start, self._skipped), end) for start, end in token.meta["slices"] if end > self._skipped]
        if not slices:
            return None
        return Paragraph(**self._span(slices[0][0], slices[-1][1]), runs=self._runs(slices))

    def _heading(self, token: Token) -> Heading:
        runs = self._runs(token.meta["slices"])
        return Heading(**self._span(*token.meta["span"]), level=int(token.tag[1]), runs=runs)

    def _rule(self, token: Token) -> Rule:
        line = (token.map or [0])[0]
        return Rule(**self._span(self._lines[line], self._line_end(line)))

    def _code(self, token: Token) -> Code:
        info_start, info_end = token.meta["info"]
        self._seen.append((info_start, info_end))
        info = self._text[info_start:info_end].strip()
        runs: list[Run] = []
        for start, end in token.meta["slices"]:
            _extend(runs, self._shown(start, end))
        return Code(
            **self._span(*token.meta["span"]),
            language=language_of(info),
            info=info,
            closed=token.meta["closed"],
            runs=tuple(runs),
        )

    def _table(self, token: Token) -> Table:
        rows = [
            tuple(Cell(self._runs([cell])) for cell in row)
            for row in token.meta["rows"]
            if not row or row[0][0] >= self._skipped
        ]
        start, end = token.meta["span"]
        has_header = start >= self._skipped
        return Table(
            **self._span(start, end),
            header=rows[0] if has_header else (),
            rows=tuple(rows[1:] if has_header else rows),
            alignments=tuple(token.meta["alignments"]),
        )

    def _quote(self, token: Token, tokens: Iterator[Token]) -> Quote:
        line = (token.map or [0])[0]
        start = self._text.find(">", self._markers.get(line, self._lines[line]))
        inner = tuple(self.blocks(tokens, "blockquote_close"))
        span = self._span(start, inner[-1].end - self._base if inner else self._line_end(line))
        return Quote(**span, blocks=inner)

    def _list(self, token: Token, tokens: Iterator[Token]) -> List:
        items: list[Item] = []
        for inside in tokens:
            if inside.type in ("bullet_list_close", "ordered_list_close"):
                break
            items.append(self._item(inside, tokens))
        last = items[-1]
        return List(
            start=items[0].marker.offset,
            end=last.blocks[-1].end if last.blocks else last.marker.offset + len(last.marker.text),
            ordered=token.type == "ordered_list_open",
            items=tuple(items),
        )

    def _item(self, token: Token, tokens: Iterator[Token]) -> Item:
        line = (token.map or [0])[0]
        found = _MARKER.match(self._text, self._markers.get(line, self._lines[line]))
        assert found is not None, "markdown-it found a list item where there is no marker"
        self._markers[line] = found.end()
        runs = self._shown(*found.span(1))
        return Item(runs[0], tuple(self.blocks(tokens, "list_item_close")))

    # Text

    def _runs(self, slices: list[Slice]) -> tuple[Run, ...]:
        """The runs of text that stands in several slices, as one text."""
        text = "".join(self._text[start:end] for start, end in slices)
        found, hidden = pieces(self._parser, text)
        for start, end in hidden:
            self._seen += [(first, last) for first, last in _placed(slices, start, end)]
        runs: list[Run] = []
        for piece in found:
            for first, last in _placed(slices, piece.start, piece.end):
                styled = [replace(run, style=piece.style, link=piece.link) for run in self._shown(first, last)]
                _extend(runs, styled)
        return tuple(runs)

    def _shown(self, start: int, end: int) -> list[Run]:
        """A slice of the text as it stands in the source."""
        if start >= end:
            return []
        self._seen.append((start, end))
        return [Run(self._source[start + self._base : end + self._base], start + self._base)]

    def _span(self, start: int, end: int) -> _Span:
        start = max(start, self._skipped)
        return {"start": start + self._base, "end": max(start, end) + self._base}

    def _line_end(self, line: int) -> int:
        return self._lines[line + 1] - 1 if line + 1 < len(self._lines) else len(self._text)


def _placed(slices: list[Slice], start: int, end: int) -> Iterator[Slice]:
    """Where in the text the characters [start, end) of the joined slices stand."""
    at = 0
    for first, last in slices:
        length = last - first
        low, high = max(start, at), min(end, at + length)
        if low < high:
            yield first + low - at, first + high - at
        at += length
        if at >= end:
            return


def _extend(runs: list[Run], more: list[Run]) -> None:
    """Add runs; one that goes on in the source from the last, and looks the same, is made one with it."""
    for run in more:
        last = runs[-1] if runs else None
        if last and last.offset + len(last.text) == run.offset and (last.style, last.link) == (run.style, run.link):
            runs[-1] = replace(last, text=last.text + run.text)
        else:
            runs.append(run)


def language_of(info: str) -> str:
    """The language that the line of the opening fence names, if it does."""
    word = info.split(maxsplit=1)[0] if info else ""
    return word.strip("{}.").partition(",")[0]
