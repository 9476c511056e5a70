"""The closed forms of drafting with heads: what to expect before anything is measured.

They assume that heads err independently of one another; `calibrate` counts what really happens, and the difference is
worth seeing. Knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from medusa_core.errors import ConfigError


def expected_tokens_per_pass(accuracies: Sequence[float]) -> float:
    """1 + the sum over k of the product of the first k accuracies: the root, and each guess if all before it held.

    >>> round(expected_tokens_per_pass([0.8, 0.65, 0.5, 0.35]), 3)
    2.671
    """
    total, reached = 1.0, 1.0
    for accuracy in accuracies:
        reached *= _share("accuracy", accuracy)
        total += reached
    return total


def effective_accuracy(accuracy: float, candidates: int) -> float:
    """1 - (1 - a)^s: the chance that one of s candidates is right, if each is right with chance a on its own.

    >>> round(effective_accuracy(0.5, 3), 3)
    0.875
    """
    if candidates < 0:
        raise ConfigError(f"candidates is {candidates}; it must not be negative")
    return 1.0 - (1.0 - _share("accuracy", accuracy)) ** candidates


def expected_tokens_of_candidates(accuracies: Sequence[float], candidates: Sequence[int]) -> float:
    """Tokens a pass where head k has `candidates[k]` guesses in the tree: each counts with its effective accuracy.

    >>> round(expected_tokens_of_candidates([0.5, 0.5], [3, 1]), 4)
    2.3125
    """
    pairs = zip(accuracies, candidates, strict=False)
    return expected_tokens_per_pass([effective_accuracy(accuracy, count) for accuracy, count in pairs])


def expected_tokens_of_paths(accuracies: Sequence[Sequence[float]], paths: Iterable[Sequence[int]]) -> float:
    """Tokens a pass of a tree, given by the ranks on the way to each of its nodes: 1 + the sum of the paths' products.

    `accuracies[k][r]` is head k's accuracy at rank r alone (Medusa, section 2.3.3).

    >>> expected_tokens_of_paths([[0.5, 0.25], [0.5]], [(0,), (1,), (0, 0)])
    2.0
    """
    return 1.0 + sum(
        math.prod(_share("accuracy", accuracies[head][rank]) for head, rank in enumerate(path)) for path in paths
    )


def speed_up(tokens_per_step: float, overhead: float) -> float:
    """Tokens per step divided by the cost of a verification pass in plain passes.

    >>> speed_up(2.4, 1.2)
    2.0
    """
    if not (math.isfinite(overhead) and overhead > 0):
        raise ConfigError(f"overhead is {overhead}; a verification pass costs more than nothing")
    return tokens_per_step / overhead


def _share(name: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{name} is {value}; it must lie between 0 and 1")
    return value
