"""The shape of a candidate tree, from its parent indices alone: depths, ancestors, children, paths, JSON.

One constructor serves trees calibrated once and trees grown anew each step. Nodes are in topological order; node 0 is
the root and its own parent, so no sentinel is needed anywhere. Knows nothing of tokens, probabilities or models.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from medusa_core.errors import TreeError

SMALL, SHAPES = 17, 512  # nodes of trees whose shapes come again and again, and how many of these are worth keeping
_FORMAT = "medusa-tree"
_VERSION = 1


@dataclass(frozen=True)
class Tree:
    """A rooted tree of N nodes: `parents[i] < i` for every node but the root, `parents[0] == 0`."""

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[0] != 0:
            raise TreeError(f"parents must begin with 0, the root, its own parent; got {list(self.parents[:5])}")
        for node, parent in enumerate(self.parents[1:], 1):
            if not 0 <= parent < node:
                raise TreeError(f"node {node} has parent {parent}; a parent must come before its node")

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of every node; the root's is 0."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of every node, ascending."""
        children: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents[1:], 1):
            children[parent].append(node)
        return tuple(tuple(nodes) for nodes in children)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """Nodes that are nobody's parent."""
        return tuple(node for node, children in enumerate(self.children) if not children)

    @property
    def mask(self) -> tuple[tuple[bool, ...], ...]:
        """Who sees whom, (N, N): a node sees itself and its ancestors; its row is its parent's row plus itself.

        Worked out each time: N * N numbers would stay with every tree that is kept.
        """
        rows: list[tuple[bool, ...]] = []
        for node, parent in enumerate(self.parents):
            inherited = rows[parent] if node else (False,) * len(self.parents)
            rows.append((*inherited[:node], True, *inherited[node + 1 :]))
        return tuple(rows)

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the root to `node`, both included."""
        path = [node]
        while path[-1]:
            path.append(self.parents[path[-1]])
        return tuple(reversed(path))

    def first(self, nodes: int) -> Tree:
        """The tree of the first `nodes` nodes: topological order makes every prefix a tree."""
        return self if nodes >= len(self) else Tree(self.parents[: max(nodes, 1)])


ROOT_ONLY = Tree((0,))


@dataclass(frozen=True)
class RankedTree:
    """A tree whose node at depth d stands for the guess of rank `ranks[node]` (0 = likeliest) of head d.

    Nodes are in the order in which they are worth having, so the best tree of n nodes is the first n nodes.
    """

    tree: Tree
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.ranks) != len(self.tree):
            raise TreeError(f"{len(self.tree)} nodes but {len(self.ranks)} ranks")
        if any(rank < 0 for rank in self.ranks):
            raise TreeError(f"ranks must not be negative; got {min(self.ranks)}")
        for node, children in enumerate(self.tree.children):
            ranks = [self.ranks[child] for child in children]
            if len(set(ranks)) != len(ranks):
                raise TreeError(f"two children of node {node} have the same rank: {ranks}")

    def first(self, nodes: int) -> RankedTree:
        """The best tree of `nodes` nodes, the root counted."""
        tree = self.tree.first(nodes)
        return RankedTree(tree, self.ranks[: len(tree)])

    def within(self, heads: int) -> RankedTree:
        """The part no deeper than `heads`: a head that does not exist cannot guess."""
        keep = [node for node, depth in enumerate(self.tree.depths) if depth <= heads]
        index = {node: i for i, node in enumerate(keep)}
        parents = tuple(index[self.tree.parents[node]] for node in keep)
        return RankedTree(Tree(parents), tuple(self.ranks[node] for node in keep))

    @property
    def depth(self) -> int:
        """Depth of the deepest node."""
        return max(self.tree.depths)

    def to_json(self) -> str:
        """The tree as the file `tree.json` holds it."""
        data = {
            "format": _FORMAT,
            "version": _VERSION,
            "parents": list(self.tree.parents),
            "ranks": list(self.ranks),
        }
        return json.dumps(data)

    @classmethod
    def from_json(cls, text: str) -> RankedTree:
        """Read `to_json`'s form. Raises TreeError saying what is wrong."""
        try:
            data: Any = json.loads(text)
        except ValueError as error:
            raise TreeError(f"the tree file is not JSON: {error}") from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise TreeError(f"not a tree file: its 'format' must be {_FORMAT!r}")
        if data.get("version") != _VERSION:
            raise TreeError(f"tree file of version {data.get('version')!r}; this program reads version {_VERSION}")
        return cls(Tree(_integers(data, "parents")), _integers(data, "ranks"))

    def save(self, path: Path) -> None:
        """Write the tree file."""
        path.write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RankedTree:
        """Read a tree file. Raises TreeError naming it where it is missing or wrong."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, TreeError) as error:
            raise TreeError(f"{path}: {error}") from error


def _integers(data: dict[str, Any], key: str) -> tuple[int, ...]:
    values: Sequence[Any] = data.get(key, ())
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise TreeError(f"the tree file's '{key}' must be a list of whole numbers")
    return tuple(values)
