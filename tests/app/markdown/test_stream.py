"""Blocks of a reply that streams: the same as at once, nothing lost, finished ones never touched again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown import Block, Cell, Code, Item, List, MarkdownStream, Paragraph, Quote, Table, leaves, parse
from app.markdown import build as building
from app.markdown.source_map import runs_of

_FRAGMENTS = st.sampled_from(
    [
        *("a", "word ", "Two words. ", "é", "字", "שלום ", "👩‍👧 ", "7", "\\", "\t", "    ", " ", "\r\n"),
        *("\n", "\n", "\n\n", "\n\n\n", "- ", "* ", "+ ", "3. ", "12) ", "> ", "# ", "## ", "---\n", "***\n", "==="),
        *(
            "*",
            "**",
            "_",
            "__init__",
            "`",
            "``",
            "```",
            "```py\n",
            "~~",
            "~~~\n",
            "[",
            "](",
            "](http://x.y)",
            ")",
            "![",
            "|",
        ),
        *(
            "| a | b |\n",
            "|---|---|\n",
            "|:-:|",
            "<b>",
            "vector<int>",
            "&amp;",
            "<https://a.b/c>",
            "http://q.r/s_t*u*",
            "x" * 30,
        ),
        "  - nested\n  ```sh\n  ls\n",
    ]
)
SOURCES = st.lists(_FRAGMENTS, max_size=40).map("".join)
SIZES = st.sampled_from([24, 60, 200, 2000])


def streamed(source: str, cuts: Sequence[int], longest: int) -> Sequence[Block]:
    stream = MarkdownStream(longest)
    places = [0, *sorted({cut % (len(source) + 1) for cut in cuts}), len(source)]
    for start, end in pairwise(places):
        stream.append(source[start:end])
    return stream.blocks


def at_once(source: str, longest: int) -> Sequence[Block]:
    stream = MarkdownStream(longest)
    stream.append(source)
    return stream.blocks


def shown(blocks: Sequence[Block]) -> str:
    return "".join(run.text for leaf in leaves(blocks) for run in runs_of(leaf))


def spans(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    return [(run.offset, run.offset + len(run.text)) for leaf in leaves(blocks) for run in runs_of(leaf)]


@settings(max_examples=60, deadline=None)
@given(SOURCES, st.lists(st.integers(0, 400), max_size=12), SIZES)
def test_any_pieces_give_the_blocks_of_the_whole(source: str, cuts: list[int], longest: int) -> None:
    assert list(streamed(source, cuts, longest)) == list(at_once(source, longest))


@settings(max_examples=25, deadline=None)
@given(SOURCES, SIZES)
def test_character_by_character_gives_the_blocks_of_the_whole(source: str, longest: int) -> None:
    assert list(streamed(source, range(len(source)), longest)) == list(at_once(source, longest))


@settings(max_examples=60, deadline=None)
@given(SOURCES, SIZES)
def test_every_character_shown_is_a_slice_of_the_source_in_order(source: str, longest: int) -> None:
    blocks = at_once(source, longest)
    for leaf in leaves(blocks):
        for run in runs_of(leaf):
            assert source[run.offset : run.offset + len(run.text)] == run.text
    found = spans(blocks)
    assert all(end <= start for (_, end), (start, _) in pairwise(found))


@settings(max_examples=60, deadline=None)
@given(SOURCES, SIZES)
def test_what_is_not_shown_is_markup_or_where_a_link_leads(source: str, longest: int) -> None:
    blocks = at_once(source, longest)
    hidden, reached = [], 0
    for start, end in [*spans(blocks), (len(source), len(source))]:
        hidden.append(source[reached:start])
        reached = end
    for gap in hidden:
        # What a link leads to, what stands after an opening fence, and nothing else made of letters or digits.
        rest = re.sub(r"\]\([^\s)]*\)|(`{3,}|~{3,})[^\n]*", "", gap)
        assert not re.search(r"[^\W_]", rest), gap


@settings(max_examples=50, deadline=None)
@given(SOURCES, st.integers(1, 40), SIZES)
def test_blocks_before_the_first_changed_one_are_the_same_objects(source: str, width: int, longest: int) -> None:
    stream = MarkdownStream(longest)
    for start in range(0, len(source), width):
        before = list(stream.blocks)
        first = stream.append(source[start : start + width])
        assert first <= len(stream.blocks)
        assert all(old is new for old, new in zip(before[:first], stream.blocks, strict=False))


@settings(max_examples=50, deadline=None)
@given(SOURCES, SIZES)
def test_spans_of_blocks_follow_one_another_and_hold_their_text(source: str, longest: int) -> None:
    blocks = at_once(source, longest)
    assert all(0 <= block.start <= block.end <= len(source) for block in blocks)
    assert all(one.end <= other.start for one, other in pairwise(blocks))
    for block in blocks:
        assert all(block.start <= start <= end <= block.end for start, end in spans([block]))


_PLAIN = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r*`~[]<>#|\\-+!:0123456789_="))


@settings(max_examples=50, deadline=None)
@given(st.lists(_PLAIN.filter(lambda line: line.strip()), min_size=1, max_size=6), SIZES)
def test_text_without_markup_is_shown_as_it_is(lines: list[str], longest: int) -> None:
    source = "\n".join(lines)
    blocks = at_once(source, longest)
    gaps = [source[one.end : other.start] for one, other in pairwise(blocks)]
    assert set(gaps) <= {"", "\n"}  # a piece that was cut off at a line end begins on a line of its own
    assert "".join(shown([block]) + gap for block, gap in zip(blocks, [*gaps, ""], strict=True)) == source


@given(st.lists(_PLAIN.filter(lambda line: line.strip()), min_size=1, max_size=6))
def test_empty_lines_part_paragraphs_and_nothing_else(paragraphs: list[str]) -> None:
    blocks = parse("\n\n".join(paragraphs))
    assert [block.text for block in blocks if isinstance(block, Paragraph)] == paragraphs


# The work does not grow


def counted_work(monkeypatch: pytest.MonkeyPatch, source: str, width: int = 400) -> list[int]:
    """Characters parsed in each update."""
    work: list[int] = []
    parse_stretch = building.build

    def count(source: str, start: int, end: int, prefix: str = "") -> tuple[Block, ...]:
        work[-1] += end - start
        return parse_stretch(source, start, end, prefix)

    for module in ("app.markdown.stream", "app.markdown.cuts"):
        monkeypatch.setattr(f"{module}.build", count)
    stream = MarkdownStream()
    for start in range(0, len(source), width):
        work.append(0)
        stream.append(source[start : start + width])
    return work


@pytest.mark.parametrize(
    "source",
    [
        "word and word " * 600,
        "x" * 8000,
        "A sentence with **bold** text. " * 250,
        "line\n" * 1600,
        "- item with words\n" * 450,
        "> quoted line\n" * 500,
        "1. item\n\n   its text\n\n" * 300,
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 800,
        "- code:\n  ```py\n" + "  x = 1\n" * 900,
    ],
)
def test_an_update_parses_a_bounded_stretch_however_long_the_reply(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(counted_work(monkeypatch, source)) <= 3 * 2100  # the stretch to cut, its head and the new tail


def test_a_long_code_block_is_never_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(counted_work(monkeypatch, "```py\n" + "x = 1\n" * 2500)) <= 400


# Long blocks in pieces


def test_a_long_paragraph_is_cut_after_a_sentence_and_goes_on() -> None:
    source = "A sentence of some words. " * 300
    blocks = parse(source)
    assert len(blocks) > 3
    assert shown(blocks) == source
    assert all(isinstance(block, Paragraph) and block.text.endswith("words. ") for block in blocks)
    assert [block.continues for block in blocks] == [False] + [True] * (len(blocks) - 1)


def test_bold_is_not_cut_in_two() -> None:
    source = ("many plain words here " * 20 + "**bold words that belong together** ") * 12
    assert "**" not in shown(parse(source))


def test_what_a_piece_begins_with_is_still_text() -> None:
    source = "word " * 200 + "- 5 # 1. > " * 200
    assert all(isinstance(block, Paragraph) for block in parse(source))


def test_a_long_table_keeps_its_columns() -> None:
    source = "| a | b |\n|---|--:|\n" + "".join(f"| {n} | x |\n" for n in range(600))
    blocks = parse(source)
    assert len(blocks) > 2
    assert all(isinstance(block, Table) for block in blocks)
    tables = [block for block in blocks if isinstance(block, Table)]
    assert [bool(table.header) for table in tables] == [True] + [False] * (len(tables) - 1)
    assert [table.continues for table in tables] == [False] + [True] * (len(tables) - 1)
    assert all(table.alignments == ("", "right") for table in tables)
    assert [row[0].text for table in tables for row in table.rows] == [str(n) for n in range(600)]


def test_a_long_list_is_cut_between_its_entries() -> None:
    source = "".join(f"{n}. entry **{n}**\n   more\n" for n in range(1, 400))
    blocks = parse(source)
    assert len(blocks) > 3
    assert all(isinstance(block, List) for block in blocks)
    items = [item for block in blocks if isinstance(block, List) for item in block.items]
    assert [item.marker.text for item in items] == [f"{n}." for n in range(1, 400)]


def test_long_code_inside_a_list_stays_code() -> None:
    source = "1. Look:\n   ```py\n" + "   x = 1\n" * 900 + "   ```\n   Done.\n"
    blocks = parse(source)
    codes = [block for block in blocks if isinstance(block, Code)]
    first = next(leaf for leaf in leaves(blocks[:1]) if isinstance(leaf, Code))
    assert "".join(code.text + "\n" for code in [first, *codes]) == "x = 1\n" * 900
    assert {code.language for code in [first, *codes]} == {"py"}
    assert isinstance(blocks[-1], Paragraph)


def test_long_code_inside_a_quote_stays_code() -> None:
    source = "> ```\n" + "> x = 1\n" * 900 + "> ```\n\nDone."
    blocks = parse(source)
    assert all(isinstance(block, Quote) for block in blocks[:-1])
    assert all(isinstance(leaf, Code) for leaf in leaves(blocks[:-1]))
    assert isinstance(blocks[-1], Paragraph)


def test_emoji_and_accents_are_not_cut_in_two() -> None:
    for character in ("👩\u200d👧", "e\u0301", "❤\ufe0f"):
        for shift in range(4):
            blocks = parse("x" * shift + character * 2000)
            for block in blocks[1:]:
                assert isinstance(block, Paragraph)
                assert block.text[0] == character[0]


# While it streams


def test_an_open_code_block_grows_and_closes() -> None:
    stream = MarkdownStream()
    seen = []
    for piece in ("Look:\n``", "`py", "thon\n", "x = 1", "\n``", "`", "\n", "Done"):
        stream.append(piece)
        seen.append([block for block in stream.blocks if isinstance(block, Code)])
    texts = [blocks[0].text if blocks else None for blocks in seen]
    assert texts == [None, "", "", "x = 1", "x = 1\n``", "x = 1", "x = 1", "x = 1"]
    assert [blocks[0].closed for blocks in seen if blocks] == [False, False, False, False, True, True, True]
    assert seen[-1][0].language == "python"


def test_a_table_appears_with_its_second_line() -> None:
    stream = MarkdownStream()
    stream.append("| a | b |\n| -")
    assert shown(stream.blocks) == "| a | b |\n| -"
    stream.append("-- | --- |\n| 1 ")
    (table,) = stream.blocks
    assert isinstance(table, Table)
    assert [[cell.text for cell in row] for row in (table.header, *table.rows)] == [["a", "b"], ["1"]]


@pytest.mark.parametrize(
    "source", ["**bold", "a `code", "a [link](http://x", "a [link", "~~no", "**", "![a](", "<http://", "| a | b"]
)
def test_unfinished_markup_is_text(source: str) -> None:
    assert shown(parse(source)) == source


def test_cells_and_items_are_leaves_in_reading_order() -> None:
    found = list(leaves(parse("- a\n  > b\n\n| c |\n|---|\n| d |\n")))
    assert [type(leaf) for leaf in found] == [Item, Paragraph, Paragraph, Cell, Cell]


@settings(max_examples=60, deadline=None)
@given(SOURCES, SIZES, st.sampled_from(["", "<think>", "x\n\n```\n"]))
def test_what_a_source_begins_after_is_in_no_block_and_counts(source: str, longest: int, before: str) -> None:
    stream = MarkdownStream(longest, before)
    stream.append(source)
    assert stream.source == before + source
    assert shown(stream.blocks) == shown(at_once(source, longest))
    assert spans(stream.blocks) == [
        (start + len(before), end + len(before)) for start, end in spans(at_once(source, longest))
    ]
