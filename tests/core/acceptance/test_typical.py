"""Typical acceptance on fixed logits, by values computed by hand, and against the rule written out naively.

Logits are given as probabilities: their logarithms, so that a softmax brings them back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.acceptance.typical import TypicalRule
from medusa_core.config import TypicalAcceptance
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.tree import Tree

# H = 0.7·0.35667 + 0.2·1.60944 + 0.06·2.81341 + 0.04·3.21888 = 0.86912 nats, exp(-H) = 0.41932,
# so delta·exp(-H) = 0.12580 is above epsilon = 0.09: the threshold is epsilon.
PEAKED = (0.7, 0.2, 0.06, 0.04, 0, 0, 0, 0)
# H = 0.36119 + 2·0.32189 + 2·0.23026 + 0.14979 + 0.10520 + 0.07824 = 1.79871 nats, exp(-H) = 0.16551,
# so delta·exp(-H) = 0.04965 is below epsilon: the threshold gives way where the model is unsure.
FLAT = (0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02)
# H = ln 8 = 2.07944 nats, exp(-H) = 1/8, the threshold 0.0375.
UNIFORM = (0.125,) * 8
# H = 0, so delta·exp(-H) = 0.3 and the threshold is epsilon.
CERTAIN = (0, 0, 0, 1, 0, 0, 0, 0)

PLAIN = TypicalAcceptance(epsilon=0.09, delta=0.3, temperature=1.0)


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
    parents: Sequence[int], tokens: Sequence[int], rows: Sequence[Sequence[float]], config: TypicalAcceptance = PLAIN
) -> Accepted:
    logits = torch.tensor(rows, dtype=torch.float32).log()
    return TypicalRule(config).accept(candidates(parents, tokens), Scores(logits, torch.zeros(len(rows), 4)))


@pytest.mark.parametrize(
    ("row", "token", "probability", "threshold", "entropy", "passed"),
    [
        (PEAKED, 0, 0.7, 0.09, 0.86912, True),
        (PEAKED, 1, 0.2, 0.09, 0.86912, True),
        (PEAKED, 2, 0.06, 0.09, 0.86912, False),
        (PEAKED, 7, 0.0, 0.09, 0.86912, False),
        (FLAT, 4, 0.1, 0.04965, 1.79871, True),
        (FLAT, 5, 0.05, 0.04965, 1.79871, True),
        (FLAT, 6, 0.03, 0.04965, 1.79871, False),
        (UNIFORM, 6, 0.125, 0.0375, 2.07944, True),
        (CERTAIN, 3, 1.0, 0.09, 0.0, True),
        (CERTAIN, 0, 0.0, 0.09, 0.0, False),
    ],
)
def test_one_guess_and_the_numbers_of_its_verdict(
    row: Sequence[float], token: int, probability: float, threshold: float, entropy: float, passed: bool
) -> None:
    accepted = accept([0, 0], [0, token], [row, UNIFORM])
    verdict = accepted.verdicts[1]
    assert verdict.passed is passed
    assert verdict.probability == pytest.approx(probability, abs=1e-5)
    assert verdict.threshold == pytest.approx(threshold, abs=1e-5)
    assert verdict.entropy == pytest.approx(entropy, abs=1e-5)
    assert verdict.choice == row.index(max(row))
    assert accepted.path == ((0, 1) if passed else (0,))


def test_epsilon_and_delta_are_the_configured_ones() -> None:
    for epsilon, delta, threshold, passed in [
        (0.05, 0.3, 0.05, True),  # 0.06 > 0.05
        (0.09, 0.1, 0.041932, True),  # 0.06 > 0.1·0.41932
        (0.09, 0.2, 0.083864, False),  # 0.06 < 0.2·0.41932
        (1.0, 1.0, 0.41932, False),
    ]:
        config = TypicalAcceptance(epsilon=epsilon, delta=delta, temperature=1.0)
        verdict = accept([0, 0], [0, 2], [PEAKED, UNIFORM], config).verdicts[1]
        assert verdict.threshold == pytest.approx(threshold, abs=1e-5)
        assert verdict.passed is passed


def test_a_guess_exactly_at_the_threshold_fails() -> None:
    """The rule is p > threshold. A certain token has p = 1 and H = 0 to the last bit, so both sides are exact."""
    for epsilon, passed in [(1.0, False), (0.9999, True)]:
        config = TypicalAcceptance(epsilon=epsilon, delta=1.0, temperature=1.0)
        verdict = accept([0, 0], [0, 3], [CERTAIN, UNIFORM], config).verdicts[1]
        assert (verdict.probability, verdict.threshold) == (1.0, epsilon)
        assert verdict.passed is passed


@pytest.mark.parametrize(
    ("temperature", "probability", "entropy", "passed"),
    [
        # Squared and divided by their sum 0.5352: 0.91555, 0.07474, 0.00673, 0.00299.
        (0.5, 0.074738, 0.325657, False),
        (1.0, 0.2, 0.86912, True),
        # Square roots 0.83666, 0.44721, 0.24495, 0.2, divided by their sum 1.72882: 0.48395, 0.25868, 0.14169,
        # 0.11569; H = 0.35124 + 0.34978 + 0.27688 + 0.24952.
        (2.0, 0.258680, 1.22741, True),
    ],
)
def test_a_temperature_scales_the_logits_before_probability_and_entropy(
    temperature: float, probability: float, entropy: float, passed: bool
) -> None:
    config = TypicalAcceptance(epsilon=0.09, delta=0.3, temperature=temperature)
    verdict = accept([0, 0], [0, 1], [PEAKED, UNIFORM], config).verdicts[1]
    assert verdict.probability == pytest.approx(probability, abs=1e-5)
    assert verdict.entropy == pytest.approx(entropy, abs=1e-5)
    assert verdict.threshold == pytest.approx(min(0.09, 0.3 * math.exp(-entropy)), abs=1e-5)
    assert verdict.passed is passed


def test_the_longest_path_wins_though_a_shorter_one_is_likelier() -> None:
    # 0.7 alone, against 0.2 and then 0.1 = 0.02 together.
    accepted = accept([0, 0, 0, 2], [0, 0, 1, 4], [PEAKED, CERTAIN, FLAT, CERTAIN])
    assert accepted.path == (0, 2, 3)
    assert all(verdict.passed for verdict in accepted.verdicts.values())


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_longest_paths_the_likelier_wins(swapped: bool) -> None:
    # Through token 0: 0.7·0.1 = 0.07. Through token 1: 0.2·1 = 0.2, though its first token is less likely.
    first, second = ((1, 3, CERTAIN), (0, 4, FLAT)) if swapped else ((0, 4, FLAT), (1, 3, CERTAIN))
    accepted = accept(
        [0, 0, 0, 1, 2],
        [0, first[0], second[0], first[1], second[1]],
        [PEAKED, first[2], second[2], UNIFORM, UNIFORM],
    )
    assert accepted.path == ((0, 1, 3) if swapped else (0, 2, 4))


def test_the_likelihood_is_the_whole_paths_not_its_last_nodes() -> None:
    # Through token 0: 0.7·0.3 = 0.21. Through token 1: 0.2·1 = 0.2, though its last token is certain.
    accepted = accept([0, 0, 0, 1, 2], [0, 1, 0, 3, 0], [PEAKED, CERTAIN, FLAT, UNIFORM, UNIFORM])
    assert accepted.path == (0, 2, 4)


def test_a_node_below_a_failed_one_is_never_judged() -> None:
    # Node 1 fails with 0.06; node 2 below it would be certain; node 3 below that too.
    accepted = accept([0, 0, 1, 2, 0], [0, 2, 3, 3, 6], [PEAKED, CERTAIN, CERTAIN, CERTAIN, CERTAIN])
    assert set(accepted.verdicts) == {1, 4}
    assert accepted.path == (0,)


def test_every_child_of_a_passed_node_is_judged_also_off_the_kept_path() -> None:
    accepted = accept([0, 0, 0, 1, 2, 2], [0, 0, 1, 6, 3, 0], [PEAKED, FLAT, CERTAIN, CERTAIN, CERTAIN, CERTAIN])
    assert {node: verdict.passed for node, verdict in accepted.verdicts.items()} == {
        1: True,
        2: True,
        3: False,
        4: True,
        5: False,
    }
    assert accepted.path == (0, 2, 4)


def test_the_root_is_kept_whatever_the_model_thinks_of_it() -> None:
    accepted = accept([0], [5], [PEAKED])
    assert (accepted.path, accepted.next_token, accepted.verdicts) == ((0,), 0, {})


def test_the_next_token_is_the_models_choice_at_the_end_of_the_path() -> None:
    assert accept([0, 0], [0, 1], [PEAKED, CERTAIN]).next_token == 3  # the guess passed
    assert accept([0, 0], [0, 6], [FLAT, CERTAIN]).next_token == 0  # it failed: the choice after the root


def test_probabilities_of_every_node_are_those_at_its_parent() -> None:
    accepted = accept([0, 0, 1, 2], [7, 2, 3, 5], [PEAKED, CERTAIN, FLAT, UNIFORM])
    assert accepted.model_probabilities == pytest.approx((1.0, 0.06, 1.0, 0.05), abs=1e-6)


def test_logits_in_half_precision_are_judged_in_single() -> None:
    logits = torch.tensor([PEAKED, UNIFORM]).log().to(torch.bfloat16)
    verdict = TypicalRule(PLAIN).accept(candidates([0, 0], [0, 1]), Scores(logits, torch.zeros(2, 4))).verdicts[1]
    assert verdict.probability == pytest.approx(0.2, rel=0.02)
    assert verdict.entropy == pytest.approx(0.86912, rel=0.02)


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[int], list[int], list[list[float]]]:
    size = draw(st.integers(1, 9))
    parents = [0, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    tokens = [draw(st.integers(0, 5)) for _ in range(size)]
    weights = st.lists(st.sampled_from([0.01, 0.1, 0.3, 1.0, 3.0, 10.0]), min_size=6, max_size=6)
    return parents, tokens, [draw(weights) for _ in range(size)]


@given(steps())
def test_the_rule_written_out_naively(step: tuple[list[int], list[int], list[list[float]]]) -> None:
    parents, tokens, weights = step
    rows = [[weight / sum(row) for weight in row] for row in weights]
    accepted = accept(parents, tokens, rows)
    tree = Tree(tuple(parents))

    def passes(node: int) -> bool:
        row = rows[parents[node]]
        entropy = -sum(p * math.log(p) for p in row)
        return row[tokens[node]] > min(0.09, 0.3 * math.exp(-entropy))

    passing = [path for path in map(tree.path, range(len(tree))) if all(passes(node) for node in path[1:])]
    likelihood = {path: math.prod(rows[parents[node]][tokens[node]] for node in path[1:]) for path in passing}
    longest = max(map(len, passing))
    assert accepted.path in passing
    assert len(accepted.path) == longest
    assert likelihood[accepted.path] == pytest.approx(max(likelihood[path] for path in passing if len(path) == longest))
    reached = {path[-1] for path in passing}
    assert set(accepted.verdicts) == {node for node in range(1, len(tree)) if parents[node] in reached}
    assert all(verdict.passed == passes(node) for node, verdict in accepted.verdicts.items())
