"""What followed the same words earlier in the conversation, and conversations that change."""

from __future__ import annotations

import numpy as np
import pytest

from medusa_core.drafters.guessed import MOST
from medusa_core.drafters.lookup import LookupGuesser, guess
from medusa_core.drafters.suffixes import advance, earlier
from medusa_core.state import State
from tests.core.drafters.tables import EmptyCache


def at(context: list[int], root: int, reply: list[int] | None = None) -> State:
    state = State(EmptyCache())
    state.context, state.root, state.reply = list(context), root, list(reply or [])
    return state


def looked_up(guesser: LookupGuesser, state: State, *path: int) -> list[tuple[int, float, int]]:
    """Token, probability and kind of every guess below a path under the root."""
    suffixes = guesser.begin(state)
    match = earlier(suffixes)
    for token in (state.root, *path):
        match = advance(suffixes, *match, token)
    tokens, probabilities, kinds = np.zeros(MOST, np.int32), np.zeros(MOST), np.zeros(MOST, np.int32)
    count = guess(suffixes, *match, tokens, probabilities, kinds)
    return list(zip(tokens.tolist(), probabilities.tolist(), kinds.tolist(), strict=True))[:count]


def tokens(guesser: LookupGuesser, state: State, *path: int) -> list[int]:
    return [token for token, _, _ in looked_up(guesser, state, *path)]


def test_the_longest_match_is_carried_on() -> None:
    guesser = LookupGuesser()
    state = at([1, 2, 3, 4, 5, 9, 2, 3, 8, 7, 1, 2], 3)
    assert tokens(guesser, state) == [4, 8]  # after 1 2 3, and after 2 3 alone
    assert tokens(guesser, state, 4) == [5]
    assert tokens(guesser, state, 8) == [7]
    assert tokens(guesser, state, 100) == []
    assert tokens(guesser, state, 100, 9) == [2]  # found again below a guess of somebody else's


def test_longer_matches_are_believed_more() -> None:
    guesser = LookupGuesser()
    beliefs = []
    for size in (1, 2, 4, 8, 16, 30):
        text = [*range(100, 100 + size), 7]
        ((token, probability, kind),) = looked_up(guesser, at([*text, 1, *range(100, 99 + size)], 99 + size))
        assert token == 7
        assert 0 <= kind < guesser.kinds
        beliefs.append(probability)
    assert beliefs == sorted(beliefs)
    assert len(set(beliefs)) > 3


def test_the_reply_is_followed_token_by_token() -> None:
    guesser = LookupGuesser()
    context, reply = [1, 2, 3], []
    assert tokens(guesser, at(context, 1)) == [2]
    for token in (1, 2, 6, 1, 2):
        context, reply = [*context, token], [*reply, token]
        tokens(guesser, at(context, 0, reply))
    assert tokens(guesser, at([*context, 6], 1, [*reply, 6])) == [2]
    assert tokens(guesser, at([*context, 6, 1], 2, [*reply, 6, 1])) == [6, 3]  # newest first


@pytest.mark.parametrize("edited", [[1, 2, 9], [7, 8, 7], [1], [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3]])
def test_an_edited_conversation_is_read_anew(edited: list[int]) -> None:
    guesser = LookupGuesser()
    tokens(guesser, at([1, 2, 3, 4, 1, 2, 3], 4))
    for root in (1, 2, 8):
        assert tokens(guesser, at(edited, root)) == tokens(LookupGuesser(), at(edited, root))


def test_an_edit_is_noticed_though_the_first_steps_of_the_reply_did_not_look() -> None:
    guesser = LookupGuesser()
    tokens(guesser, at([1, 2, 3, 4, 1, 2, 3], 4))
    edited, reply = [1, 2, 9, 5, 1, 2], [5, 1, 2]
    assert tokens(guesser, at(edited, 9, reply)) == tokens(LookupGuesser(), at(edited, 9, reply)) == [5]
