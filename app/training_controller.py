"""Training heads in the app: what a person wants of it, and what the model's worker reports.

The training runs where replies are decoded, so the chat rests until it is paused; it is kept on the disk and can be
gone on with after a restart. Knows nothing of widgets' insides or of how heads are trained.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app import durations
from app.controller import Controller, Phase
from app.conversations import ConversationStore
from app.memory import in_words
from app.theme import Theme
from app.training_jobs import Recipe, Trained, measuring, own_prompts, session_of, training, waiting, why_not
from app.views.figures_line import grouped
from app.views.training import Budget, Stage, TrainingDialog
from app.worker import Failure
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.events import Progress, TrainingStep
from medusa_core.train.pace import Pace

if TYPE_CHECKING:
    from medusa_core.train.estimate import Estimate
    from medusa_core.train.work import Session

BUDGETS = (50_000, 100_000, 200_000, 400_000, 1_000_000, 1_500_000)
_BUSY = "The model is busy. Wait for the end of the reply, or stop it."
_REASON = "Heads are being trained: pause the training to chat."
_MEASURING = "Measuring the heads and fitting their tree"
_SEPARATOR = "  ·  "


class TrainingController(QObject):
    """One method per intent, and one per report."""

    def __init__(
        self, window: QWidget, controller: Controller, store: ConversationStore, home: Path, theme: Theme
    ) -> None:
        """`home` keeps what trainings need, and the heads they make."""
        super().__init__()
        self._window, self._controller, self._store, self._home = window, controller, store, home
        self._theme = theme
        self.dialog: TrainingDialog | None = None
        self.recipe, self.budgets = Recipe(DistillConfig(), TrainConfig()), BUDGETS
        self.stage = Stage.UNAVAILABLE
        self.trained: Trained | None = None
        self._session: Session | None = None
        self._estimate: Estimate | None = None
        # The model that all of this is about. Not held: its memory is needed for the next one.
        self._seen: Callable[[], Any] = _nothing
        self._name = ""
        self._cancelling = False
        self._problem = ""
        self._pace = Pace()
        controller.phase_changed.connect(self._take_phase)
        controller.aside_events.connect(self._take_events)
        controller.aside_ended.connect(self._take_end)

    # Intents

    def open(self) -> None:
        """Show the dialog."""
        if self.dialog is None:
            self.dialog = TrainingDialog(self._theme, self._window)
            self._connect(self.dialog)
            self._show_budgets()
        self._look()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def _connect(self, dialog: TrainingDialog) -> None:
        dialog.probe_asked.connect(self.probe)
        dialog.kind_chosen.connect(self.forget_estimate)
        dialog.start_asked.connect(self.start)
        dialog.pause_asked.connect(self.pause)
        dialog.resume_asked.connect(self.resume)
        dialog.cancel_asked.connect(self.cancel)
        dialog.use_asked.connect(self.use)
        dialog.again_asked.connect(self.begin_anew)
        dialog.deletion_asked.connect(self.delete_data)

    def probe(self) -> None:
        """Try how long it takes; what is written meanwhile counts."""
        session = self._chosen()
        if session is not None and self._run(measuring(self._controller.model, session, self.recipe)):
            self._turn(Stage.PROBING)

    def forget_estimate(self) -> None:
        """Other heads take another time."""
        self._estimate = None
        self._show_budgets()

    def start(self) -> None:
        """Train with the chosen budget."""
        self._session = self._chosen()
        if self.dialog is not None:
            self.dialog.clear_charts()
        self.resume()

    def resume(self) -> None:
        """Go on with the training."""
        session = self._session
        if session is not None and self._run(training(self._controller.model, self._home, session, self.recipe)):
            self._turn(Stage.RUNNING)

    def pause(self) -> None:
        """Stop for now; nothing is lost."""
        if self.stage in (Stage.PROBING, Stage.RUNNING):
            self._controller.stop()
            if self.dialog is not None:
                self.dialog.show_pausing()

    def cancel(self) -> None:
        """Stop, and forget what was written and learned."""
        if self.stage is Stage.RUNNING:
            self._cancelling = True
            self.pause()
        elif self.stage is Stage.PAUSED:
            self._discard()

    def use(self) -> None:
        """Load the model with the new heads."""
        if self.trained is not None:
            self._controller.change_setting("heads", str(self.trained.folder))
            self._controller.load()

    def begin_anew(self) -> None:
        """Back to the choice of a budget."""
        self.trained = None
        self._turn(Stage.SETUP)

    def delete_data(self) -> None:
        """Give the room of the replies back; the heads stay."""
        from medusa_core.train.work import discard

        if self.trained is not None:
            freed = discard(self.trained.work)
            self._turn(Stage.DONE, f"{outcome_words(self.trained)}\n\n{in_words(freed)} of training data deleted.")
            if self.dialog is not None:
                self.dialog.buttons["delete"].hide()

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        if self.dialog is not None:
            self.dialog.set_theme(theme)

    def close(self) -> None:
        """The app ends."""
        if self.dialog is not None:
            self.dialog.close()

    # Reports

    def _take_phase(self, phase: object) -> None:
        if phase is not Phase.ASIDE and self.stage not in (Stage.PROBING, Stage.RUNNING):
            self._look()

    def _take_events(self, events: list[object]) -> None:
        if self.dialog is None or self.stage not in (Stage.PROBING, Stage.RUNNING):
            return
        for event in events:
            if isinstance(event, TrainingStep):
                rate = self._pace.rate("steps", event.step)
                self.dialog.show_step(event)
                self.dialog.show_progress(step_words(event, rate), event.step / event.total_steps)
            elif isinstance(event, Progress):
                rate = 0.0 if self.stage is Stage.PROBING else self._pace.rate(event.unit, event.done)
                self.dialog.show_progress(
                    progress_words(event, rate), event.done / event.total if event.total else None
                )

    def _take_end(self, result: object) -> None:
        if self.stage not in (Stage.PROBING, Stage.RUNNING):
            return  # another job's
        before, self.stage = self.stage, Stage.PAUSED
        problem = result.message if isinstance(result, Failure) else ""
        if isinstance(result, Trained):
            self.trained, self._session = result, None
            self._turn(Stage.DONE, outcome_words(result))
        elif before is Stage.RUNNING and self._cancelling:
            self._discard()
        elif before is Stage.RUNNING:
            self._turn(Stage.PAUSED, paused_words(self._session), problem)
        else:
            if not problem and hasattr(result, "tokens_per_second"):
                self._take_estimate(result)
            self._turn(Stage.SETUP, problem=problem)
        self._cancelling = False

    def _take_estimate(self, estimate: Any) -> None:
        self._estimate = estimate
        self._show_budgets()

    # What the dialog shows

    def _look(self) -> None:
        """Begin with what there is for the model that is loaded now."""
        model, phase = self._controller.model, self._controller.phase
        if model is not self._seen() and phase is not Phase.LOADING:
            if self.trained is None or model is None or model.info.name != self._model_name():
                self._session, self.trained, self._problem = None, None, ""
            self._seen, self._estimate = _nothing if model is None else weakref.ref(model), None
            self._name = "" if model is None else str(model.info.name)
            self._show_budgets()
        if self.dialog is None or self.stage in (Stage.PROBING, Stage.RUNNING):
            return
        reason = "" if self._problem else why_not(model)
        if reason or model is None:
            self._turn(Stage.UNAVAILABLE, reason if phase is not Phase.LOADING else "The model is being loaded.")
            return
        if self._session is None and self.trained is None:
            self._session = waiting(model, self._home)
        if self.trained is not None:
            self._turn(Stage.DONE, outcome_words(self.trained))
        elif self._session is not None:
            self._turn(Stage.PAUSED, paused_words(self._session), self._problem)
        else:
            self._turn(Stage.SETUP, problem=self._problem)

    def _model_name(self) -> str:
        return self._name

    def _turn(self, stage: Stage, said: str = "", problem: str = "") -> None:
        self.stage, self._problem = stage, problem
        if self.dialog is not None:
            model = self._controller.model
            self.dialog.show_stage(stage, "" if model is None else model.info.name, said, problem)

    def _show_budgets(self) -> None:
        if self.dialog is None:
            return
        found = self._estimate
        budgets = [Budget(tokens, "" if found is None else takes_words(found, tokens)) for tokens in self.budgets]
        self.dialog.show_budgets(budgets, self.dialog.tokens or self.recipe.data.tokens)

    # Work

    def _chosen(self) -> Session | None:
        """The training that the dialog describes."""
        model = self._controller.model
        if self.dialog is None or why_not(model):
            return None
        prompts = own_prompts(self._store) if self.dialog.own.isChecked() else []
        recipe = self.recipe.of(self.dialog.tokens, self.dialog.kind)
        return session_of(model, self._home, recipe, prompts, self.dialog.kind)

    def _run(self, job: Any) -> bool:
        self._pace, self._cancelling = Pace(), False
        if self._controller.run_aside(job, _REASON):
            return True
        if self.dialog is not None:
            self.dialog.show_stage(self.stage, self._model_name(), self.dialog.said.text(), _BUSY)
        return False

    def _discard(self) -> None:
        from medusa_core.train.work import discard

        if self._session is not None:
            discard(self._session.work)
        self._session = None
        if self.dialog is not None:
            self.dialog.clear_charts()
        self._turn(Stage.SETUP, "The training was cancelled, and what it had written is deleted.")


def _nothing() -> None:
    """No model was seen yet."""


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
    """What the new heads bring."""
    shares = ", ".join(f"{100 * fit.top1:.0f} %" for fit in trained.heads)
    right = f"First guesses that are right, from the next token on: {shares}."
    if not trained.draft_nodes:
        return f"{right} On this computer plain decoding is as fast as any tree of these heads alone."
    return (
        f"{right} Expected with these heads alone: {trained.tokens_per_step:.2f} tokens a step with "
        f"{trained.draft_nodes} guesses, {trained.speed_up:.2f} times the speed of plain decoding."
    )
