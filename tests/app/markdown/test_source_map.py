"""From source to text shown and back, direction of text, and colours of code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown import Code, Item, highlight, is_right_to_left, leaves, offset_of, parse, places
from app.markdown.source_map import runs_of


def shown(source: str, start: int, end: int) -> list[str]:
    found = []
    for place in places(parse(source), start, end):
        text = "".join(run.text for run in runs_of(place.leaf))
        found.append(text[place.first : place.last])
    return found


@pytest.mark.parametrize(
    ("source", "part", "expected"),
    [
        ("a **bold** word", "**bold**", ["bold"]),
        ("a **bold** word", "ld** wo", ["ld wo"]),
        ("a **bold** word", "**", []),
        ("one\n\ntwo **x**\n\nthree", "ne\n\ntwo **x**\n\nth", ["ne", "two x", "th"]),
        ("- a\n- b\n", "- a\n- b", ["-", "a", "-", "b"]),
        ("> q\n> r", "q\n> r", ["q\nr"]),
        ("```py\nx = 1\n```\n", "py\nx =", ["x ="]),
        ("| a | b |\n|---|---|\n| c | d |\n", "b |\n|---|---|\n| c", ["b", "c"]),
        ("[l](http://x.y) z", "l](http://x.y) z", ["l z"]),
    ],
)
def test_where_part_of_the_source_is_shown(source: str, part: str, expected: list[str]) -> None:
    start = source.index(part)
    assert shown(source, start, start + len(part)) == expected


_SOURCES = st.lists(
    st.sampled_from(
        ["word ", "**", "*", "`", "\n", "\n\n", "- ", "> ", "| a |\n|---|\n", "```\n", "é👩‍👧", "[x](http://y.z)"]
    ),
    max_size=25,
).map("".join)


@settings(max_examples=60, deadline=None)
@given(_SOURCES)
def test_every_character_shown_is_found_from_the_source_and_back(source: str) -> None:
    blocks = parse(source)
    for leaf in leaves(blocks):
        length = sum(len(run.text) for run in runs_of(leaf))
        for position in range(length):
            offset = offset_of(leaf, position)
            (place,) = places(blocks, offset, offset + 1)
            assert (place.leaf, place.first, place.last) == (leaf, position, position + 1)


def test_the_offset_behind_the_last_character() -> None:
    item, paragraph = leaves(parse("- **ab** c\n"))
    assert isinstance(item, Item)
    assert offset_of(paragraph, 4) == 10
    (code,) = leaves(parse("```\n"))
    assert isinstance(code, Code)
    assert offset_of(code, 0) == code.start


@pytest.mark.parametrize(
    ("text", "right_to_left"),
    [
        ("hello", False),
        ("שלום", True),
        ("123 — مرحبا hello", True),
        ("(1) hello שלום", False),
        ("123 …", None),
        ("", None),
        ("\u2067שלום\u2069 hello", False),
        ("\u2069 שלום", True),
    ],
)
def test_direction(text: str, right_to_left: bool | None) -> None:
    assert is_right_to_left(text) is right_to_left


def test_code_in_colours() -> None:
    pieces = highlight("Python", "def f():\n    return 'é'\n")
    assert ("Keyword", "def") in pieces
    assert ("Name.Function", "f") in pieces
    assert any(kind.startswith("Literal.String") for kind, _ in pieces)


@pytest.mark.parametrize("code", ["x = 1\r\ny\r", "\ufeffx", "\n\n  x\n\n", "x", "", "\t'unclosed", "\0", "# é 👩‍👧"])
@pytest.mark.parametrize("language", ["python", "html", "console", "json", "no such language", "", "c++"])
def test_colours_never_change_the_code(language: str, code: str) -> None:
    assert "".join(text for _, text in highlight(language, code)) == code


def test_long_code_and_unknown_languages_have_no_colours() -> None:
    assert highlight("nonsense", "x = 1") == (("", "x = 1"),)
    long = "x = 1\n" * 20_000
    assert highlight("python", long) == (("", long),)


def test_a_faulty_lexer_leaves_the_code_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty:
        def get_tokens_unprocessed(self, code: str) -> list[tuple[int, object, str]]:
            raise IndexError(code)

    class Lossy:
        def get_tokens_unprocessed(self, code: str) -> list[tuple[int, object, str]]:
            return [(0, "Token.Keyword", code[1:])]

    for lexer in (Faulty(), Lossy()):
        monkeypatch.setattr("app.markdown.colours._lexer", lambda _language, lexer=lexer: lexer)
        assert highlight("python", "x = 1") == (("", "x = 1"),)
