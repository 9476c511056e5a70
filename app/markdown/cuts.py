"""Where a reply's source may be cut, so that each stretch is parsed by itself and never again.

All decisions depend on the source alone, never on how it came in. Knows nothing of blocks being kept or shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import combining

from app.markdown.blocks import Block, Code, Heading, List, Paragraph, Quote, Run, Table
from app.markdown.build import build

LONGEST = 2000  # characters of a stretch (code blocks apart): parsing it takes a few milliseconds
LOOK_AHEAD = 16  # characters after a line's beginning that decide whether it may begin a stretch

_LIST_ITEM = re.compile(r" {0,3}([-+*]|\d{1,9}[.)])([ \t\n]|$)")
_OWN_KIND = re.compile(r" {0,3}([>#|]|([-+*]|\d{1,9}[.)])([ \t\n]|$))")  # not the text of a paragraph
_SENTENCE = re.compile(r"[.!?…][\"'”’)\]*_]*\s+|[。！？]+[」』）]*")
_SPACE = re.compile(r"\s+")
_UNCLOSED = re.compile(r"\*+(?=\S)|`|~~(?=\S)|!?\[")
_JOINER = "\u200d"


def is_list_item(source: str, line: int) -> bool:
    """Whether the line beginning there is an entry of a list, as far as its first characters tell."""
    return _LIST_ITEM.match(source, line, line + LOOK_AHEAD) is not None


def natural_cut(source: str, line: int, *, after_blank: bool, in_list: bool) -> bool:
    """Whether a new stretch begins at this line whatever stands before it. In a list, the line may belong to it."""
    if source.startswith(("```", "~~~"), line):
        return True
    if not after_blank or source[line : line + 1] in ("", "\n", "\r"):
        return False
    return not in_list or not (source[line] in " \t" or is_list_item(source, line))


def forced_cut(source: str, start: int, longest: int, prefix: str) -> tuple[int, str]:
    """Where to cut a stretch that has grown too long, and the prefix that sets the scene for what follows.

    The best of these places: before a list entry, after an empty line, at a line end, after a sentence, at white space;
    never inside bold, code or a link, and before an unclosed mark rather than after it.
    """
    low, end = start + longest // 2, start + longest
    blocks = build(source, start, end, prefix)
    leaves = list(_leaves(blocks))
    unclosed = _first_unclosed(leaves, low, end)
    fallback = end
    for places in _places(source, low, end):
        safe = [cut for cut in places if _is_safe(leaves, source, cut)]
        clean = [cut for cut in safe if cut <= unclosed]
        if clean:
            return clean[-1], _scene(source, start, clean[-1], prefix, blocks)
        if safe and fallback == end:
            fallback = safe[-1]
    if fallback == end:
        fallback = _between_characters(source, end, low)
    return fallback, _scene(source, start, fallback, prefix, blocks)


def _places(source: str, low: int, high: int) -> Iterator[list[int]]:
    """The places to cut at in (low, high], the best kind first."""
    lines = [found.end() for found in re.compile("\n").finditer(source, low, high)]
    yield [line for line in lines if is_list_item(source, line)]
    yield [line for line in lines if _is_after_blank(source, line)]
    yield lines
    yield [found.end() for found in _SENTENCE.finditer(source, low, high)]
    yield [found.end() for found in _SPACE.finditer(source, low, high)]


def _is_after_blank(source: str, line: int) -> bool:
    return not source[source.rfind("\n", 0, line - 1) + 1 : line].strip()


def _is_safe(leaves: Sequence[Paragraph | Heading | Code], source: str, cut: int) -> bool:
    """Whether the place is between blocks, at a line end of code, or in plain text."""
    for leaf in leaves:
        if leaf.start < cut < leaf.end:
            if isinstance(leaf, Code):
                return source[cut - 1] == "\n"
            return any(run.offset < cut <= run.offset + len(run.text) for run in leaf.runs if _is_plain(run))
    return True


def _is_plain(run: Run) -> bool:
    return not run.style and not run.link


def _first_unclosed(leaves: Sequence[Paragraph | Heading | Code], low: int, high: int) -> int:
    """The first mark in plain text that may yet turn out to open something."""
    for leaf in leaves:
        for run in () if isinstance(leaf, Code) else leaf.runs:
            if _is_plain(run) and (found := _UNCLOSED.search(run.text, max(0, low - run.offset))):
                return run.offset + found.start()
    return high


def _between_characters(source: str, cut: int, low: int) -> int:
    """The place, moved back so that no character is cut off its accents or the emoji it is joined to."""
    while cut > low and (
        combining(source[cut]) or _JOINER in source[cut - 1 : cut + 1] or "\ufe00" <= source[cut] <= "\ufe0f"
    ):
        cut -= 1
    return cut


def _scene(source: str, start: int, cut: int, prefix: str, blocks: Sequence[Block]) -> str:
    """What to parse the rest behind."""
    if source[cut - 1] != "\n":
        return "x"  # the line goes on: whatever it begins with now, it is text
    leaves = list(_leaves(blocks))
    for leaf in leaves:
        goes_on = isinstance(leaf, Code) and not leaf.closed and leaf is leaves[-1]
        if isinstance(leaf, Code) and leaf.start < cut and (cut < leaf.end or goes_on):
            return prefix if leaf.start == start and prefix else _fence_line(source, start, leaf.start)
    last = blocks[-1] if blocks else None
    if isinstance(last, Table) and last.start < cut <= last.end + 1:
        if not last.header:
            return prefix
        head_end = source.find("\n", source.find("\n", last.start) + 1) + 1
        return source[last.start : min(head_end, cut)]
    if _is_after_blank(source, cut) or _OWN_KIND.match(source, cut, cut + LOOK_AHEAD):
        return ""
    return "x\n"  # the next line of a paragraph


def _fence_line(source: str, start: int, fence: int) -> str:
    """The line that opens a code block inside a list or a quote, its list markers as white space."""
    line = max(start, source.rfind("\n", 0, fence) + 1)
    return re.sub(r"[^\s>]", " ", source[line:fence]) + source[fence : source.find("\n", fence) + 1]


def _leaves(blocks: Sequence[Block]) -> Iterator[Paragraph | Heading | Code]:
    """The blocks of text, those of lists and quotes too."""
    for block in blocks:
        match block:
            case Paragraph() | Heading() | Code():
                yield block
            case Quote():
                yield from _leaves(block.blocks)
            case List():
                for item in block.items:
                    yield from _leaves(item.blocks)
