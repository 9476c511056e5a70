"""Bold, italic, code, strike, links and images inside a block's text, each character's place in it kept.

Emphasis is paired by markdown-it-py; what it pairs are slices. Knows nothing of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, backtick, image, link
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from app.markdown.blocks import Style
from app.markdown.rules import Slice, is_allowed

_ESCAPABLE = "*_`~|"
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"`]+", re.IGNORECASE)
_AFTER_ADDRESS = ".,;:!?'*_~"
_STYLES = {"strong": Style.BOLD, "em": Style.ITALIC, "s": Style.STRIKE}


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice of the text that is shown, and how."""

    start: int
    end: int
    style: Style
    link: str


class _State(StateInline):
    """Notes in every token where in the text it begins."""

    _text_at = -1

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        token.meta["at"] = self.pos
        return token

    def append_pending(self, text: str) -> None:
        if self._text_at < 0:
            self._text_at = self.pos
        super().append_pending(text)

    def pushPending(self) -> Token:
        token = super().pushPending()
        token.meta["at"], self._text_at = self._text_at, -1
        return token


def set_up(parser: MarkdownIt) -> MarkdownIt:
    """Give the parser the inline rules of the dialect."""
    parser.enable(["newline", "escape", "backticks", "strikethrough", "emphasis", "link", "image", "autolink"])
    rules = {
        "newline": _newline,
        "escape": _escape,
        "backticks": _backticks,
        "strikethrough": _strike,
        "emphasis": _stars,
        "link": _link,
        "image": _image,
    }
    for name, rule in rules.items():
        parser.inline.ruler.at(name, rule)
    parser.inline.ruler2.enable(["balance_pairs", "strikethrough", "emphasis"])
    parser.inline.ruler2.disable("fragments_join")
    return parser


def pieces(parser: MarkdownIt, text: str) -> tuple[list[Piece], list[Slice]]:
    """What is shown, in order, and which slices are not shown though they hold words: where links lead."""
    tokens: list[Token] = []
    state = _State(text, parser, {}, tokens)
    parser.inline.tokenize(state)
    for rule in parser.inline.ruler2.getRules(""):
        rule(state)
    shown: list[Piece] = []
    hidden: list[Slice] = []
    open_tags: list[str] = []
    to, bracket = "", 0
    for token in tokens:
        at, style = token.meta["at"], _style(open_tags)
        if token.nesting and token.tag in _STYLES:
            open_tags.append(token.tag) if token.nesting > 0 else open_tags.remove(token.tag)
        elif token.type == "link_open":
            to, bracket = str(token.attrs["href"]), int(token.markup == "autolink")
        elif token.type == "link_close":
            to, bracket = "", 0
            hidden.append((at, token.meta.get("end", at)))
        elif token.type == "code_inline":
            shown.append(Piece(*_inside(text, at, token.meta["end"], len(token.markup)), style | Style.CODE, to))
        elif token.type == "image":
            label = at + 2, at + 2 + len(token.content)
            shown.append(Piece(*label, style | Style.IMAGE, to))
            shown.append(Piece(label[1] + 1, token.meta["end"], style | Style.IMAGE, to))
        elif token.content:
            start = at + (1 if token.type == "text_special" else bracket)
            shown += _plain(text, start, start + len(token.content), style, to)
    return _merged(shown), hidden


def _style(tags: list[str]) -> Style:
    style = Style.PLAIN
    for tag in tags:
        style |= _STYLES[tag]
    return style


def _inside(text: str, start: int, end: int, mark: int) -> Slice:
    """What stands between the backticks, without the one space at either side that keeps it off them."""
    start, end = start + mark, end - mark
    code = text[start:end]
    if len(code) > 2 and code[0] == " " == code[-1] and code.strip(" "):
        return start + 1, end - 1
    return start, end


def _plain(text: str, start: int, end: int, style: Style, to: str) -> Iterator[Piece]:
    """Text, addresses in it as links."""
    while not to and (found := _ADDRESS.search(text, start, end)):
        address = found[0].rstrip(_AFTER_ADDRESS)
        while address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1].rstrip(_AFTER_ADDRESS)
        if not is_allowed(address):
            break
        if start < found.start():
            yield Piece(start, found.start(), style, "")
        start = found.start() + len(address)
        yield Piece(found.start(), start, style, address)
    if start < end:
        yield Piece(start, end, style, to)


def _merged(shown: list[Piece]) -> list[Piece]:
    """Neighbours of one look as one."""
    merged: list[Piece] = []
    for piece in shown:
        last = merged[-1] if merged else None
        if last and last.end == piece.start and (last.style, last.link) == (piece.style, piece.link):
            merged[-1] = Piece(last.start, piece.end, piece.style, piece.link)
        elif piece.start < piece.end:
            merged.append(piece)
    return merged


# Rules: markdown-it calls them with the state at a character they may take, silently to look ahead.


def _newline(state: StateInline, silent: bool) -> bool:
    """A line end is a character like any other, and so is white space about it."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.append_pending("\n")
    state.pos += 1
    return True


def _escape(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "\\" or state.pos + 1 >= state.posMax or state.src[state.pos + 1] not in _ESCAPABLE:
        return False
    if not silent:
        state.push("text_special", "", 0).content = state.src[state.pos + 1]
    state.pos += 2
    return True


def _backticks(state: StateInline, silent: bool) -> bool:
    return backtick(state, silent) and _note_end(state, silent, "code_inline")


def _link(state: StateInline, silent: bool) -> bool:
    return link(state, silent) and _note_end(state, silent, "link_close")


def _image(state: StateInline, silent: bool) -> bool:
    return image(state, silent) and _note_end(state, silent, "image")


def _note_end(state: StateInline, silent: bool, kind: str) -> bool:
    if not silent and state.tokens and state.tokens[-1].type == kind:
        state.tokens[-1].meta.setdefault("end", state.pos)
    return True


def _stars(state: StateInline, silent: bool) -> bool:
    return not silent and state.src[state.pos] == "*" and _mark(state, width=1)


def _strike(state: StateInline, silent: bool) -> bool:
    if silent or state.src[state.pos] != "~" or state.scanDelims(state.pos, canSplitWord=True).length != 2:
        return False
    return _mark(state, width=2)


def _mark(state: StateInline, width: int) -> bool:
    """A run of marks that may open or close a style; which do is settled once the whole text is read."""
    scanned = state.scanDelims(state.pos, canSplitWord=True)
    character = state.src[state.pos]
    for place in range(state.pos, state.pos + scanned.length, width):
        token = state.push("text", "", 0)
        token.content, token.meta["at"] = character * width, place
        state.delimiters.append(
            Delimiter(
                marker=ord(character),
                length=scanned.length if width == 1 else 0,  # only single marks fall under the rule of three
                token=len(state.tokens) - 1,
                end=-1,
                open=scanned.can_open,
                close=scanned.can_close,
            )
        )
    state.pos += scanned.length
    return True
