"""Code in pieces of one colour while it grows: what is finished is coloured once. Knows nothing of widgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.markdown import Code, Run, highlight
from app.views.lines import Line, Piece

WINDOW = 1500  # characters at the end that are coloured again with every addition
_LONGEST_WINDOW = 4000  # beyond, text that gives no place to begin anew waits, plain, for the end of the block


class CodeColours:
    """The lines of one code block. While it is open, colouring begins anew at a line of which that is safe."""

    def __init__(self) -> None:
        self._frozen: list[Line] = []
        self._reached = 0  # characters in the frozen lines

    def lines(self, code: Code) -> tuple[int, list[Line]]:
        """The number of the first line that may have changed, and the lines from there on.

        Once the block is closed, all of it is coloured in one go: what the window saw wrongly is put right. Code whose
        lines stand apart in the source, behind the marks of a list or a quote, is never long.
        """
        runs = code.runs
        if code.closed or len(runs) != 1:
            self._frozen, self._reached = [], 0
            return 0, coloured(highlight(code.language, code.text), runs) if runs else [Line(code.start)]
        rest = Run(runs[0].text[self._reached :], runs[0].offset + self._reached)
        known = len(rest.text) <= _LONGEST_WINDOW
        first, fresh = len(self._frozen), coloured(highlight(code.language if known else "", rest.text), [rest])
        if len(rest.text) > WINDOW:
            self._freeze(fresh, runs[0].offset)
        return first, fresh

    def _freeze(self, fresh: list[Line], offset: int) -> None:
        """Freeze up to the last line in the elder half of the window before which the lexer was at rest."""
        for number in range(len(fresh) - 1, 0, -1):
            line = fresh[number]
            if line.start - offset - self._reached > WINDOW // 2 or not line.pieces:
                continue
            head = line.pieces[0]
            inside = head.kind.startswith(("Literal.String", "Comment"))
            if not inside and not head.text[0].isspace() and head.kind:
                self._frozen += fresh[:number]
                self._reached = line.start - offset
                return


def coloured(pieces: tuple[tuple[str, str], ...], runs: Sequence[Run]) -> list[Line]:
    """The lines of pieces of (kind, text); joined, the texts are those of the runs."""
    lines: list[Line] = []
    start = runs[0].offset if runs else 0
    line: list[Piece] = []
    for kind, text, offset in _placed(pieces, runs):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append(Line(start, tuple(line)))
                start, line = offset + 1, []
                offset += 1
            if part:
                start = start if line else offset
                line.append(Piece(part, offset, kind=kind))
                offset += len(part)
    return [*lines, Line(start, tuple(line))]


def _placed(pieces: tuple[tuple[str, str], ...], runs: Sequence[Run]) -> Iterator[tuple[str, str, int]]:
    """The pieces cut where a run ends, each with its offset in the source."""
    number, inside = 0, 0
    for kind, text in pieces:
        while text:
            run = runs[number]
            part = text[: len(run.text) - inside]
            yield kind, part, run.offset + inside
            text, inside = text[len(part) :], inside + len(part)
            if inside == len(run.text):
                number, inside = number + 1, 0
