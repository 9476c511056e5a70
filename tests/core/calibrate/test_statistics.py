"""Calibration of heads whose guesses are known; the temperature against brute force."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from medusa_core.calibrate import statistics
from medusa_core.calibrate.statistics import calibrate_heads, fit_temperature
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
TOKENS = torch.tensor([0, 4, 1, 0])  # observed ranks: (1, 4), (1, 0), (1,), ()


def test_greedy_and_sampled_replies_are_counted_apart() -> None:
    replies = [(STATES, TOKENS), (STATES[:2], TOKENS[:2])]
    found = calibrate_heads(heads(), replies, [0.0, 0.7], max_rank=3, precision="bf16")
    assert (found.greedy.steps, found.sampled.steps, found.together.steps) == (4, 2, 6)
    assert found.greedy.tried == (3, 2)
    assert found.greedy.hits == ((0, 3, 0), (1, 0, 0))
    assert found.greedy.paths == (((1,), 3), ((1, 0), 1))
    assert found.sampled.paths == (((1,), 1),)
    assert found.together.tree(1).ranks == (0, 1)
    assert found.precision == "bf16"
    assert len(found.temperatures) == 2


def test_rare_paths_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_KEPT_PATHS", 1)
    found = calibrate_heads(heads(), [(STATES, TOKENS)], [0.0], max_rank=3, precision="fp32")
    assert found.greedy.paths == (((1,), 3),)


def mean_loss(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    return float(F.cross_entropy(logits.double() / temperature, labels))


@pytest.mark.parametrize("true", [0.4, 1.0, 2.5])
def test_the_temperature_that_fits_best(true: float) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(4000, 9, generator=generator) * 3
    labels = torch.multinomial((logits / true).softmax(-1), 1, generator=generator)[:, 0]
    found = fit_temperature(logits, labels)
    assert found == pytest.approx(true, rel=0.1)
    grid = [0.1 * 1.01**step for step in range(460)]
    best = min(grid, key=lambda temperature: mean_loss(logits, labels, temperature))
    assert found == pytest.approx(best, rel=0.02)


def test_the_temperature_stays_in_bounds() -> None:
    logits = torch.eye(5) * 4
    assert fit_temperature(logits, torch.arange(5)) < 0.3, "always right: the surer, the better"
    assert fit_temperature(logits, (torch.arange(5) + 1) % 5) == pytest.approx(10.0), "always wrong"
    assert math.isfinite(fit_temperature(torch.zeros(3, 5), torch.zeros(3, dtype=torch.long)))


def sampled_from_the_states(length: int, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A reply whose token after next is drawn from the state's own distribution at that temperature."""
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(length, V, generator=generator) * 3
    drawn = torch.multinomial((states / temperature).softmax(-1), 1, generator=generator)[:, 0]
    return states, torch.cat((torch.zeros(1, dtype=torch.long), drawn[:-1]))


def test_each_heads_temperature_is_about_the_token_it_guesses() -> None:
    reply = sampled_from_the_states(3000, 2.0)
    found = calibrate_heads(heads(), [reply], [0.7], max_rank=3, precision="fp32")
    assert found.temperatures[0] == pytest.approx(2.0, rel=0.15)
    assert found.temperatures[1] == pytest.approx(10.0), "what head 2 says of the token after has nothing to do with it"


def test_a_sample_of_positions_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_FIT_POSITIONS", 500)
    states, tokens = sampled_from_the_states(6000, 2.0)
    sample = statistics._Sample(heads())
    for start in range(0, 6000, 60):
        sample.add(states[start : start + 60], tokens[start : start + 60])
    assert 250 <= sum(len(ahead) for _, ahead in sample._chunks()) <= 500
    assert sample.temperature(0) == pytest.approx(2.0, rel=0.3)


def test_tokens_the_heads_cannot_guess_are_left_out() -> None:
    only = heads(torch.tensor([2, 3]))
    found = calibrate_heads(only, [(STATES, TOKENS)], [0.0], max_rank=2, precision="fp32")
    assert found.temperatures == (1.0, 1.0)


def test_no_replies_at_all() -> None:
    found = calibrate_heads(heads(), [], [], max_rank=2, precision="fp32")
    assert found.together.steps == 0
    assert found.temperatures == (1.0, 1.0)


def test_every_reply_needs_its_temperature() -> None:
    with pytest.raises(ValueError, match="zip"):
        calibrate_heads(heads(), [(STATES, TOKENS)], [], max_rank=2, precision="fp32")
