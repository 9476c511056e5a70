"""Exact sampling: the walk follows the draws, and what is written has the model's own processed distribution.

The distribution is tested by chi-square over whole replies of made-up models whose every next token is known, through
random trees; the same test must see that the reference implementation's way, a new draw for every guess, is biased.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch

from medusa_core.acceptance.base import Rule
from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.acceptance.speculative import SamplingRule
from medusa_core.config import SamplingAcceptance
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.sampling import distribution, uniform
from medusa_core.tree import Tree

PLAIN = SamplingAcceptance(temperature=1.0, top_p=1.0)
CONTEXT = (1, 0)


def candidates(parents: Sequence[int], tokens: Sequence[int]) -> CandidateTree:
    drafted = len(parents) - 1
    return CandidateTree(
        tree=Tree(tuple(parents)),
        token_ids=tuple(tokens),
        ranks=(0,) * len(parents),
        draft_probabilities=(None, *(0.5,) * drafted),
        sources=(Source.MODEL, *(Source.HEAD,) * drafted),
    )


def accept(
    parents: Sequence[int],
    tokens: Sequence[int],
    rows: Sequence[Sequence[float]],
    config: SamplingAcceptance = PLAIN,
    *,
    seed: int = 0,
    explain: bool = False,
) -> Accepted:
    """One step; `rows` are the probabilities after each node."""
    scores = Scores(torch.tensor(rows).log(), torch.zeros(len(rows), 4))
    return SamplingRule(config, seed, explain=explain).accept(candidates(parents, tokens), scores, CONTEXT)


def sure(token: int) -> list[float]:
    return [float(other == token) for other in range(5)]


HALF = [0.5, 0.0, 0.0, 0.5, 0.0]


def seed_that_draws_low(position: int, below: float) -> int:
    return next(seed for seed in range(1000) if uniform(seed, position) < below)


def test_the_walk_goes_where_the_draws_lie_and_ends_with_the_first_that_is_no_child() -> None:
    #    0:token 4 - draws 2
    #    1:token 1   2:token 2 - draws 3
    #                3:token 3 - draws 0
    accepted = accept([0, 0, 0, 2], [4, 1, 2, 3], [sure(2), sure(4), sure(3), sure(0)])
    assert (accepted.path, accepted.next_token) == ((0, 2, 3), 0)
    assert {node: verdict.passed for node, verdict in accepted.verdicts.items()} == {1: False, 2: True, 3: True}
    stopped = accept([0, 0, 1], [4, 0, 2], [sure(3), sure(2), sure(2)])
    assert (stopped.path, stopped.next_token, set(stopped.verdicts)) == ((0,), 3, {1})
    alone = accept([0], [4], [sure(2)])
    assert (alone.path, alone.next_token, alone.verdicts) == ((0,), 2, {})


def test_the_draw_is_made_of_the_seed_and_the_number_of_tokens_before_it() -> None:
    for seed in range(30):
        accepted = accept([0, 0], [4, 3], [HALF, HALF], seed=seed)
        first, second = (0 if uniform(seed, len(CONTEXT) + depth) < 0.5 else 3 for depth in (1, 2))
        assert accepted.path == ((0, 1) if first == 3 else (0,))
        assert accepted.next_token == (second if first == 3 else first)
        logits = torch.tensor(HALF).log()
        assert SamplingRule(PLAIN, seed).first(logits, CONTEXT) == (0 if uniform(seed, len(CONTEXT)) < 0.5 else 3)


def test_an_unlikely_draw_is_kept_where_a_likelier_guess_stands_beside_it() -> None:
    seed = seed_that_draws_low(len(CONTEXT) + 1, 0.1)
    accepted = accept([0, 0, 0], [4, 2, 0], [[0.1, 0.0, 0.9, 0.0, 0.0], sure(1), sure(1)], seed=seed)
    assert accepted.path == (0, 2)
    verdict = accepted.verdicts[1]
    assert (verdict.passed, verdict.probability, verdict.threshold) == (False, pytest.approx(0.9), None)
    assert (verdict.choice, verdict.drawn) == (2, 0)
    assert verdict.entropy == pytest.approx(-0.1 * math.log(0.1) - 0.9 * math.log(0.9))
    assert (accepted.verdicts[2].passed, accepted.verdicts[2].drawn) == (True, 0)


def test_of_two_guesses_of_the_same_token_the_first_is_kept() -> None:
    assert accept([0, 0, 0, 2], [4, 2, 2, 1], [sure(2), sure(3), sure(1), sure(0)]).path == (0, 1)


def test_a_filtered_guess_has_probability_0() -> None:
    accepted = accept([0, 0, 0], [4, 1, 0], [[0.8, 0.2, 0.0, 0.0, 0.0], HALF, HALF], replace(PLAIN, top_k=1))
    assert [accepted.verdicts[node].probability for node in (1, 2)] == [0.0, 1.0]
    assert accepted.verdicts[1].entropy == 0.0


def test_the_penalty_counts_the_context_and_the_path_to_the_node_and_nothing_beside_it() -> None:
    # Context 1, 0; root 2; beside it stands 4, which is not on the path to 3.
    rows = [[0.001, 0.001, 0.001, 0.996, 0.001], [0.2] * 5, [0.2] * 5]
    config = replace(PLAIN, repetition_penalty=2.0)
    accepted = accept([0, 0, 0, 2], [2, 4, 3, 4], [*rows, [0.2] * 5], config)
    assert accepted.path[:2] == (0, 2)
    # ln 0.2 is negative: of 0, 1, 2 and 3 it is doubled, so 0.04 against 0.2 for the token not seen.
    assert accepted.verdicts[3].probability == pytest.approx(0.2 / (0.2 + 4 * 0.04))
    assert accepted.verdicts[3].choice == 4


def test_rows_off_the_walk_are_not_looked_at_unless_asked_for() -> None:
    rows = [sure(2), [math.nan] * 5, sure(3), [math.nan] * 5]
    accepted = accept([0, 0, 0, 1], [4, 1, 2, 0], rows)
    assert (accepted.path, accepted.next_token, accepted.model_probabilities) == ((0, 2), 3, None)


def test_explained_are_all_nodes_each_with_its_own_prefix() -> None:
    config = replace(PLAIN, repetition_penalty=2.0)
    rows = [[0.001, 0.001, 0.001, 0.001, 0.996], [0.2] * 5, [0.2] * 5, [0.2] * 5]
    accepted = accept([0, 0, 1, 1], [2, 3, 3, 4], rows, config, explain=True)
    assert accepted.path == (0,)
    assert accepted.model_probabilities is not None
    assert accepted.model_probabilities[0] == 1.0
    assert accepted.model_probabilities[1] == accepted.verdicts[1].probability
    assert accepted.model_probabilities[2:] == pytest.approx((0.04 / 0.36, 0.2 / 0.36))  # node 1 made 3 a seen token


def test_temperature_0_walks_as_greedy_does() -> None:
    generator = torch.Generator().manual_seed(4)
    config = SamplingAcceptance(temperature=0.0)
    for trial in range(50):
        parents, tokens = random_tree(random.Random(trial), root=3)
        scores = Scores(torch.randn(len(parents), 5, generator=generator), torch.zeros(len(parents), 4))
        drafted = candidates(parents, tokens)
        sampled = SamplingRule(config, seed=trial).accept(drafted, scores, CONTEXT)
        greedy = GreedyRule().accept(drafted, scores)
        assert (sampled.path, sampled.next_token) == (greedy.path, greedy.next_token)
        assert sampled.verdicts.keys() == greedy.verdicts.keys()


# The distribution of whole replies.

VOCABULARY, TOKENS, TRIALS = 5, 3, 2000
Row = Callable[[tuple[int, ...]], torch.Tensor]
CONFIGS = [
    PLAIN,
    SamplingAcceptance(temperature=0.8, top_p=0.85),
    SamplingAcceptance(temperature=1.4, top_p=1.0, top_k=3, repetition_penalty=1.5),
    SamplingAcceptance(temperature=1.2, top_p=0.95, min_p=0.15, repetition_penalty=0.8),
]


def made_up_model(seed: int) -> Row:
    """Logits (V,) after a context: every token before the next one changes them."""

    @cache
    def row(context: tuple[int, ...]) -> torch.Tensor:
        number = seed
        for token in context:
            number = number * 31 + token + 7
        return 1.5 * torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(number % 2**31))

    return row


def random_tree(rng: random.Random, root: int) -> tuple[list[int], list[int]]:
    """Guesses prefer some tokens, as a drafter's do: a rule's bias towards guesses evens out over uniform ones."""
    size = rng.randint(1, 7)
    parents = [0, *(rng.randrange(node) for node in range(1, size))]
    return parents, [root, *rng.choices(range(VOCABULARY), weights=(1, 1, 1, 9, 1), k=size - 1)]


def reply(rule: Rule, row: Row, rng: random.Random) -> tuple[int, ...]:
    """The first tokens that the rule writes, through a new random tree at every step."""
    context = list(CONTEXT)
    root = rule.first(row(CONTEXT), context)
    while len(context) + 1 < len(CONTEXT) + TOKENS:
        parents, tokens = random_tree(rng, root)
        drafted = candidates(parents, tokens)
        paths = [tuple(tokens[i] for i in drafted.tree.path(node)) for node in range(len(parents))]
        logits = torch.stack([row((*context, *path)) for path in paths])
        accepted = rule.accept(drafted, Scores(logits, torch.zeros(len(parents), 1)), context)
        context += paths[accepted.path[-1]]
        root = accepted.next_token
    return (*context, root)[len(CONTEXT) : len(CONTEXT) + TOKENS]


def exact(row: Row, config: SamplingAcceptance) -> dict[tuple[int, ...], float]:
    """The probability of every reply: the product of its tokens' processed probabilities."""
    chances = {}
    for tokens in product(range(VOCABULARY), repeat=TOKENS):
        steps = ((*CONTEXT, *tokens[:count]) for count in range(TOKENS))
        own = [distribution(row(context), config, context) for context in steps]
        chances[tokens] = math.prod(step.probability(token) for step, token in zip(own, tokens, strict=True))
    return chances


