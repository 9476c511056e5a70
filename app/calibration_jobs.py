"""What the model's worker is given to run to calibrate the heads in use: measure them with the model as it runs here.

The calibration is the one of `python -m medusa_core calibrate`. Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.worker import Job, stoppable
from medusa_core.config import CalibrateConfig
from medusa_core.errors import CheckpointError
from medusa_core.events import Progress

if TYPE_CHECKING:
    from medusa_core.heads.checkpoint import HeadsCheckpoint

_WRITING = "Calibrating the heads: the model writes replies"
_MEASURING = "Calibrating the heads: measuring them"


def calibration_due(model: Any) -> bool:
    """Whether the heads of a loaded model were never measured, or in another precision than it runs in."""
    checkpoint = getattr(model, "checkpoint", None)
    if checkpoint is None or model.info.drafting_problem:
        return False
    from medusa_core.heads.notes import calibration_due

    return calibration_due(checkpoint, model.info.dtype)


def calibrating(model: Any, cache: Path, config: CalibrateConfig) -> Job:
    """Let the model write replies, measure its heads on them and write down the tree that follows.

    The value is the folder of the calibrated heads: their own where they were trained here, else a copy beside those,
    for what came with the program or was got stays as it is. Replies stay on the disk: stopped, it goes on from them.
    """
    home = cache.parent

    def calibrate() -> Generator[Progress, None, Path]:
        from medusa_core import hub
        from medusa_core.calibrate.statistics import measure_heads
        from medusa_core.calibrate.store import store, store_copy
        from medusa_core.train.held_out import held_out_replies, write_replies
        from medusa_core.train.room import check_writable, exclusive

        checkpoint, spec = model.checkpoint, model.backbone.spec
        folder = hub.heads_folder(model.info.heads_name, cache)
        if folder is None:
            raise CheckpointError("No heads are loaded, so there is nothing to calibrate.")
        check_writable(home / "heads")
        data = home / "calibration" / f"{model.info.name}-{spec.fingerprint}-{model.info.dtype}"
        with exclusive(data):
            for progress in write_replies(model.backbone, model.text, data, checkpoint.training, config.tokens):
                yield replace(progress, stage=_WRITING)
        replies = held_out_replies(data, spec, checkpoint.training, config.tokens)
        measured = measure_heads(
            checkpoint.heads,
            [(hidden, tokens) for hidden, tokens, _ in replies],
            [temperature for _, _, temperature in replies],
            max_rank=config.max_rank,
            precision=model.info.dtype,
        )
        found = yield from _renamed(measured)
        tree = found.together.tree(config.nodes)
        if folder.is_dir() and folder.resolve().parent == (home / "heads").resolve():
            store(folder, folder, tree, found)
            return folder
        out = _free(home / "heads", _name(model, checkpoint))
        store_copy(folder, out, checkpoint, tree, found)
        return out

    return stoppable(calibrate)


def _renamed(work: Generator[Progress, None, Any]) -> Generator[Progress, None, Any]:
    """The same, said of a calibration."""
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return end.value
        yield replace(event, stage=_MEASURING)


def _name(model: Any, checkpoint: HeadsCheckpoint) -> str:
    kind = "-paper" if checkpoint.heads.kind == "medusa" else ""
    return f"{model.backbone.spec.name}{kind}-{model.info.dtype.partition(' ')[0]}"


def _free(home: Path, name: str) -> Path:
    number = 1
    while (found := home / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return found
