"""What each kind of markup becomes, and what stays text because a model may not have meant it."""

from __future__ import annotations

import pytest

from app.markdown import Block, Code, Heading, List, Paragraph, Quote, Rule, Style, Table, leaves, parse
from app.markdown.source_map import runs_of


def only(source: str) -> Block:
    (block,) = parse(source)
    return block


def looks(source: str) -> list[tuple[str, Style, str]]:
    """Text, style and link of every run."""
    return [(run.text, run.style, run.link) for leaf in leaves(parse(source)) for run in runs_of(leaf)]


def text(source: str) -> str:
    return "".join(run for run, _, _ in looks(source))


@pytest.mark.parametrize(
    "source",
    [
        "vector<int> a; if (x<y) b();",
        "call __init__ and _this_ and snake_case_name",
        "<b>bold</b> <script>alert(1)</script> <!-- no comment -->",
        "AT&amp;T &lt; &#65;",
        r"\(a\) and \[b\] and \\ and C:\dir\file",
        "[a]: /page\n\n[a] and [b][c]",
        "first line\n  second line  \n\tthird\\\nfourth",
        "    four spaces\n    again",
        "Title\n===",
        "2 * 3 * 4 and a*b",
        "[x](javascript:alert(1)) [y](file:///etc/passwd) [z](data:text/html,hi) [w](page.md)",
        "![x](file:///etc/passwd) ![y](data:image/png;base64,AA)",
        "<javascript:alert(1)> <file:///x>",
        "100~ 200 ~~~x",
        "a | b\nc | d",
        "carriage\r\nreturn\rs",
        "nul \0 and line separators \u2028 \u2029 \x0b \x85",
    ],
)
def test_stays_as_it_is(source: str) -> None:
    blocks = parse(source)
    texts = ["".join(run.text for leaf in leaves([block]) for run in runs_of(leaf)) for block in blocks]
    assert "\n\n".join(texts) == source
    assert all(not style and not link for _, style, link in looks(source))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**b** *i* ***bi***", [("b", 1, ""), (" ", 0, ""), ("i", 2, ""), (" ", 0, ""), ("bi", 3, "")]),
        ("*a **b** c*", [("a ", 2, ""), ("b", 3, ""), (" c", 2, "")]),
        ("~~s~~", [("s", 8, "")]),
        ("`a*b*`", [("a*b*", 4, "")]),
        ("`` a`b ``", [("a`b", 4, "")]),
        (r"\*not\*", [("*not", 0, ""), ("*", 0, "")]),
        ("[l](http://x.y)", [("l", 0, "http://x.y")]),
        ('[**l**](<https://x.y/a b> "title")', [("l", 1, "https://x.y/a b")]),
        ("<https://x.y>", [("https://x.y", 0, "https://x.y")]),
        ("<a@b.cd>", [("a@b.cd", 0, "mailto:a@b.cd")]),
        ("(see http://x.y/a_(b).)", [("(see ", 0, ""), ("http://x.y/a_(b)", 0, "http://x.y/a_(b)"), (".)", 0, "")]),
        ("![alt *x*](https://i.j/k.png)", [("alt *x*", 16, ""), ("(https://i.j/k.png)", 16, "")]),
    ],
)
def test_inline(source: str, expected: list[tuple[str, int, str]]) -> None:
    assert looks(source) == [(run, Style(style), link) for run, style, link in expected]


def test_headings() -> None:
    block = only("### A *b* ##")
    assert isinstance(block, Heading)
    assert (block.level, block.text, block.start, block.end) == (3, "A b", 0, 12)
    assert text("####### seven") == "####### seven"
    assert text("#hash") == "#hash"


@pytest.mark.parametrize("source", ["---", "***", "_ _ _"])
def test_a_leading_rule_is_a_rule_and_swallows_nothing(source: str) -> None:
    rule, paragraph = parse(f"{source}\ntitle: x\n")
    assert isinstance(rule, Rule)
    assert isinstance(paragraph, Paragraph)
    assert paragraph.text == "title: x"


def test_a_rule_under_text_makes_no_heading_of_it() -> None:
    assert [type(block) for block in parse("text\n---\nmore")] == [Paragraph, Rule, Paragraph]


def test_lists_nest_and_keep_their_markers() -> None:
    source = "3. three\n   more\n   - inner\n     * deeper\n\n7) other\n- \n"
    first, second, third = parse(source)
    assert isinstance(first, List)
    assert first.ordered
    (item,) = first.items
    assert (item.marker.text, item.marker.offset) == ("3.", 0)
    paragraph, inner = item.blocks
    assert isinstance(paragraph, Paragraph)
    assert paragraph.text == "three\nmore"
    assert isinstance(inner, List)
    assert [type(block) for block in inner.items[0].blocks] == [Paragraph, List]
    assert isinstance(second, List)
    assert second.items[0].marker.text == "7)"
    assert isinstance(third, List)
    assert third.items[0].blocks == ()


def test_two_markers_on_one_line() -> None:
    block = only("- 1. > a\n")
    assert isinstance(block, List)
    inner = block.items[0].blocks[0]
    assert isinstance(inner, List)
    assert inner.items[0].marker.offset == 2
    quote = inner.items[0].blocks[0]
    assert isinstance(quote, Quote)
    assert (quote.start, quote.end) == (5, 8)


def test_code_keeps_its_text() -> None:
    block = only("```python title\n\tdef f():\n\n  return `1`\n~~~\n```\n")
    assert isinstance(block, Code)
    assert (block.language, block.info, block.closed) == ("python", "python title", True)
    assert block.text == "\tdef f():\n\n  return `1`\n~~~"


def test_code_in_a_list_loses_only_its_indent() -> None:
    block = only("- ```\n  a\n\n    b\n\tc\n  ```\n")
    (code,) = [leaf for leaf in leaves([block]) if isinstance(leaf, Code)]
    assert code.text == "a\n\n  b\nc"


@pytest.mark.parametrize("source", ["```", "```\n", "````py\n```\n", "~~~ a`b\nx", "```\n\n\n```"])
def test_open_and_empty_code(source: str) -> None:
    assert isinstance(only(source), Code)


def test_tables_keep_every_cell() -> None:
    block = only("a | b\n:-- | :-:\n1 |\n`x` | y \\| z | extra | more\n")
    assert isinstance(block, Table)
    assert block.alignments == ("left", "center")
    assert [[cell.text for cell in row] for row in (block.header, *block.rows)] == [
        ["a", "b"],
        ["1"],
        ["x", "y | z", "extra", "more"],
    ]


def test_quotes() -> None:
    block = only("> a\n> > b\nlazy\n")
    assert isinstance(block, Quote)
    assert "".join(run for run, _, _ in looks("> a\n> > b\nlazy\n")) == "ab\nlazy"
    assert [type(inner) for inner in block.blocks] == [Paragraph, Quote]


def test_nesting_beyond_all_measure_is_shown_as_it_stands() -> None:
    assert text(">" * 500 + " deep") == ">" * 500 + " deep"
    assert text("- " * 500 + "deep").endswith("deep")


def test_no_reply() -> None:
    assert list(parse("")) == []
    assert list(parse(" \n\n ")) == []
