"""What calibration found, row by row: what trees would bring, what the closed forms say, what it costs on this machine.

Plain data, the same for the terminal and for JSON. Knows nothing of models, or of how any of it is printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.backbone.cost import CostTable
from medusa_core.head_statistics import SIZES, HeadStatistics, PathStatistics
from medusa_core.theory import expected_tokens_of_candidates, expected_tokens_of_paths, expected_tokens_per_pass
from medusa_core.tree import RankedTree
from medusa_core.tree_search import best_branching, best_size, dense_tree, expected_curve, expected_tokens, paths_of


@dataclass(frozen=True, slots=True)
class TreeRow:
    """Tokens a step of the tree of so many draft nodes, counted and by the closed forms."""

    draft_nodes: int
    counted: float  # the sparse tree, over all replies
    greedy: float | None  # the same tree over greedy replies alone; None where there are none
    sampled: float | None
    dense: float  # the best Cartesian tree of at most so many nodes
    branching: tuple[int, ...]  # of the dense tree
    independent: float  # the sparse tree, if heads erred independently: products of accuracies by rank
    closed_form: float  # as many guesses a head as the tree takes of it, each right on its own like the first


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """A step with so many draft nodes on this machine."""

    draft_nodes: int
    tokens: float
    seconds: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class HeadsReport:
    """Everything that is said of a set of heads."""

    steps: int
    greedy_steps: int
    top: tuple[tuple[float, ...], ...]  # [head][r]: share of tokens among the first r + 1 guesses
    temperatures: tuple[float, ...]
    precision: str
    chain_counted: float  # tokens a step of a chain of first guesses
    chain_closed_form: float
    trees: tuple[TreeRow, ...]
    cost: CostTable
    context: int  # cached tokens that the speeds are for
    speeds: tuple[SpeedRow, ...]  # by draft nodes, from 0: a plain step
    best_draft_nodes: int  # with most tokens a second


def make_report(statistics: HeadStatistics, tree: RankedTree, cost: CostTable, context: int) -> HeadsReport:
    """Work out the rows for the tree of the statistics."""
    both = statistics.together
    counts = both.counts()
    curve = expected_curve(tree, counts, both.steps)
    seconds = [cost.step_seconds(nodes, context) for nodes in range(len(curve))]
    sizes = best_size(curve, seconds)
    chain = dense_tree((1,) * len(both.tried))
    return HeadsReport(
        steps=both.steps,
        greedy_steps=statistics.greedy.steps,
        top=both.top(),
        temperatures=statistics.temperatures,
        precision=statistics.precision,
        chain_counted=expected_tokens(chain, counts, both.steps),
        chain_closed_form=expected_tokens_per_pass([head[0] for head in both.top()]),
        trees=tuple(_tree_row(statistics, both, tree, nodes) for nodes in _sizes(len(curve) - 1)),
        cost=cost,
        context=context,
        speeds=tuple(
            SpeedRow(nodes, curve[nodes], seconds[nodes], rate) for nodes, rate in enumerate(sizes.tokens_per_second)
        ),
        best_draft_nodes=sizes.nodes,
    )


def _sizes(draft_nodes: int) -> list[int]:
    """The usual sizes as far as the tree has them; of a smaller or larger tree its own size too."""
    return sorted({size for size in SIZES if size <= draft_nodes} | ({draft_nodes} - {0}))


def _tree_row(statistics: HeadStatistics, both: PathStatistics, tree: RankedTree, nodes: int) -> TreeRow:
    part = tree.first(nodes + 1)
    paths = paths_of(part)
    counts = both.counts()
    branching = best_branching(counts, nodes)
    return TreeRow(
        draft_nodes=nodes,
        counted=expected_tokens(part, counts, both.steps),
        greedy=_expected(part, statistics.greedy),
        sampled=_expected(part, statistics.sampled),
        dense=expected_tokens(dense_tree(branching), counts, both.steps),
        branching=branching,
        independent=expected_tokens_of_paths(both.accuracies(), paths),
        closed_form=expected_tokens_of_candidates([head[0] for head in both.top()], _candidates(paths)),
    )


def _expected(tree: RankedTree, part: PathStatistics) -> float | None:
    return expected_tokens(tree, part.counts(), part.steps) if part.steps else None


def _candidates(paths: Sequence[Sequence[int]]) -> list[int]:
    """How many different guesses of head 1, 2, ... the tree takes."""
    deepest = max(map(len, paths), default=0)
    return [len({path[head] for path in paths if len(path) > head}) for head in range(deepest)]
