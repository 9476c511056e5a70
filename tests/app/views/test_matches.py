"""Where words stand in texts: as typed but for case, counted as Qt counts, numbered through all texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.views.matches import nth, number_at, pattern_of, spans


def found(words: str, text: str) -> list[tuple[int, int]]:
    pattern = pattern_of(words)
    assert pattern is not None
    return spans(pattern, text)


@pytest.mark.parametrize("words", ["", " ", "\t "])
def test_nothing_is_looked_for_without_words(words: str) -> None:
    assert pattern_of(words) is None


def test_case_does_not_matter() -> None:
    assert found("hEaD", "Head, heads, ahead") == [(0, 4), (6, 10), (14, 18)]
    assert found("ÄRGER", "ärger") == [(0, 5)]


def test_what_is_typed_is_never_a_pattern() -> None:
    assert found("a.c*[", "abc a.c*[") == [(4, 9)]


def test_typeset_marks_are_found_by_those_of_the_keyboard() -> None:
    assert found('it\'s a "well-known" one', "It\u2019s\u00a0a \u201cwell\u2011known\u201d one") == [(0, 23)]


@pytest.mark.parametrize("end", ["\n", "\u2029"])
def test_no_place_goes_over_the_end_of_a_line(end: str) -> None:
    assert found("a b", f"a{end}b a b") == [(4, 7)]


@given(st.text(), st.text(min_size=1))
def test_positions_count_as_qt_does(before: str, words: str) -> None:
    pattern = pattern_of(words)
    text = before + words + before
    for first, last in spans(pattern, text) if pattern else ():
        encoded = text.encode("utf-16-le", "surrogatepass")[2 * first : 2 * last]
        assert re.fullmatch(pattern or "", encoded.decode("utf-16-le", "surrogatepass"))


def test_places_are_numbered_through_all_texts() -> None:
    places = [[(0, 2), (5, 7)], [], [(1, 3)]]
    assert [nth(places, number) for number in range(3)] == [(0, (0, 2)), (0, (5, 7)), (2, (1, 3))]
    for number in range(3):
        text, span = nth(places, number)
        assert number_at(places, text, span[0]) == number
    assert number_at(places, 0, 1) == 1  # between two
    assert number_at(places, 1, 0) == 2
    assert number_at(places, 2, 9) == 3  # after the last
    with pytest.raises(IndexError, match="3 places"):
        nth(places, 3)
