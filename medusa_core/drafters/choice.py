"""Which drafter a DecodingConfig asks for, over what a loaded model has: heads or none, measured costs or none.

What drafters learn stays here from reply to reply: texts looked up, successors recycled, what each source earned.
Knows nothing of text or of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from medusa_core.backbone.cost import CostTable
from medusa_core.config import DecodingConfig
from medusa_core.drafters.base import Drafter, Guesser
from medusa_core.drafters.growth import Grower
from medusa_core.drafters.hybrid import HybridDrafter
from medusa_core.drafters.lookup import LookupGuesser
from medusa_core.drafters.medusa import HeadGuesser, MedusaDrafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.drafters.paired import PairedGuesser
from medusa_core.drafters.recycling import RecyclingGuesser
from medusa_core.drafters.sizing import SIZES, FixedSize, MeasuredSize, Sizing
from medusa_core.events import Source
from medusa_core.heads.checkpoint import HeadsCheckpoint
from medusa_core.state import State
from medusa_core.tree_search import best_size

_NODES = 16  # where the number is to be measured and nothing was
_CONTEXT = 512  # cached tokens that a size which stays is worked out for

_SOURCES = {
    "auto": (Source.HEAD, Source.LOOKUP, Source.RECYCLING),
    "hybrid": (Source.HEAD, Source.LOOKUP, Source.RECYCLING),
    "medusa": (Source.HEAD,),
    "lookup": (Source.LOOKUP,),
    "recycling": (Source.RECYCLING,),
    "none": (),
}


class Drafters:
    """The drafters of one loaded model."""

    def __init__(
        self, checkpoint: HeadsCheckpoint | None, vocab_size: int, costs: CostTable | None, *, trees: bool = True
    ) -> None:
        """`trees`: the model can verify candidate trees; else nothing is ever drafted."""
        self._trees = trees
        self._checkpoint, self._costs = checkpoint, costs
        self._guessers: dict[Source, Guesser] = {
            Source.LOOKUP: LookupGuesser(),
            Source.RECYCLING: RecyclingGuesser(vocab_size),
        }
        self._statistics = None if checkpoint is None else checkpoint.statistics
        self._temperatures = None if self._statistics is None else self._statistics.temperatures
        if checkpoint is not None:
            self._guessers[Source.HEAD] = _head_guesser(checkpoint, self._temperatures)
        self._growers: dict[tuple[Source, ...], Grower] = {}
        self._sizings: dict[tuple[tuple[Source, ...], int, str], Sizing] = {}

    def drafter(self, config: DecodingConfig) -> Drafter:
        """The drafter for one reply. Sources that are not there are left out; without any, nothing is drafted."""
        sources = tuple(source for source in _SOURCES[config.drafter] if source in self._guessers)
        if not sources or not self._trees:
            return NoDrafter()
        if config.drafter == "medusa" and config.tree == "ranked" and self._checkpoint is not None:
            return MedusaDrafter(
                self._checkpoint.heads,
                self._checkpoint.tree,
                config.nodes or self._ranked_nodes,
                self._temperatures,
            )
        guessers = [self._guessers[source] for source in sources]
        if sources not in self._growers:
            self._growers[sources] = Grower(guessers)
        return HybridDrafter(guessers, self._growers[sources], self._sizing(sources, config))

    def prepare(self, state: State) -> None:
        """Compile what growing needs, so that the first reply does not wait for it. Nothing is learnt from `state`."""
        if self._trees:
            Grower(tuple(self._guessers.values())).prepare(state)

    @cached_property
    def _ranked_nodes(self) -> int:
        """Of the calibrated tree, whose size stays: what was counted for it, over what a step costs here."""
        if self._statistics is None or self._costs is None:
            return _NODES
        expected = self._statistics.together.expected(max(SIZES))
        seconds = [self._costs.step_seconds(nodes, _CONTEXT) for nodes in range(len(expected))]
        return max(best_size(expected, seconds).nodes, 1)

    def _sizing(self, sources: tuple[Source, ...], config: DecodingConfig) -> Sizing:
        """What pays depends on who drafts and on the rule, so each remembers its own."""
        if config.nodes or self._costs is None:
            return FixedSize(config.nodes or _NODES)
        key = (sources, config.nodes, type(config.acceptance).__name__)
        if key not in self._sizings:
            self._sizings[key] = MeasuredSize(self._costs)
        return self._sizings[key]


def _head_guesser(checkpoint: HeadsCheckpoint, temperatures: Sequence[float] | None) -> Guesser:
    if checkpoint.pairs is not None:
        return PairedGuesser(checkpoint.heads, checkpoint.pairs, temperatures)
    return HeadGuesser(checkpoint.heads, temperatures)
