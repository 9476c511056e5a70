"""What is said of a training and of its data. Knows nothing of widgets or of how either comes about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from app import durations
from app.memory import in_words
from app.training_jobs import Trained
from app.views.figures_line import grouped
from app.views.training_data import DataRow
from medusa_core.events import Progress, TrainingStep

if TYPE_CHECKING:
    from medusa_core.train.estimate import Estimate
    from medusa_core.train.kept import KeptData
    from medusa_core.train.placing import Placed
    from medusa_core.train.work import Session, Written

_MEASURING = "Measuring the heads and fitting their tree"
_SEPARATOR = "  ·  "
_MEGABYTE = 1_000_000


def progress_words(event: Progress, rate: float) -> str:
    """How far the writing of replies is."""
    if event.unit != "tokens":
        return event.stage
    parts = [event.stage, f"{grouped(round(event.done))} of {grouped(round(event.total))} tokens"]
    if rate > 0:
        parts += [f"{grouped(round(rate))} tokens/s", f"{durations.in_words((event.total - event.done) / rate)} left"]
    return _SEPARATOR.join(parts)


def step_words(event: TrainingStep, rate: float) -> str:
    """How far the learning is."""
    if event.step >= event.total_steps:
        return _MEASURING
    parts = [f"Learning: step {grouped(event.step)} of {grouped(event.total_steps)}"]
    if rate > 0:
        parts.append(f"{durations.in_words((event.total_steps - event.step) / rate)} left")
    return _SEPARATOR.join(parts)


def takes_words(estimate: Estimate, tokens: int) -> str:
    """What a budget takes."""
    return f"about {durations.in_words(estimate.seconds(tokens))}, {in_words(estimate.disk_bytes(tokens))} on the disk"


def paused_words(session: Session | None) -> str:
    """What is waiting to be gone on with."""
    if session is None:
        return ""
    own = f", {grouped(len(session.prompts))} of your own questions among them" if session.prompts else ""
    kind = " of the paper’s heads" if session.kind == "medusa" else ""
    return f"A training{kind} on {grouped(session.tokens)} tokens of replies is paused{own}. Nothing of it is lost."


def outcome_words(trained: Trained) -> str:
    """What the new heads bring, here and beside those that were there before."""
    shares = ", ".join(f"{100 * fit.top1:.0f} %" for fit in trained.heads)
    said = f"First guesses that are right, from the next token on: {shares}."
    if trained.draft_nodes:
        said += (
            f" Expected with these heads alone: {trained.tokens_per_step:.2f} tokens a step with "
            f"{trained.draft_nodes} guesses, {trained.speed_up:.2f} times the speed of plain decoding."
        )
    else:
        said += " On this computer plain decoding is as fast as any tree of these heads alone."
    return "\n\n".join(filter(None, (said, _beside_words(trained.placed))))


def _beside_words(placed: Placed) -> str:
    """How they compare with the heads that were trained before, and what became of those."""
    if placed.before is None:
        return ""
    both = f"{placed.tokens:.2f} tokens a step against {placed.tokens_before:.2f}, with {placed.draft_nodes} guesses"
    if placed.replaced:
        return f"They take the place of the heads trained before: {both}."
    if placed.draft_nodes:
        return (
            f"They guess worse than the heads trained before: {both}. Both are kept; the new ones are called "
            f"{placed.folder.name}."
        )
    return (
        "There is no figure of the heads trained before to compare them with. Both are kept; the new ones are called "
        f"{placed.folder.name}."
    )


def question_words(written: Written) -> str:
    """Whether what a training wrote is to go."""
    what = f"{grouped(written.tokens)} tokens, {size_words(written.size)}"
    stays = " Replies that others wrote, or learn from, stay." if written.others else ""
    return f"Delete what this training wrote ({what})?{stays}"


def cancelled_words(written: Written) -> str:
    """What went with a training that was cancelled."""
    stays = " Replies that others wrote, or learn from, stayed: see the training data below." if written.others else ""
    return f"The training was cancelled, and what it had written is deleted.{stays}"


def data_line(found: Sequence[KeptData]) -> str:
    """All training data in one line; "" where there is none."""
    if not found:
        return ""
    models = len({data.model for data in found})
    of = "1 model" if models == 1 else f"{models} models"
    return f"Training data of {of} on this computer: {size_words(sum(data.size for data in found))}"


def data_row(data: KeptData) -> DataRow:
    """One folder of training data in the list."""
    day = datetime.fromtimestamp(data.changed).astimezone()
    facts = [
        f"{grouped(data.tokens)} tokens of replies",
        size_words(data.size),
        f"{day.day} {day:%b %Y}",
        "only for measuring heads" if data.measuring else "",
        "answers to your own questions" if data.own else "",
        "of a training that is paused" if data.paused else "",
    ]
    lost = " The training that is paused cannot be gone on with then." if data.paused else ""
    question = f"Delete these replies, which frees {size_words(data.size)}? Heads that learned from them stay.{lost}"
    return DataRow(str(data.folder), data.model, _SEPARATOR.join(filter(None, facts)), question)


def all_words(found: Sequence[KeptData]) -> str:
    """Whether all training data is to go."""
    size = size_words(sum(data.size for data in found))
    paused = sum(data.paused for data in found)
    lost = f" {paused} of the trainings {'is' if paused == 1 else 'are'} paused and will be lost." if paused else ""
    return f"Delete all training data, which frees {size}? Heads that learned from it stay.{lost}"


def size_words(size: int) -> str:
    """Room on the disk."""
    return in_words(size) if size >= _MEGABYTE else "less than 1 MB"
