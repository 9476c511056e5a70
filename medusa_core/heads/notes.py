"""What should be known of a set of heads in use: never measured, or measured in another precision.

Neither is an error: any heads keep replies exact, only the tree and what is expected of it may be off.
Knows nothing of where it is shown.
"""

from __future__ import annotations

from medusa_core.heads.checkpoint import HeadsCheckpoint


def heads_note(checkpoint: HeadsCheckpoint, precision: str) -> str:
    """One or two sentences, "" where there is nothing to say. `precision`: of the model, as it was loaded."""
    source = f"The heads were read from the format of {checkpoint.source}. " if checkpoint.source else ""
    statistics = checkpoint.statistics
    if statistics is None:
        tree = "a usual tree is used" if checkpoint.source else "their tree stays as it came"
        return f"{source}They were never measured on held-out replies: {tree} until the command “calibrate” fits one."
    loaded = precision.partition(" ")[0]
    if statistics.precision.partition(" ")[0] != loaded:
        return (
            f"{source}The heads were measured in {statistics.precision} and the model runs in {loaded}: they work, and "
            "the command “calibrate” fits their tree anew."
        )
    return source.rstrip()
