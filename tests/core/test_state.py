"""The state between steps: what is reused, what is committed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State
from medusa_core.tree import Tree


class CountingCache:
    """Rows as a list of names, so that a test sees which ones are left."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    @property
    def length(self) -> int:
        return len(self.rows)

    def keep(self, start: int, rows: Sequence[int]) -> None:
        self.rows[start:] = [self.rows[start + row] for row in rows]

    def crop(self, length: int) -> None:
        del self.rows[length:]


def having_read(tokens: list[int]) -> tuple[State, CountingCache]:
    cache = CountingCache()
    state = State(cache)
    cache.rows = [f"context {token}" for token in tokens]
    state.read(tokens)
    return state, cache


@pytest.mark.parametrize(
    ("before", "prompt", "reused"),
    [
        ([], [1, 2, 3], 0),
        ([1, 2, 3], [1, 2, 3, 4], 3),
        ([1, 2, 3], [1, 2, 3], 2),  # the last token is read again
        ([1, 2, 3, 4, 5], [1, 2], 1),
        ([1, 2, 3, 4], [1, 9, 3, 4, 5], 1),
        ([1, 2], [7, 8], 0),
        ([1], [1], 0),
    ],
)
def test_the_longest_common_prefix_is_reused(before: list[int], prompt: list[int], reused: int) -> None:
    state, cache = having_read(before)
    state.reply = [99]
    assert state.begin(prompt) == reused
    assert state.context == prompt[:reused]
    assert cache.length == reused
    assert state.reply == []


def test_a_commit_advances_by_the_path() -> None:
    state, cache = having_read([1, 2])
    candidates = CandidateTree(
        Tree((0, 0, 0, 2)), (10, 11, 12, 13), (0, 0, 1, 0), (None, 0.5, 0.5, 0.5), (Source.MODEL, *[Source.HEAD] * 3)
    )
    cache.rows += ["root", "left", "right", "below right"]
    hidden = torch.arange(8.0).view(4, 2)
    state.commit(candidates, Scores(torch.zeros(4, 20), hidden), Accepted((0, 2, 3), 17, {}))
    assert cache.rows == ["context 1", "context 2", "root", "right", "below right"]
    assert state.context == [1, 2, 10, 12, 13]
    assert state.reply == [10, 12, 13]
    assert state.root == 17
    assert state.hidden.tolist() == [6.0, 7.0]  # the state the new root was chosen from
