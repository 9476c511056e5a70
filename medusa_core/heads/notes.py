"""What should be known of a set of heads in use: never measured, or measured in another precision.

Neither is an error: any heads keep replies exact, only the tree and what is expected of it may be off; calibrating
mends it. Knows nothing of where it is shown.
"""

from __future__ import annotations

from medusa_core.heads.checkpoint import HeadsCheckpoint


def heads_note(checkpoint: HeadsCheckpoint, precision: str) -> str:
    """One or two sentences, "" where there is nothing to say. `precision`: of the model, as it was loaded."""
    source = f"The heads were read from the format of {checkpoint.source}. " if checkpoint.source else ""
    if not calibration_due(checkpoint, precision):
        return source.rstrip()
    statistics = checkpoint.statistics
    if statistics is None:
        tree = "a usual tree is used" if checkpoint.source else "their tree stays as it came"
        they = "They" if source else "The heads"
        return f"{source}{they} were never measured on held-out replies: {tree} until they are calibrated."
    return (
        f"{source}The heads were measured in {statistics.precision} and the model runs in {_plain(precision)}: they "
        "work, and may bring more once they are calibrated for it."
    )


def calibration_due(checkpoint: HeadsCheckpoint, precision: str) -> bool:
    """Whether measuring the heads with the model as it runs would say more of them than is known."""
    found = checkpoint.statistics
    return found is None or _plain(found.precision) != _plain(precision)


def _plain(precision: str) -> str:
    """Without the reason behind it."""
    return precision.partition(" ")[0]
