"""Processed distributions equal those of transformers' processors, chained in its order; draws hit what they should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from medusa_core.config import SamplingAcceptance
from medusa_core.sampling import Distribution, distribution, uniform

ALL = SamplingAcceptance(temperature=1.0, top_p=1.0)
OPTIONS = [
    ALL,
    SamplingAcceptance(),
    replace(ALL, temperature=0.1),
    replace(ALL, temperature=2.5),
    replace(ALL, top_p=0.5),
    replace(ALL, top_p=0.999),
    replace(ALL, top_p=0.01),
    replace(ALL, top_k=1),
    replace(ALL, top_k=7),
    replace(ALL, top_k=100_000),
    replace(ALL, min_p=0.1),
    replace(ALL, min_p=1.0),
    replace(ALL, repetition_penalty=1.4),
    replace(ALL, repetition_penalty=0.7),
    SamplingAcceptance(temperature=1.5, top_p=0.8, top_k=12, min_p=0.02, repetition_penalty=1.2),
    SamplingAcceptance(temperature=0.6, top_p=0.95, top_k=3, min_p=0.3, repetition_penalty=1.1),
]


def by_transformers(logits: torch.Tensor, options: SamplingAcceptance, prefix: Sequence[int]) -> np.ndarray[Any, Any]:
    """The probabilities (V,) that `generate` draws from, in double precision: its processors in its order."""
    processors = LogitsProcessorList()
    if options.repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(options.repetition_penalty))
    processors.append(TemperatureLogitsWarper(options.temperature))
    if options.top_k:
        processors.append(TopKLogitsWarper(options.top_k))
    if options.top_p < 1:
        processors.append(TopPLogitsWarper(options.top_p))
    if options.min_p:
        processors.append(MinPLogitsWarper(options.min_p))
    scores = processors(torch.tensor([list(prefix)], dtype=torch.long), logits[None].double())
    return scores[0].softmax(-1).numpy()


def dense(own: Distribution, size: int) -> np.ndarray[Any, Any]:
    probabilities = np.zeros(size)
    probabilities[own.token_ids] = own.probabilities
    return probabilities


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("size", "rows", "spread"), [(2, 20, 1.0), (9, 40, 0.3), (300, 40, 3.0), (49152, 2, 2.0)])
def test_probabilities_are_those_of_transformers(
    options: SamplingAcceptance, size: int, rows: int, spread: float
) -> None:
    generator = torch.Generator().manual_seed(size)
    for _ in range(rows):
        logits = torch.randn(size, generator=generator) * spread
        prefix = torch.randint(size, (12,), generator=generator).tolist()
        own = distribution(logits, options, prefix)
        assert (np.diff(own.token_ids) > 0).all()
        assert own.probabilities.min() > 0
        assert own.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
        expected = by_transformers(logits, options, prefix)
        np.testing.assert_allclose(dense(own, size), expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (ALL, [0, 1, 2, 3]),
        (replace(ALL, top_k=2), [0, 2]),
        (replace(ALL, top_p=0.6), [0, 2]),  # 0.5 are not enough, so the next one belongs to them
        (replace(ALL, top_p=0.45), [2]),
        (replace(ALL, top_p=0.0), [2]),
        (replace(ALL, min_p=0.5), [0, 2]),
        (replace(ALL, min_p=0.2), [0, 1, 2]),
        # Of the three likeliest, 0.5 / 0.93 and 0.3 / 0.93 make up 0.86: top-p counts what top-k has left.
        (replace(ALL, top_k=3, top_p=0.84), [0, 2]),
        (replace(ALL, top_p=0.84), [0, 1, 2]),
    ],
    ids=str,
)
def test_what_is_kept_by_hand(options: SamplingAcceptance, kept: list[int]) -> None:
    logits = torch.tensor([0.3, 0.13, 0.5, 0.07]).log()
    own = distribution(logits, options, [])
    assert own.token_ids.tolist() == kept
    shares = [[0.3, 0.13, 0.5, 0.07][token] for token in kept]
    assert own.probabilities.tolist() == pytest.approx([share / sum(shares) for share in shares])


def test_equally_likely_tokens_at_the_edge_of_top_k_are_all_kept_as_in_transformers() -> None:
    logits = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0])
    options = replace(ALL, top_k=2)
    assert distribution(logits, options, []).token_ids.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(dense(distribution(logits, options, []), 5), by_transformers(logits, options, []))


def test_of_equally_likely_tokens_top_p_keeps_as_many_as_it_needs() -> None:
    for size, top_p, count in [(10, 0.55, 6), (1000, 0.2504, 251), (7, 0.0, 1)]:
        own = distribution(torch.zeros(size), replace(ALL, top_p=top_p), [])
        assert len(own.token_ids) == count
        assert own.token_ids.tolist() == list(range(size - count, size))  # always the same ones


def test_a_token_seen_twice_is_penalised_once() -> None:
    logits, options = torch.tensor([1.0, -1.0, 0.5]), replace(ALL, repetition_penalty=2.0)
    penalised = torch.tensor([0.5, -2.0, 0.5]).softmax(-1)
    assert distribution(logits, options, [1, 0, 1, 0]).probabilities.tolist() == pytest.approx(penalised.tolist())
    assert logits.tolist() == [1.0, -1.0, 0.5]  # the model's logits stay as they are


def test_temperature_0_is_greedy_after_the_penalty() -> None:
    logits = torch.tensor([1.0, 3.0, 2.9, -1.0])
    greedy = SamplingAcceptance(temperature=0.0)
    assert (distribution(logits, greedy, [1]).token_ids.tolist(), distribution(logits, greedy, [1]).entropy) == ([1], 0)
    assert distribution(logits, replace(greedy, repetition_penalty=1.1), [1]).draw(0.99) == 2


def test_a_temperature_near_0_does_not_overflow() -> None:
    for temperature in (1e-6, 1e-30, 1e-40, 1e-300):
        own = distribution(torch.tensor([1e4, 1e4 - 1, -1e4]), replace(ALL, temperature=temperature), [])
        assert (own.token_ids.tolist(), own.probabilities.tolist()) == ([0], [1.0])


def test_logits_in_half_precision_are_processed_in_single() -> None:
    logits = (torch.randn(500, generator=torch.Generator().manual_seed(1)) * 3).to(torch.bfloat16)
    for options in OPTIONS:
        own, single = (distribution(row, options, [3, 4]) for row in (logits, logits.float()))
        assert own.token_ids.tolist() == single.token_ids.tolist()
        assert own.probabilities.tolist() == single.probabilities.tolist()


HALVES = Distribution(np.array([3, 5, 8]), np.array([0.25, 0.5, 0.25]))


def test_a_draw_lays_the_tokens_out_in_the_order_of_their_ids() -> None:
    places = [(0.0, 3), (0.2499, 3), (0.25, 5), (0.7499, 5), (0.75, 8), (1 - 2**-53, 8)]
    assert [HALVES.draw(place) for place, _ in places] == [token for _, token in places]
    drawn = [HALVES.draw(place) for place in (np.arange(1000) + 0.5) / 1000]
    assert [drawn.count(token) for token in (3, 5, 8)] == [250, 500, 250]


def test_what_a_distribution_says_of_itself() -> None:
    assert [HALVES.probability(token) for token in (0, 3, 4, 5, 8, 9)] == [0, 0.25, 0, 0.5, 0.25, 0]
    assert HALVES.most_likely == 5
    assert HALVES.entropy == pytest.approx(1.5 * np.log(2))


def test_a_draw_depends_on_seed_and_position_alone_and_never_changes() -> None:
    # Written down: a seed that somebody noted must give the same reply in later versions too.
    assert [uniform(0, 0), uniform(0, 1), uniform(1, 0), uniform(2**63 - 1, 8191)] == [
        0.011546754286331562,
        0.5023796042735054,
        0.3035680343067586,
        0.21199435916307485,
    ]
    assert uniform(7, 100) == uniform(7, 100)


def test_draws_are_uniform_along_positions_and_along_seeds() -> None:
    for draws in ([uniform(5, position) for position in range(4000)], [uniform(seed, 17) for seed in range(4000)]):
        counts = np.histogram(draws, bins=20, range=(0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 50  # 19 degrees of freedom: p > 1e-4
        assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.06  # 4 standard deviations
        assert len(set(draws)) == 4000
