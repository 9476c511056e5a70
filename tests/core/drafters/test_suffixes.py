"""The suffix automaton against a search through every suffix."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.drafters import suffixes
from medusa_core.drafters.suffixes import SuffixAutomaton

Match = tuple[int, int]
TEXTS = st.lists(st.integers(0, 3), max_size=40)


def built(text: list[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    automaton.extend(text)
    return automaton


def earlier(automaton: SuffixAutomaton) -> Match:
    return suffixes.earlier(automaton.suffixes)


def advanced(automaton: SuffixAutomaton, match: Match, token: int) -> Match:
    return suffixes.advance(automaton.suffixes, *match, token)


def continuations(automaton: SuffixAutomaton, match: Match, most: int) -> list[tuple[int, int]]:
    tokens, lengths = np.zeros((2, most), np.int64)
    count = suffixes.continuations(automaton.suffixes, *match, tokens, lengths)
    return list(zip(tokens.tolist(), lengths.tolist(), strict=True))[:count]


def occurrences(text: list[int], part: list[int]) -> list[int]:
    """Where `part` ends in the text."""
    return [end for end in range(len(part), len(text) + 1) if text[end - len(part) : end] == part]


def longest(text: list[int], sequence: list[int], within: int) -> int:
    """Length of the longest suffix of `sequence` that ends in the text at `within` or before."""
    return max(
        size
        for size in range(len(sequence) + 1)
        if any(end <= within for end in occurrences(text, sequence[len(sequence) - size :]))
    )


@given(TEXTS)
def test_the_longest_earlier_occurrence_of_the_end_is_found(text: list[int]) -> None:
    assert earlier(built(text))[1] == (longest(text, text, len(text) - 1) if text else 0)


@given(TEXTS, st.lists(st.integers(0, 4), max_size=8))
def test_matching_goes_on_with_any_token(text: list[int], more: list[int]) -> None:
    automaton = built(text)
    match = earlier(automaton)
    for count, token in enumerate(more, 1):
        match = advanced(automaton, match, token)
        start = max(0, len(text) - (longest(text, text, len(text) - 1) if text else 0))
        assert match[1] == longest(text, text[start:] + more[:count], len(text))


@given(TEXTS)
def test_continuations_are_what_followed_the_longest_context_first(text: list[int]) -> None:
    automaton = built(text)
    match = earlier(automaton)
    expected: dict[int, int] = {}
    for size in range(match[1], 0, -1):
        for end in occurrences(text[:-1], text[len(text) - size :]):
            expected.setdefault(text[end], size)
    found = continuations(automaton, match, 10)
    assert {token for token, _ in found} == set(expected)
    # A state answers for all lengths of context that end at the same places.
    assert all(length >= expected[token] for token, length in found)
    assert [length for _, length in found] == sorted((length for _, length in found), reverse=True)
    assert found[:2] == continuations(automaton, match, 2)


def test_the_newest_continuation_comes_first() -> None:
    automaton = built([1, 2, 8, 5, 1, 2, 7, 6, 1, 2])
    assert earlier(automaton)[1] == 2
    assert [token for token, _ in continuations(automaton, earlier(automaton), 4)] == [7, 8]
    assert suffixes.branches(automaton.suffixes, earlier(automaton)[0]) == 2
    automaton.extend([8, 3, 1, 2])
    assert [token for token, _ in continuations(automaton, earlier(automaton), 4)] == [8, 7]


def test_in_pieces_it_is_the_same() -> None:
    text = random.Random(1).choices(range(3), k=3000)  # more than there is room for at first
    automaton = SuffixAutomaton()
    for start in range(0, 3000, 7):
        automaton.extend(text[start : start + 7])
    assert automaton.tokens == text
    whole = built(text)
    assert earlier(automaton) == earlier(whole)
    for array, other in zip(automaton.suffixes[:2], whole.suffixes[:2], strict=True):
        used = min(len(array), len(other))
        assert (array[:used] == other[:used]).all()
    match = other_match = (0, 0)
    for token in random.Random(2).choices(range(3), k=500):
        match, other_match = advanced(automaton, match, token), advanced(whole, other_match, token)
        assert match == other_match
        assert continuations(automaton, match, 4) == continuations(whole, match, 4)


def test_nothing_is_found_in_nothing() -> None:
    automaton = SuffixAutomaton()
    assert earlier(automaton) == (0, 0)
    assert advanced(automaton, (0, 0), 3) == (0, 0)
    assert continuations(automaton, (0, 0), 4) == []


@pytest.mark.parametrize(
    "text",
    [[5] * 3000, [1, *[2] * 3000, 3], [1, *[2] * 2999], [n % 2 for n in range(3000)]],
    ids=["a", "abc", "ab", "abab"],
)
def test_states_and_edges_stay_within_their_arrays(text: list[int]) -> None:
    """Linear in the text's length, up to the very bound."""
    automaton = built(text)
    arrays = automaton.suffixes
    states, edges, _ = arrays.counts
    assert states <= min(len(arrays.states), 2 * len(text))
    assert edges <= min(len(arrays.edges), 3 * len(text))
    assert (arrays.slots >= 0).sum() == edges
    assert 2 * edges < len(arrays.slots), "so that looking up ends soon"


def test_where_memory_does_not_suffice_the_text_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    text = random.Random(1).choices(range(3), k=3000)
    automaton = built(text[:1000])

    def refuse(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(suffixes, "_empty", refuse)
        with pytest.raises(MemoryError):
            automaton.extend(text[1000:])
    assert automaton.tokens == text[:1000]
    automaton.extend(text[1000:])
    assert earlier(automaton) == earlier(built(text))