def excess(counts: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-square over its critical value for p = 1e-4 (Wilson and Hilferty): above 1 the counts are wrong."""
    trials = counts.total()
    rare = {tokens for tokens, chance in chances.items() if chance * trials < 5}
    cells = [(counts[tokens], chance * trials) for tokens, chance in chances.items() if tokens not in rare]
    cells.append((sum(counts[tokens] for tokens in rare), sum(chances[tokens] for tokens in rare) * trials))
    square = sum((seen - expected) ** 2 / expected for seen, expected in cells if expected > 0)
    freedom = len(cells) - 1
    term = 2 / (9 * freedom)
    return square / (freedom * (1 - term + 3.72 * math.sqrt(term)) ** 3)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_replies_have_the_models_own_processed_distribution(config: SamplingAcceptance) -> None:
    row = made_up_model(11 + CONFIGS.index(config))
    chances = exact(row, config)
    assert sum(chances.values()) == pytest.approx(1.0)
    counts = Counter(reply(SamplingRule(config, seed), row, random.Random(seed)) for seed in range(TRIALS))
    assert all(chances[tokens] > 0 for tokens in counts)
    assert excess(counts, chances) < 1


class RedrawingRule(SamplingRule):
    """The mistake: every guess is compared with a draw of its own, and the token after the path is drawn once more."""

    def accept(self, candidates: CandidateTree, scores: Scores, context: Sequence[int]) -> Accepted:
        rng, path = random.Random(self._seed * 7919 + len(context)), [0]
        while True:
            prefix = [*context, *(candidates.token_ids[node] for node in path)]
            own = distribution(scores.logits[path[-1]], self._config, prefix)
            children = candidates.tree.children[path[-1]]
            kept = [child for child in children if own.draw(rng.random()) == candidates.token_ids[child]]
            if not kept:
                return Accepted(tuple(path), own.draw(rng.random()), {})
            path.append(kept[0])


def test_the_test_sees_a_new_draw_for_every_guess() -> None:
    row, config = made_up_model(12), CONFIGS[1]
    counts = Counter(reply(RedrawingRule(config, seed), row, random.Random(seed)) for seed in range(TRIALS))
    assert excess(counts, exact(row, config)) > 1.2


def test_the_test_sees_a_forgotten_penalty() -> None:
    row, config = made_up_model(13), CONFIGS[2]
    without = replace(config, repetition_penalty=1.0)
    counts = Counter(reply(SamplingRule(without, seed), row, random.Random(seed)) for seed in range(TRIALS))
    assert excess(counts, exact(row, config)) > 1.2


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_same_seed_gives_the_same_reply_through_any_trees(config: SamplingAcceptance) -> None:
    row = made_up_model(13)
    for seed in range(15):
        replies = {reply(SamplingRule(config, seed), row, random.Random(trees)) for trees in range(4)}
        assert len(replies) == 1
