"""How good a set of heads was on held-out replies, as the file `statistics.json` beside them holds it.

Counts, not shares: greedy and sampled replies are kept apart, and adding their counts gives both together. What follows
from counts (accuracies, trees, expected tokens) is worked out here and nowhere stored twice. Reading is strict.
Knows nothing of tensors, or of how the counts are made.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from medusa_core.errors import StatisticsError
from medusa_core.tree import RankedTree
from medusa_core.tree_search import Path as RankPath
from medusa_core.tree_search import expected_curve, paths_of, tree_from_paths

FILE = "statistics.json"
SIZES = (4, 8, 16, 32, 64)  # draft nodes that expectations are reported for
_FORMAT = "medusa-statistics"
_VERSION = 1


@dataclass(frozen=True)
class PathStatistics:
    """What was seen at `steps` positions of replies: K heads, ranks below R."""

    steps: int
    tried: tuple[int, ...]  # (K,): positions at which head k had a token to guess
    hits: tuple[tuple[int, ...], ...]  # (K, R): how often the token that came was head k's guess of rank r
    paths: tuple[tuple[RankPath, int], ...]  # how often a path of ranks was right; the most frequent ones first

    def __post_init__(self) -> None:
        if len(self.tried) != len(self.hits):
            raise StatisticsError(f"'tried' names {len(self.tried)} heads and 'hits' {len(self.hits)}")
        for head, (tried, hits) in enumerate(zip(self.tried, self.hits, strict=True), 1):
            if not 0 <= sum(hits) <= tried <= self.steps or min(hits, default=0) < 0:
                raise StatisticsError(f"head {head} was right {sum(hits)} times in {tried} of {self.steps} steps")
        for path, count in self.paths:
            if not 1 <= len(path) <= len(self.tried) or min(path) < 0 or not 1 <= count <= self.steps:
                raise StatisticsError(f"path {list(path)} was right {count} times in {self.steps} steps")

    def accuracies(self) -> tuple[tuple[float, ...], ...]:
        """(K, R): head k's accuracy at rank r alone."""
        pairs = zip(self.tried, self.hits, strict=True)
        return tuple(tuple(hit / max(tried, 1) for hit in hits) for tried, hits in pairs)

    def top(self) -> tuple[tuple[float, ...], ...]:
        """(K, R): the share of tokens among head k's first r + 1 guesses."""
        pairs = zip(self.tried, self.hits, strict=True)
        return tuple(tuple(hit / max(tried, 1) for hit in accumulate(hits)) for tried, hits in pairs)

    def counts(self) -> Counter[RankPath]:
        """How often each path was right."""
        return Counter(dict(self.paths))

    def tree(self, draft_nodes: int) -> RankedTree:
        """The best tree of at most `draft_nodes` draft nodes, nodes in order of gain."""
        return tree_from_paths(self.counts(), draft_nodes + 1)

    def expected(self, draft_nodes: int) -> tuple[float, ...]:
        """Tokens a step by draft nodes, 0 to at most `draft_nodes`, of the best tree of each size."""
        return expected_curve(self.tree(draft_nodes), self.counts(), self.steps)

    def acceptance(self, draft_nodes: int) -> tuple[float, ...]:
        """(K,): the share of steps in which the best tree of so many draft nodes has at least k guesses kept."""
        counts = self.counts()
        kept = [0] * len(self.tried)
        for path in paths_of(self.tree(draft_nodes)):
            kept[len(path) - 1] += counts[path]
        return tuple(count / max(self.steps, 1) for count in kept)

    def __add__(self, other: PathStatistics) -> PathStatistics:
        """Both together. Paths that were too rare to be kept in either stay uncounted."""
        return PathStatistics(
            steps=self.steps + other.steps,
            tried=tuple(mine + theirs for mine, theirs in zip(self.tried, other.tried, strict=True)),
            hits=tuple(
                tuple(mine + theirs for mine, theirs in zip(*pair, strict=True))
                for pair in zip(self.hits, other.hits, strict=True)
            ),
            paths=most_frequent(self.counts() + other.counts(), len(self.paths) + len(other.paths)),
        )


