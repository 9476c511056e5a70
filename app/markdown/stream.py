"""A reply's Markdown while it streams: finished blocks frozen, only the tail parsed again.

The source is cut into stretches; all but the last are parsed once and their blocks stay the same objects. Parsing at
once is the same thing with a single piece, so both give the same blocks. Knows nothing of widgets or of what a block
looks like.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.markdown.blocks import Block, Code, Run
from app.markdown.build import build, language_of
from app.markdown.cuts import LONGEST, LOOK_AHEAD, forced_cut, is_list_item, natural_cut

_OPENING = re.compile(r"(`{3,})([^`\n]*)$|(~{3,})([^\n]*)$")


def parse(source: str) -> Sequence[Block]:
    """The blocks of a whole reply."""
    stream = MarkdownStream()
    stream.append(source)
    return stream.blocks


class MarkdownStream:
    """Grows at its end. `blocks` up to what `append` returns are the same objects as before."""

    def __init__(self, longest: int = LONGEST, before: str = "") -> None:
        """`before`: what the source begins with and is in no block; offsets count it."""
        self._longest = longest  # characters of a stretch, code blocks apart
        self.source = before
        self.blocks: Sequence[Block] = ()
        self._blocks: list[Block] = []
        self._frozen = 0  # blocks that never change again
        self._start = len(before)  # of the stretch that is still open
        self._prefix = ""  # what it is parsed behind
        self._line = len(before)  # the newest line of the stretch that was looked at
        self._in_list = False
        self._code: _OpenCode | None = None

    def append(self, text: str) -> int:
        """Take more of the source; the index of the first block that changed or is new."""
        self.source += text
        old = self._blocks[self._frozen :]
        first = self._frozen
        del self._blocks[self._frozen :]
        while self._freeze_one():
            pass
        tail = self._tail()
        kept = 0
        # What the tail holds besides its last block hardly ever changes: the same objects save the view the work.
        fresh = self._blocks[first:] + list(tail)
        while kept < min(len(old), len(fresh)) and old[kept] == fresh[kept]:
            fresh[kept] = old[kept]
            kept += 1
        self._blocks[first:] = fresh
        self.blocks = self._blocks
        return first + kept

    def _tail(self) -> Sequence[Block]:
        if self._code is not None:
            return (self._code.block(self.source, len(self.source)),)
        return build(self.source, self._start, len(self.source), self._prefix)

    def _freeze_one(self) -> bool:
        """Freeze the open stretch if it can be told where it ends, and open the next."""
        if self._code is None and self._line == self._start and not self._prefix:
            self._code = _OpenCode.at(self.source, self._start, self._longest)
        if self._code is not None:
            if not (end := self._code.find_end(self.source)):
                return False
            self._close(end, "", (self._code.block(self.source, end),))
            return True
        if end := self._find_natural_cut():
            self._close(end, "")
            return True
        if len(self.source) < self._start + self._longest + LOOK_AHEAD:
            return False
        self._close(*forced_cut(self.source, self._start, self._longest, self._prefix))
        return True

    def _close(self, end: int, prefix: str, blocks: Sequence[Block] | None = None) -> None:
        self._blocks += build(self.source, self._start, end, self._prefix) if blocks is None else blocks
        self._frozen = len(self._blocks)
        self._start = self._line = end
        self._prefix, self._in_list, self._code = prefix, False, None

    def _find_natural_cut(self) -> int:
        """The first line after the newest that begins a new stretch; 0 where none is known to."""
        if self._line == self._start:
            self._in_list = is_list_item(self.source, self._start)
        while line := self.source.find("\n", self._line, self._start + self._longest) + 1:
            if "\n" not in self.source[line : line + LOOK_AHEAD] and len(self.source) < line + LOOK_AHEAD:
                return 0  # too little of it to tell
            blank = not self.source[self._line : line].strip()
            if natural_cut(self.source, line, after_blank=blank, in_list=self._in_list):
                return line
            self._line = line
            self._in_list = self._in_list or is_list_item(self.source, line)
        return 0


class _OpenCode:
    """A code block that is a stretch of its own, so that it can grow without being parsed again."""

    def __init__(self, start: int, content: int, mark: str, info: str) -> None:
        self._start, self._content, self._mark, self._info = start, content, mark, info
        self._looked = content  # no line before this one closes the block
        self._closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t\r]*$")

    @staticmethod
    def at(source: str, start: int, longest: int) -> _OpenCode | None:
        """The code block that a whole line opens there."""
        end = source.find("\n", start, start + longest)
        found = _OPENING.match(source[start:end].rstrip("\r")) if end >= 0 else None
        if found is None:
            return None
        mark, info = found[1] or found[3], found[2] or found[4] or ""
        return _OpenCode(start, end + 1, mark, info.strip())

    def find_end(self, source: str) -> int:
        """Where the block ends, its closing line whole; 0 while that is not known."""
        while line_end := source.find("\n", self._looked) + 1:
            if self._closing.match(source, self._looked, line_end - 1):
                return line_end
            self._looked = line_end
        return 0

    def block(self, source: str, end: int) -> Code:
        """The block as it stands, up to there."""
        stop = end - 1 if end > self._content and source[end - 1] == "\n" else end
        last = source.rfind("\n", self._content, stop) + 1 or self._content
        closed = last < stop and self._closing.match(source, last, stop) is not None
        text = source[self._content : max(self._content, last - 1) if closed else stop]
        return Code(
            start=self._start,
            end=stop,
            language=language_of(self._info),
            info=self._info,
            closed=closed,
            runs=(Run(text, self._content),) if text else (),
        )
