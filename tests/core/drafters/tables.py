"""Guessers whose guesses are given, and what their trees should be, worked out path by path in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from medusa_core.backbone.picking import KEPT
from medusa_core.drafters import mixing
from medusa_core.drafters.sharpening import Heads
from medusa_core.drafters.successors import Successors, new_successors
from medusa_core.events import Source
from medusa_core.records import Accepted, CandidateTree, Scores
from medusa_core.state import State

V = 100
ROOT = 99
TRUSTED = 0.55  # of what recycling knows of single tokens

Guesses = Sequence[tuple[int, float]]  # tokens and probabilities, the likeliest first


class EmptyCache:
    """Drafting reads no rows, and drops none; it may ask how many there are."""

    def __init__(self, length: int = 0) -> None:
        self.length = length

    def keep(self, start: int, rows: object) -> None:
        raise AssertionError

    def crop(self, length: int) -> None:
        raise AssertionError


def state_at_root() -> State:
    state = State(EmptyCache())
    state.root = ROOT
    return state


class TableHeads:
    """Guesses by depth, as many at each as at the first."""

    source, kinds = Source.HEAD, 64

    def __init__(self, *by_depth: Guesses) -> None:
        self.by_depth = by_depth

    def below(self, path: Sequence[int]) -> Guesses:
        """After the root and a path under it."""
        return self.by_depth[len(path)] if len(path) < len(self.by_depth) else ()

    def begin(self, state: State) -> Heads:
        depths, width = len(self.by_depth), len(self.by_depth[0])
        tokens = np.array([[token for token, _ in guesses] for guesses in self.by_depth])
        shares = np.array([[share for _, share in guesses] for guesses in self.by_depth], np.float32)
        ranks = np.tile(np.arange(width), (depths, 1))
        no_pairs = np.zeros(V + 1, np.int64), np.empty(0, np.int64), np.empty((depths, 0), np.float32)
        return Heads(shares, ranks, tokens, *no_pairs)

    def prepare(self) -> None:
        """Nothing is learnt."""

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """A table does not change."""


class TableSuccessors:
    """Guesses by the token before."""

    source, kinds = Source.RECYCLING, 20

    def __init__(self, by_token: Mapping[int, Guesses]) -> None:
        self.by_token = by_token

    def below(self, path: Sequence[int]) -> Guesses:
        """After the root and a path under it."""
        return self.by_token.get(path[-1] if path else ROOT, ())

    def begin(self, state: State) -> Successors:
        made = new_successors(V, 4, KEPT)
        for token, guesses in self.by_token.items():
            for rank, (follower, probability) in enumerate(guesses):
                made.tokens[token, rank], made.shares[token, rank] = follower, probability / TRUSTED
        return made

    def prepare(self) -> None:
        """Nothing is learnt."""

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """A table does not change."""


def offers(guessers: Sequence[Any], path: Sequence[int]) -> dict[int, float]:
    """What every token after a path is worth, by the words of `mixing.py`."""
    made = [guesser.below(path) for guesser in guessers]
    if len(made) == 1:
        return dict(made[0])
    voices = mixing.voices([guesser.source for guesser in guessers])
    common = voices.bias + sum(silent for guesses, silent in zip(made, voices.silent, strict=True) if guesses)
    scores: dict[int, float] = {}
    for guesses, slope, named in zip(made, voices.slopes, voices.named, strict=True):
        for token, p in guesses:
            scores[token] = scores.get(token, 0.0) + named + slope * math.log(p / (1 - p))
    weights = {token: math.exp(common + score) for token, score in scores.items()}
    total = 1 + sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def all_paths(guessers: Sequence[Any], depth: int) -> dict[tuple[int, ...], float]:
    """The probability of every path under the root, down to a depth; the root's own is ()."""
    paths: dict[tuple[int, ...], float] = {(): 1.0}
    level: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        below = []
        for path in level:
            for token, worth in offers(guessers, path).items():
                paths[(*path, token)] = paths[path] * worth
                below.append((*path, token))
        level = below
    return paths