def most_frequent(counts: Counter[RankPath], limit: int) -> tuple[tuple[RankPath, int], ...]:
    """The `limit` most frequent paths; a path's beginning is never left out before the path."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
    return tuple(ordered[:limit])


@dataclass(frozen=True)
class HeadStatistics:
    """The statistics of one set of heads, and what their probabilities must be divided by to be meant."""

    greedy: PathStatistics  # over replies written at temperature 0
    sampled: PathStatistics  # over replies drawn at random
    temperatures: tuple[float, ...]  # (K,): head k's logits divided by it make its probabilities fit best
    precision: str  # of the model that wrote the replies

    def __post_init__(self) -> None:
        if len(self.greedy.tried) != len(self.sampled.tried):
            raise StatisticsError(
                f"{len(self.greedy.tried)} heads on greedy, {len(self.sampled.tried)} on sampled replies"
            )
        widths = {len(hits) for part in (self.greedy, self.sampled) for hits in part.hits}
        if len(widths) > 1:
            raise StatisticsError(f"every head must count the same ranks; there are rows of {sorted(widths)}")
        if len(self.temperatures) != len(self.greedy.tried):
            raise StatisticsError(f"{len(self.temperatures)} temperatures for {len(self.greedy.tried)} heads")
        if not all(math.isfinite(value) and value > 0 for value in self.temperatures):
            raise StatisticsError(f"temperatures must be above 0; got {list(self.temperatures)}")

    @property
    def together(self) -> PathStatistics:
        """Greedy and sampled replies as one."""
        return self.greedy + self.sampled

    def summary(self) -> dict[str, Any]:
        """Top-1 ... top-R by head, and expected tokens a step by draft nodes, for people to read."""
        parts = {"greedy": self.greedy, "sampled": self.sampled, "together": self.together}
        return {
            name: {
                "top": [[round(share, 4) for share in head] for head in part.top()],
                "expected_tokens_per_step": expected_by_size(part.expected(max(SIZES))),
            }
            for name, part in parts.items()
            if part.steps
        }

    def to_json(self) -> str:
        """The file's text. `summary` is for its readers; `from_json` works it out anew."""
        data = {
            "format": _FORMAT,
            "version": _VERSION,
            "precision": self.precision,
            "temperatures": list(self.temperatures),
            "summary": self.summary(),
            "greedy": _part_to_data(self.greedy),
            "sampled": _part_to_data(self.sampled),
        }
        return json.dumps(data)

    @classmethod
    def from_json(cls, text: str) -> HeadStatistics:
        """Read `to_json`'s form. Raises StatisticsError saying what is wrong."""
        try:
            data: Any = json.loads(text)
        except ValueError as error:
            raise StatisticsError(f"it is not JSON: {error}") from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise StatisticsError(f"its 'format' must be {_FORMAT!r}")
        if data.get("version") != _VERSION:
            raise StatisticsError(f"it has version {data.get('version')!r}; this program reads version {_VERSION}")
        known = {"format", "version", "precision", "temperatures", "summary", "greedy", "sampled"}
        if unknown := sorted(set(data) ^ known):
            raise StatisticsError(f"missing or unknown entries: {', '.join(unknown)}")
        if not isinstance(data["precision"], str):
            raise StatisticsError(f"'precision' must be a name; it is {data['precision']!r}")
        return cls(
            greedy=_part(data["greedy"], "greedy"),
            sampled=_part(data["sampled"], "sampled"),
            temperatures=tuple(float(value) for value in _list(data["temperatures"], "temperatures", int, float)),
            precision=data["precision"],
        )

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> HeadStatistics:
        """Read the file. Raises StatisticsError naming it where it is missing or wrong."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, StatisticsError) as error:
            raise StatisticsError(f"{path}: {error}. Delete that file, and calibrate the heads anew.") from error


def expected_by_size(curve: Sequence[float]) -> dict[int, float]:
    """Expected tokens a step for trees of 4 to 64 draft nodes, as far as the curve has them."""
    return {size: round(curve[size], 4) for size in SIZES if size < len(curve)}


def _part_to_data(part: PathStatistics) -> dict[str, Any]:
    return {
        "steps": part.steps,
        "tried": list(part.tried),
        "hits": [list(hits) for hits in part.hits],
        "paths": [[*path, count] for path, count in part.paths],
    }


def _part(data: Any, name: str) -> PathStatistics:
    if not isinstance(data, dict) or set(data) != {"steps", "tried", "hits", "paths"}:
        raise StatisticsError(f"'{name}' must hold steps, tried, hits and paths, and nothing else")
    (steps,) = _list([data["steps"]], f"{name}.steps", int)
    rows = [_list(row, f"{name}.paths", int) for row in _list(data["paths"], f"{name}.paths", list)]
    if any(len(row) < 2 for row in rows):
        raise StatisticsError(f"'{name}.paths': a path is at least one rank, and its count")
    return PathStatistics(
        steps=steps,
        tried=_list(data["tried"], f"{name}.tried", int),
        hits=tuple(_list(row, f"{name}.hits", int) for row in _list(data["hits"], f"{name}.hits", list)),
        paths=tuple((row[:-1], row[-1]) for row in rows),
    )


def _list(value: Any, name: str, *kinds: type[Any]) -> tuple[Any, ...]:
    """The list as it stands, every item of one of these kinds; `true` is not a number."""
    if not isinstance(value, list) or not all(type(item) in kinds for item in value):
        raise StatisticsError(f"'{name}' must be a list of {' or '.join(kind.__name__ for kind in kinds)}")
    return tuple(value)
