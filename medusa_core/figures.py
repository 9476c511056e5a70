"""What was measured of a machine and of a set of heads, as the plain data that people are shown beside a reply.

Knows nothing of how it was measured.
"""

from __future__ import annotations

from dataclasses import replace

from medusa_core.backbone.cost import CostTable
from medusa_core.head_statistics import SIZES, HeadStatistics, PathStatistics
from medusa_core.model_info import Measured

_CONTEXT = 512  # cached tokens that the times of passes are told for: those of a conversation of a few turns


def measured(costs: CostTable | None, statistics: HeadStatistics | None) -> Measured:
    """Both as far as they are there."""
    known = Measured()
    if costs is not None:
        known = replace(
            known,
            machine=dict(costs.key).get("device", ""),
            rows=costs.rows,
            pass_seconds=tuple(costs.seconds(count, _CONTEXT) for count in costs.rows),
            draft_seconds=costs.draft_seconds,
        )
    if statistics is not None:
        known = replace(
            known,
            accuracies=statistics.together.accuracies(),
            sizes=SIZES,
            greedy=_acceptance(statistics.greedy),
            sampled=_acceptance(statistics.sampled),
        )
    return known


def _acceptance(part: PathStatistics) -> tuple[tuple[float, ...], ...]:
    return tuple(part.acceptance(size) for size in SIZES) if part.steps else ()
