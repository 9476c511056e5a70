"""What the workers are given to run for new heads: trying how long it takes, the training, and its data on the disk.

The training is the one of `python -m medusa_core train`. Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.worker import Job, stoppable
from medusa_core.config import CalibrateConfig, DistillConfig, HeadsKind, TrainConfig
from medusa_core.events import Event, HeadFit, Progress
from medusa_core.prompt_file import FilePrompt

if TYPE_CHECKING:
    from medusa_core.calibrate.report import HeadsReport
    from medusa_core.heads.checkpoint import HeadsCheckpoint
    from medusa_core.train.kept import KeptData
    from medusa_core.train.placing import Placed
    from medusa_core.train.work import Session, Written


@dataclass(frozen=True, slots=True)
class Recipe:
    """How replies are written and heads are trained."""

    data: DistillConfig
    train: TrainConfig

    def of(self, tokens: int, kind: HeadsKind) -> Recipe:
        """The same with so many tokens, for heads of this kind; the paper's have one block, as TGI wants it."""
        train = replace(self.train, kind=kind)
        if kind == "medusa":
            train = replace(train, num_layers=1)
        return Recipe(replace(self.data, tokens=tokens), train)


@dataclass(frozen=True, slots=True)
class Trained:
    """New heads, and what they bring on this machine."""

    placed: Placed
    heads: tuple[HeadFit, ...]
    tokens_per_step: float  # at the size of tree that is fastest here
    draft_nodes: int  # of that tree; 0: plain decoding is faster
    speed_up: float  # over plain decoding, of heads alone


def why_not(model: Any) -> str:
    """Why no heads can be trained for a loaded model; "" where they can."""
    if model is None:
        return "No model is loaded."
    if getattr(model, "backbone", None) is None:
        return "Heads cannot be trained for a recording."
    if model.info.drafting_problem:
        return f"Heads would be of no use to this model. {model.info.drafting_problem}"
    if model.info.adapted:
        return "Its heads have changed this model. Load it with other heads, or none, and train then."
    return ""


def session_of(model: Any, home: Path, recipe: Recipe, prompts: Sequence[FilePrompt], kind: HeadsKind) -> Session:
    """A training to begin."""
    from medusa_core.train.work import Session, data_folder

    work = data_folder(home, model.backbone.spec, recipe.data, prompts)
    return Session(work, recipe.data.tokens, tuple(prompts), kind)


def waiting(model: Any, home: Path) -> Session | None:
    """A training of this model that was not finished."""
    from medusa_core.train.work import unfinished

    return unfinished(home, model.backbone.spec)


def measuring(model: Any, session: Session, recipe: Recipe) -> Job:
    """Try how fast it goes; the value is an Estimate. What is written meanwhile counts."""

    def measure() -> Generator[Progress, None, object]:
        from medusa_core.train.estimate import estimate
        from medusa_core.train.work import noting

        made = recipe.of(session.tokens, session.kind)
        with noting(session.work):
            return (
                yield from estimate(model.backbone, model.text, session.work, made.data, made.train, session.prompts)
            )

    return stoppable(measure)


def training(model: Any, home: Path, session: Session, recipe: Recipe) -> Job:
    """Train, or go on with it, also where only the measuring is left; the value is Trained."""

    def train() -> Generator[Event, None, Trained]:
        from medusa_core.train.placing import place
        from medusa_core.train.room import check_writable
        from medusa_core.train.work import NEW_HEADS, begin, end, noting

        check_writable(home / "heads")
        with noting(session.work):
            begun = begin(session)
            checkpoint = yield from _heads(model, begun, recipe.of(session.tokens, session.kind))
            begin(replace(begun, trained=True))
            report = yield from _measured(model, home, checkpoint)
            placed = place(session.work / NEW_HEADS, home / "heads", model.backbone.spec, session.kind)
            end(session.work)
        return _trained(placed, report)

    return stoppable(train)


def _heads(model: Any, session: Session, recipe: Recipe) -> Generator[Event, None, HeadsCheckpoint]:
    """New heads in the session's folder; those that are there already where it is trained."""
    from medusa_core.heads.checkpoint import load_heads
    from medusa_core.train.medusa1 import train_heads
    from medusa_core.train.work import NEW_HEADS

    new = session.work / NEW_HEADS
    if session.trained:
        return load_heads(new, model.backbone)
    return (
        yield from train_heads(
            model.backbone,
            model.text,
            new,
            session.work,
            recipe.data,
            recipe.train,
            session.prompts,
            precision=model.info.dtype,
        )
    )


def _measured(model: Any, home: Path, checkpoint: HeadsCheckpoint) -> Generator[Progress, None, HeadsReport]:
    """What heads bring here: passes of the model on this machine are timed."""
    from medusa_core.calibrate.report import make_report
    from medusa_core.heads.cost import heads_costs

    cost = yield from heads_costs(model.backbone, checkpoint.heads, model.info.dtype, home / "costs")
    if checkpoint.statistics is None:
        raise ValueError("heads are measured when they are trained")
    return make_report(checkpoint.statistics, checkpoint.tree, cost, CalibrateConfig().context)


def _trained(placed: Placed, report: HeadsReport) -> Trained:
    best, plain = report.speeds[report.best_draft_nodes], report.speeds[0]
    heads = tuple(HeadFit(top[0], top[:5][-1]) for top in report.top)
    return Trained(placed, heads, best.tokens, best.draft_nodes, best.tokens_per_second / plain.tokens_per_second)


# The data of trainings, on a worker of its own


def weighing(work: Path, *, running: bool) -> Job:
    """What cancelling a training would take away; the value is Written."""

    def weigh() -> Generator[Progress, None, Written]:
        yield Progress("Looking at what was written", 0, 0)
        from medusa_core.train.work import written

        return written(work, running=running)

    return stoppable(weigh)


def cancelling(work: Path) -> Job:
    """Take away what a training wrote itself; the value is Written."""

    def drop() -> Generator[Progress, None, Written]:
        yield Progress("Deleting what was written", 0, 0)
        from medusa_core.train.work import cancel

        return cancel(work)

    return stoppable(drop)


def looking(home: Path) -> Job:
    """The training data on this computer; the value is a list of KeptData."""

    def look() -> Generator[Progress, None, list[KeptData]]:
        yield Progress("Looking for training data", 0, 0)
        from medusa_core.train.kept import kept_data

        return kept_data(home)

    return stoppable(look)


def deleting(folders: Sequence[Path]) -> Job:
    """Take training data off the disk; the value is the bytes that became free."""

    def delete() -> Generator[Progress, None, int]:
        from medusa_core.train.kept import discard

        freed = 0
        for number, folder in enumerate(folders):
            yield Progress("Deleting training data", number, len(folders))
            freed += discard(folder)
        return freed

    return stoppable(delete)
