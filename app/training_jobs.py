"""What the model's worker is given to run for new heads: trying how long it takes, and the training itself.

The training is the one of `python -m medusa_core train`. Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.conversations import ConversationStore, Role
from app.worker import Job, stoppable
from medusa_core.config import CalibrateConfig, DistillConfig, HeadsKind, TrainConfig
from medusa_core.events import Event, HeadFit, Progress
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt

if TYPE_CHECKING:
    from medusa_core.train.work import Session

_MOST_PROMPTS = 2000  # of the person's own, the newest


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

    folder: Path
    work: Path  # replies they were trained on
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

        made = recipe.of(session.tokens, session.kind)
        return (yield from estimate(model.backbone, model.text, session.work, made.data, made.train, session.prompts))

    return stoppable(measure)


def training(model: Any, home: Path, session: Session, recipe: Recipe) -> Job:
    """Train, or go on with it; the value is Trained."""

    def train() -> Generator[Event, None, Trained]:
        from medusa_core.train.medusa1 import train_heads
        from medusa_core.train.work import begin, end

        begin(session)
        made, out = recipe.of(session.tokens, session.kind), heads_folder(model, home, session.kind)
        checkpoint = yield from train_heads(
            model.backbone,
            model.text,
            out,
            session.work,
            made.data,
            made.train,
            session.prompts,
            precision=model.info.dtype,
        )
        end(session.work)
        return _measured(model, home, out, session.work, checkpoint)

    return stoppable(train)


def heads_folder(model: Any, home: Path, kind: HeadsKind) -> Path:
    """Where new heads of a kind go: those of one kind do not take the place of the other's."""
    name = model.backbone.spec.name
    return home / "heads" / (f"{name}-paper" if kind == "medusa" else name)


def _measured(model: Any, home: Path, out: Path, work: Path, checkpoint: Any) -> Trained:
    """What the new heads bring here. Seconds, so it is not interrupted: the heads are there already."""
    from medusa_core.calibrate.report import make_report
    from medusa_core.heads.cost import heads_costs

    costs = heads_costs(model.backbone, checkpoint.heads, model.info.dtype, home / "costs")
    while True:
        try:
            next(costs)
        except StopIteration as done:
            cost = done.value
            break
    report = make_report(checkpoint.statistics, checkpoint.tree, cost, CalibrateConfig().context)
    best, plain = report.speeds[report.best_draft_nodes], report.speeds[0]
    heads = tuple(HeadFit(top[0], top[:5][-1]) for top in report.top)
    speed_up = best.tokens_per_second / plain.tokens_per_second
    return Trained(out, work, heads, best.tokens, best.draft_nodes, speed_up)


def own_prompts(store: ConversationStore) -> list[FilePrompt]:
    """What the person asked in the conversations that are in the list, each question with what was said before it."""
    found: list[FilePrompt] = []
    for conversation in store.conversations():
        messages: list[ChatMessage] = []
        for message in store.messages.branch(conversation.id):
            if message.role is Role.USER:
                if message.text.strip():
                    messages.append({"role": "user", "content": message.text})
                    found.append(FilePrompt(tuple(messages)))
            elif message.text.strip():
                messages.append({"role": "assistant", "content": message.text})
        if len(found) >= _MOST_PROMPTS:
            break
    return found[:_MOST_PROMPTS]
