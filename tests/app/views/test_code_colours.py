"""Code is coloured while it grows, at a cost that does not grow with it, and wholly once it is closed."""

from __future__ import annotations

from dataclasses import fields

import pytest
from PySide6.QtGui import QColor

from app.markdown import Code, highlight, parse
from app.theme import load_themes
from app.views import code_colours
from app.views.code_colours import CodeColours, coloured
from app.views.formats import kind_colour
from app.views.lines import Line

SOURCE = 'class A:\n    """Doc\n\n    string."""\n\n    def f(self):  # why\n        return "é👩"\n\n\n' * 60


def block(text: str, *, closed: bool) -> Code:
    (found,) = parse(f"```python\n{text}{'```' if closed else ''}")
    assert isinstance(found, Code)
    return found


def test_only_the_end_is_coloured_again_and_in_the_end_all_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    monkeypatch.setattr(
        code_colours, "highlight", lambda language, text: lengths.append(len(text)) or highlight(language, text)
    )
    colours, lines = CodeColours(), list[Line]()
    for end in range(40, len(SOURCE), 40):
        code = block(SOURCE[:end], closed=False)
        first, fresh = colours.lines(code)
        lines[first:] = fresh
        assert "\n".join(line.text for line in lines) == code.text
    assert max(lengths) < 2 * code_colours.WINDOW
    code = block(SOURCE, closed=True)
    assert colours.lines(code) == (0, coloured(highlight("python", code.text), code.runs))


def test_code_in_a_list_keeps_each_line_s_place() -> None:
    source = "- x\n  ```py\n  a = 1\n  b = '2'\n  ```"
    item = parse(source)[0].items[0]  # type: ignore[attr-defined]
    _, lines = CodeColours().lines(item.blocks[1])
    assert [line.text for line in lines] == ["a = 1", "b = '2'"]
    for line in lines:
        for piece in line.pieces:
            assert source[piece.offset :].startswith(piece.text)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_colour_of_code_can_be_read_on_its_panel(name: str) -> None:
    theme = load_themes()[name]
    kinds = ["", "Keyword", "Name.Function", "Literal.String.Doc", "Literal.Number.Integer", "Comment.Single"]
    colours = {kind_colour(theme, kind) for kind in kinds}
    assert len(colours) == len(kinds)
    assert colours <= {getattr(theme, field.name) for field in fields(theme)}
    for colour in colours:
        assert contrast(colour, theme.surface_raised) >= 4.5


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in QColor(colour).getRgbF()]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
