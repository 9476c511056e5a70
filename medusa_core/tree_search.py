"""The best tree for given acceptance statistics, and its best size for given costs (Medusa, section 2.3.3, appendix C).

A node adds to the expected number of tokens a step exactly the probability that its whole path is right, so the best
tree of N nodes consists of the N likeliest paths; a path's prefix is at least as likely as the path, hence best-first
growth finds it. Two kinds of statistics: how often each *path* of ranks was right (counted, no independence assumed),
or each head's accuracy by rank alone (the paper's, which assumes that heads err independently).
Dense (Cartesian) trees are here for comparison only: they are never better than the sparse tree of their size.
Knows nothing of models or tensors.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from medusa_core.errors import TreeError
from medusa_core.tree import RankedTree, Tree

Path = tuple[int, ...]


def count_paths(ranks: Iterable[Sequence[int]], max_rank: int) -> Counter[Path]:
    """How often each path of ranks was right.

    One item of `ranks` is one observed step: for head 1, 2, ... the rank it gave the token that really came. A head
    that ranked it at `max_rank` or beyond ends the path.
    """
    counts: Counter[Path] = Counter()
    for observed in ranks:
        for depth, rank in enumerate(observed, 1):
            if rank >= max_rank:
                break
            counts[tuple(observed[:depth])] += 1
    return counts


def tree_from_paths(counts: Counter[Path], nodes: int) -> RankedTree:
    """The best tree of at most `nodes` nodes, root counted, by counted paths; nodes in order of gain."""
    children: dict[Path, list[Path]] = {}
    for path in counts:
        children.setdefault(path[:-1], []).append(path)
    return _grow(nodes, lambda path: children.get(path, []), lambda path: counts[path])


def tree_from_accuracies(accuracies: Sequence[Sequence[float]], nodes: int) -> RankedTree:
    """The best tree of at most `nodes` nodes, root counted, where `accuracies[k][i]` is head k's accuracy at rank i."""

    def expand(path: Path) -> list[Path]:
        if len(path) == len(accuracies):
            return []
        return [(*path, rank) for rank in range(len(accuracies[len(path)]))]

    def gain(path: Path) -> float:
        product = 1.0
        for head, rank in enumerate(path):
            product *= accuracies[head][rank]
        return product

    return _grow(nodes, expand, gain)


def expected_tokens(tree: RankedTree, counts: Counter[Path], steps: int) -> float:
    """Tokens a step this tree would have brought over `steps` observed steps: 1 + the sum of its nodes' gains."""
    return 1 + sum(counts[path] for path in paths_of(tree)) / max(steps, 1)


def expected_curve(tree: RankedTree, counts: Counter[Path], steps: int) -> tuple[float, ...]:
    """Tokens a step by draft nodes: entry n is the expectation of the tree's first n draft nodes; entry 0 is 1."""
    gains = (counts[path] / max(steps, 1) for path in paths_of(tree))
    return tuple(accumulate(gains, initial=1.0))


def paths_of(tree: RankedTree) -> list[Path]:
    """The ranks from the root to every draft node, in the order of the nodes."""
    paths: list[Path] = [()]
    for node in range(1, len(tree.tree)):
        paths.append((*paths[tree.tree.parents[node]], tree.ranks[node]))
    return paths[1:]


def dense_tree(branching: Sequence[int]) -> RankedTree:
    """The Cartesian tree: every node at depth d has the `branching[d]` likeliest guesses of head d + 1 as children."""
    if any(children < 1 for children in branching):
        raise TreeError(f"a dense tree has at least one child a node at every depth; got {list(branching)}")
    parents, ranks, level = [0], [0], [0]
    for children in branching:
        start = len(parents)
        parents += [parent for parent in level for _ in range(children)]
        ranks += [rank for _ in level for rank in range(children)]
        level = list(range(start, len(parents)))
    return RankedTree(Tree(tuple(parents)), tuple(ranks))


def best_branching(counts: Counter[Path], draft_nodes: int) -> tuple[int, ...]:
    """The branching of the dense tree of at most `draft_nodes` draft nodes with most expected tokens a step.

    Of equal ones the smaller tree. Every branching that fits is tried: a few thousand for 64 nodes.
    """
    best = max(_branchings(list(counts.items()), 1, draft_nodes), key=lambda found: (found[0], -found[1]))
    return best[2]


def _branchings(paths: list[tuple[Path, int]], width: int, room: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Gain, nodes and branching of every dense tree below a level of `width` nodes.

    `paths` lie within the levels above and are cut to what is below: the first rank is a child's of this level.
    """
    yield 0, 0, ()
    by_rank: dict[int, list[tuple[Path, int]]] = {}
    for path, count in paths:
        by_rank.setdefault(path[0], []).append((path[1:], count))
    gain, below = 0, []
    for children in range(1, min(room // width, max(by_rank, default=-1) + 1) + 1):
        for rest, count in by_rank.get(children - 1, ()):
            if rest:
                below.append((rest, count))
            else:
                gain += count
        nodes = width * children
        for deeper, more, branching in _branchings(below, nodes, room - nodes):
            yield gain + deeper, nodes + more, (children, *branching)


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Tokens a second by draft nodes, entry 0 being plain decoding, and the number of draft nodes to use."""

    tokens_per_second: tuple[float, ...]
    nodes: int  # 0: plain decoding is faster than any tree


def best_size(expected: Sequence[float], seconds: Sequence[float]) -> SizeCurve:
    """The size with most expected tokens a second, and the whole curve; of equal sizes the smaller.

    `expected[n]` are the tokens and `seconds[n]` is the time of a step with n draft nodes: the pass over n + 1 rows,
    the heads and what else a step costs; n = 0 is a plain step without heads.
    """
    rates = tuple(tokens / time for tokens, time in zip(expected, seconds, strict=False))
    if not rates:
        raise TreeError("there is no size to choose from: give at least the plain step")
    return SizeCurve(rates, max(range(len(rates)), key=lambda nodes: (rates[nodes], -nodes)))


def _grow(nodes: int, expand: Callable[[Path], list[Path]], gain: Callable[[Path], float]) -> RankedTree:
    """Best-first: take the likeliest path not yet taken whose parent is taken; ties by shorter, then lower ranks."""
    if nodes < 1:
        raise TreeError(f"a tree has at least its root; {nodes} nodes asked for")
    index: dict[Path, int] = {(): 0}
    parents, ranks = [0], [0]
    frontier = [(-gain(path), len(path), path) for path in expand(())]
    heapq.heapify(frontier)
    while frontier and len(parents) < nodes:
        negative, _, path = heapq.heappop(frontier)
        if negative == 0:
            break  # never once right: a node that only costs
        index[path] = len(parents)
        parents.append(index[path[:-1]])
        ranks.append(path[-1])
        for child in expand(path):
            heapq.heappush(frontier, (-gain(child), len(child), child))
    return RankedTree(Tree(tuple(parents)), tuple(ranks))
