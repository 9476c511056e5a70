"""Ranks of the tokens that came, counted by hand on heads whose guesses are known."""

from __future__ import annotations

import pytest
import torch

from medusa_core.calibrate import ranks
from medusa_core.calibrate.ranks import head_fits, observe_ranks
from medusa_core.events import HeadFit
from medusa_core.heads.medusa import HeadsShape, MedusaHeads

V = 6


def heads(token_map: torch.Tensor | None = None) -> MedusaHeads:
    """Untrained: both heads guess by the state alone, entry v of a state being the logit of token v."""
    draft = V if token_map is None else len(token_map)
    shape = HeadsShape(
        num_heads=2, num_layers=1, hidden_size=V, vocab_size=V, draft_vocab_size=draft, shared_output=True
    )
    return MedusaHeads(shape, torch.eye(V), token_map)


# Guesses in order: [5 4 3 2 1 0], [0 1 2 3 4 5], [2 0 1 3 4 5], [5 4 3 2 1 0]
STATES = torch.tensor(
    [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [4, 3, 5, 2, 1, 0], [0, 1, 2, 3, 4, 5]], dtype=torch.float32
)
TOKENS = torch.tensor([0, 4, 1, 0])


def test_ranks_by_hand() -> None:
    # State 0: 4 comes next but one (rank 1), then 1 (rank 4). State 1: 1 (1), 0 (0). State 2: 0 (1). State 3: the end.
    assert observe_ranks(heads(), [(STATES, TOKENS)], 6) == [(1, 4), (1, 0), (1,), ()]
    assert observe_ranks(heads(), [(STATES, TOKENS)], 3) == [(1, 3), (1, 0), (1,), ()]


def test_every_reply_starts_anew() -> None:
    halves = [(STATES[:2], TOKENS[:2]), (STATES[2:], TOKENS[2:])]
    assert observe_ranks(heads(), halves, 6) == [(1,), (), (1,), ()]


def test_a_draft_vocabulary_changes_ranks_to_its_own() -> None:
    # Tokens 0, 1, 4: state 0 guesses 4 1 0, state 1 guesses 0 1 4, state 2 guesses 0 1 4.
    assert observe_ranks(heads(torch.tensor([0, 1, 4])), [(STATES, TOKENS)], 3) == [(0, 1), (1, 0), (0,), ()]
    assert observe_ranks(heads(torch.tensor([0, 2])), [(STATES, TOKENS)], 6)[0] == (6, 6), "it cannot guess them"


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = observe_ranks(heads(), [(STATES, TOKENS)], 6)
    monkeypatch.setattr(ranks, "_CHUNK_LOGITS", 1)
    assert observe_ranks(heads(), [(STATES, TOKENS)], 6) == whole


def test_head_fits_by_hand() -> None:
    observed = [(0, 4), (1, 5), (0,), (7,), ()]
    assert head_fits(observed, 3) == (HeadFit(0.5, 0.75), HeadFit(0.0, 0.5), HeadFit(0.0, 0.0))


def test_heads_that_see_the_root_are_given_the_token_chosen_from_each_state() -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    class Watched(MedusaHeads):
        def forward(self, hidden: torch.Tensor, roots: torch.Tensor | None = None) -> torch.Tensor:
            assert roots is not None
            seen.append((hidden, roots))
            return super().forward(hidden, roots)

    watched = Watched(heads().shape, torch.eye(V))
    observe_ranks(watched, [(STATES, TOKENS)], 6)
    assert torch.equal(torch.cat([hidden for hidden, _ in seen]), STATES)
    assert torch.equal(torch.cat([roots for _, roots in seen]), TOKENS)
