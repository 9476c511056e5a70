"""Training heads in the app: what a person wants of it, and what the model's worker reports.

The training runs where replies are decoded, so the chat rests until it is paused; it is kept on the disk and can be
gone on with after a restart. Knows nothing of widgets' insides or of how heads are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.controller import Controller, Phase
from app.conversations import ConversationStore
from app.own_questions import OwnQuestions
from app.theme import Theme
from app.training_data import TrainingData
from app.training_jobs import Recipe, Trained, measuring, session_of, training, waiting, why_not
from app.training_words import (
    all_words,
    cancelled_words,
    data_line,
    data_row,
    outcome_words,
    paused_words,
    progress_words,
    question_words,
    step_words,
    takes_words,
)
from app.views.training import Budget, Stage, TrainingDialog
from app.worker import Failure
from medusa_core.config import DistillConfig, TrainConfig
from medusa_core.events import Progress, TrainingStep
from medusa_core.prompt_file import FilePrompt
from medusa_core.train.pace import Pace

if TYPE_CHECKING:
    from medusa_core.train.estimate import Estimate
    from medusa_core.train.work import Session

BUDGETS = (50_000, 100_000, 200_000, 400_000, 1_000_000, 1_500_000)
_BUSY = "The model is busy. Wait for the end of the reply, or stop it."
_REASON = "Heads are being trained: pause the training to chat."
_DELETING = "Deleting what the training wrote"


class TrainingController(QObject):
    """One method per intent, and one per report."""

    calibration_asked = Signal()  # of the heads in use

    def __init__(
        self, window: QWidget, controller: Controller, store: ConversationStore, home: Path, theme: Theme
    ) -> None:
        """`home` keeps what trainings need, and the heads they make."""
        super().__init__()
        self._window, self._controller, self._home = window, controller, home
        self._theme = theme
        self.dialog: TrainingDialog | None = None
        self.recipe, self.budgets = Recipe(DistillConfig(), TrainConfig()), BUDGETS
        self.stage = Stage.UNAVAILABLE
        self.trained: Trained | None = None
        self.data = TrainingData(home)
        self._session: Session | None = None
        self._estimate: Estimate | None = None
        # The model that all of this is about; not held, its memory is needed for the next one.
        self._model: Callable[[], object] = lambda: None
        self._model_name = ""
        self._cancelling = self._deleting = False
        self._problem, self._calibration = "", ""
        self._pace = Pace()
        self._own = OwnQuestions(store)
        self._wanted = Stage.SETUP  # once the person's own questions are there
        self._own.gathered.connect(self._take_own)
        self.data.looked.connect(self._show_data)
        self.data.deleted.connect(self._take_deleted)
        self.data.weighed.connect(self._take_weight)
        self.data.cancelled.connect(self._take_cancelled)
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
            self.dialog.show_calibration(self._calibration)
        self._look()
        self.data.look()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def _connect(self, dialog: TrainingDialog) -> None:
        dialog.probe_asked.connect(self.probe)
        dialog.kind_chosen.connect(self.forget_estimate)
        dialog.start_asked.connect(self.start)
        dialog.pause_asked.connect(self.pause)
        dialog.resume_asked.connect(self.resume)
        dialog.cancel_asked.connect(self.ask_whether_to_cancel)
        dialog.cancel_agreed.connect(self.cancel)
        dialog.use_asked.connect(self.use)
        dialog.again_asked.connect(self.begin_anew)
        dialog.calibration_asked.connect(self.calibration_asked)
        dialog.data.deletion_asked.connect(self.delete_data)

    def probe(self) -> None:
        """Try how long it takes; what is written meanwhile counts."""
        self._prepare(Stage.PROBING)

    def forget_estimate(self) -> None:
        """Other heads take another time."""
        self._estimate = None
        self._show_budgets()

    def start(self) -> None:
        """Train with the chosen budget."""
        self._prepare(Stage.RUNNING)

    def _prepare(self, stage: Stage) -> None:
        """Gather the person's own questions first, where they are to be learned from."""
        if self.dialog is None:
            return
        if self.dialog.own.isChecked():
            self._wanted = stage
            self.dialog.show_waiting()
            self._own.gather()
        else:
            self._begin(stage, [])

    def _take_own(self, prompts: list[FilePrompt]) -> None:
        if self.stage is Stage.SETUP:
            self._turn(Stage.SETUP)
            self._begin(self._wanted, prompts)

    def _begin(self, stage: Stage, prompts: Sequence[FilePrompt]) -> None:
        session = self._chosen(prompts)
        if session is None or self.dialog is None:
            return
        if stage is Stage.PROBING:
            if self._run(measuring(self._controller.model, session, self.recipe)):
                self._turn(Stage.PROBING)
        else:
            self._session = session
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
                self.dialog.show_waiting()

    def ask_whether_to_cancel(self) -> None:
        """Say what cancelling would delete; the training goes on meanwhile."""
        if self._session is not None and self.stage in (Stage.RUNNING, Stage.PAUSED):
            self.data.weigh(self._session.work, running=self.stage is Stage.RUNNING)

    def cancel(self) -> None:
        """Stop, and delete what the training wrote itself."""
        if self.stage is Stage.RUNNING:
            self._cancelling = True
            self.pause()
        elif self.stage is Stage.PAUSED:
            self._discard()

    def use(self) -> None:
        """Load the model with the new heads."""
        if self.trained is not None:
            self._controller.change_setting("heads", str(self.trained.placed.folder))
            self._controller.load()

    def begin_anew(self) -> None:
        """Back to the choice of a budget."""
        self.trained = None
        self._turn(Stage.SETUP)

    def delete_data(self, keys: list[str]) -> None:
        """Give the room of replies back; heads stay."""
        self.data.delete([data.folder for data in self.data.found if str(data.folder) in keys])

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        if self.dialog is not None:
            self.dialog.set_theme(theme)

    def close(self, seconds: float) -> bool:
        """The app ends; False where something on the disk does not end in time."""
        self._own.stop()
        if self.dialog is not None:
            self.dialog.close()
        return self.data.close(seconds)

    # Reports

    def show_calibration(self, note: str) -> None:
        """What to know of the heads in use where calibrating them would mend it, else ""."""
        self._calibration = note
        if self.dialog is not None:
            self.dialog.show_calibration(note)

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

    def _take_end(self, result: Any) -> None:
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
                self._estimate = result
                self._show_budgets()
            self._turn(Stage.SETUP, problem=problem)
        self._cancelling = False
        self.data.look()

    def _take_weight(self, written: Any) -> None:
        if self.dialog is not None and self.stage in (Stage.RUNNING, Stage.PAUSED) and not self._deleting:
            self.dialog.question.ask(question_words(written))

    def _take_cancelled(self, result: Any) -> None:
        self._deleting = False
        if isinstance(result, Failure):
            self._turn(Stage.PAUSED, paused_words(self._session), result.message)
            return
        self._session = None
        if self.dialog is not None:
            self.dialog.clear_charts()
        self._turn(Stage.SETUP, cancelled_words(result))
        self._look(keep=True)

    def _take_deleted(self, result: Any) -> None:
        if isinstance(result, Failure) and self.dialog is not None:
            self.dialog.data.show_problem(result.message)
        if self._session is not None and not self._session.work.exists() and self.stage is Stage.PAUSED:
            self._session = None
        self._look(keep=True)

    # What the dialog shows

    def _look(self, *, keep: bool = False) -> None:
        """Begin with what there is for the model that is loaded now. `keep`: what is said of it stays."""
        model, phase = self._controller.model, self._controller.phase
        if model is not self._model() and phase is not Phase.LOADING:
            if self.trained is None or model is None or model.info.name != self._model_name:
                self._session, self.trained, self._problem = None, None, ""
            self._model, self._estimate = (lambda: None) if model is None else ref(model), None
            self._model_name = "" if model is None else model.info.name
            self._show_budgets()
        if self.dialog is None or self._deleting or self.stage in (Stage.PROBING, Stage.RUNNING):
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
            said = self.dialog.said.text() if keep and self.stage is Stage.SETUP else ""
            self._turn(Stage.SETUP, said, self._problem)

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

    def _show_data(self) -> None:
        if self.dialog is not None:
            found = self.data.found
            self.dialog.show_data(data_line(found), [data_row(data) for data in found], all_words(found))

    # Work

    def _chosen(self, prompts: Sequence[FilePrompt]) -> Session | None:
        """The training that the dialog describes."""
        model = self._controller.model
        if self.dialog is None or why_not(model):
            return None
        recipe = self.recipe.of(self.dialog.tokens, self.dialog.kind)
        return session_of(model, self._home, recipe, prompts, self.dialog.kind)

    def _run(self, job: Any) -> bool:
        self._pace, self._cancelling = Pace(), False
        if self._controller.run_aside(job, _REASON):
            return True
        if self.dialog is not None:
            self.dialog.show_stage(self.stage, self._model_name, self.dialog.said.text(), _BUSY)
        return False

    def _discard(self) -> None:
        if self._session is None:
            return
        self._turn(Stage.PAUSED, _DELETING)
        self._deleting = True
        if self.dialog is not None:
            self.dialog.show_waiting()
        self.data.cancel(self._session.work)
