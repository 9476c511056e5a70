"""The best sparse tree for given acceptance statistics (Medusa, section 2.3.3 and appendix C).

A node adds to the expected number of tokens a step exactly the probability that its whole path is right, so the best
tree of N nodes consists of the N likeliest paths; a path's prefix is at least as likely as the path, hence best-first
growth finds it. Two kinds of statistics: how often each *path* of ranks was right (counted, no independence assumed),
or each head's accuracy by rank alone (the paper's, which assumes that heads err independently).
Knows nothing of models or tensors.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

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
    return 1 + sum(counts[_ranks_to(tree, node)] for node in range(1, len(tree.tree))) / max(steps, 1)


def _ranks_to(tree: RankedTree, node: int) -> Path:
    return tuple(tree.ranks[i] for i in tree.tree.path(node)[1:])


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
