"""The model and the settings: one method per intent, and one per report of the worker.

What concerns replies goes to their own controller, and so does what concerns conversations. Knows nothing of widgets'
insides and paints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from app.conversation_controller import ConversationController
from app.conversations import ConversationStore, Transcript, Turn
from app.jobs import ChatModel, Opener, drafting_reason, loading, model_words
from app.json_file import JsonFile
from app.reply_controller import ReplyController
from app.saving import Saving
from app.screen import Views
from app.settings import Settings
from app.throttle import Throttle
from app.views.composer import ComposerState
from app.views.figures_line import grouped
from app.views.notices import Notice, Topic, Way
from app.views.status_line import SEPARATOR
from app.worker import Failure, Job, Worker
from medusa_core.config import ModelConfig
from medusa_core.errors import ConfigError
from medusa_core.events import Progress

_SAVE_AFTER_MS = 400
_WITHOUT_MODEL = (
    "Get one from the Hub, or bring in a model’s folder or a .gguf file that you have. "
    "A recorded reply can be explored without any model."
)


class Phase(Enum):
    """What the app is about."""

    IDLE = auto()  # no model; loading failed, was cancelled, or has not begun
    LOADING = auto()
    READY = auto()
    REPLYING = auto()
    ASIDE = auto()  # the model runs for something beside the conversation


class Controller(QObject):
    """The straight line from an intent to a job, and from an event to the views."""

    phase_changed = Signal(object)  # Phase
    settings_changed = Signal()
    aside_events = Signal(list)  # what a job beside the conversation yielded
    aside_ended = Signal(object)  # its return value, or its Failure
    calibration_asked = Signal()  # of the heads in use

    def __init__(
        self, views: Views, worker: Worker, opener: Opener, cache: Path, file: JsonFile, store: ConversationStore
    ) -> None:
        super().__init__()
        self._views, self._worker, self._opener, self._cache, self._file = views, worker, opener, cache, file
        self.settings = Settings()
        self.phase = Phase.IDLE
        self._model: ChatModel | None = None
        self._loaded_as: ModelConfig | None = None
        self._reload_after_reply = False
        self._aside_reason = ""
        self._throttle = Throttle(worker.mailbox, self)
        transcript = Transcript(store)
        self.saving = Saving(transcript, views.notices)
        self.replies = ReplyController(views, worker, self._throttle, transcript, self.saving)
        self.conversations = ConversationController(views, transcript, self.replies, self.saving)
        self.replies.began.connect(self._reply_began)
        self.replies.facts_changed.connect(self._show_facts)
        self._throttle.batch.connect(self.take_batch)
        self._save_timer = QTimer(self)
        self._save_timer.setSingleShot(True)
        self._save_timer.setInterval(_SAVE_AFTER_MS)
        self._save_timer.timeout.connect(self.save_settings)
        worker.waiting.connect(self._throttle.wake)
        worker.failed.connect(self.take_failure)
        worker.finished.connect(self.take_result)

    # Intents: the model

    def load(self) -> None:
        """Load the model the settings name, in place of the one there is."""
        if self.phase is Phase.LOADING:
            return
        if self.phase in (Phase.REPLYING, Phase.ASIDE):
            self._reload_after_reply = True
            self._worker.stop()
            return
        config = self.settings.model()
        for topic in (Topic.MODEL, Topic.HEADS):
            self._views.notices.settle(topic)
        self._model = None  # its memory is needed for the next one
        self._loaded_as = config
        self._set_phase(Phase.LOADING)
        self._views.window.show_work("Loading the model", 0, 0)
        self._worker.run(loading(self._opener, config, self._cache))

    def stop(self) -> None:
        """End the reply within one step, or cancel loading."""
        if self.phase in (Phase.REPLYING, Phase.LOADING, Phase.ASIDE):
            self._worker.stop()

    @property
    def model(self) -> ChatModel | None:
        """The loaded model."""
        return self._model

    @property
    def loaded_as(self) -> ModelConfig | None:
        """What the model was loaded as, or is being loaded as."""
        return self._loaded_as

    def run_aside(self, job: Job, reason: str) -> bool:
        """Run a job of the model beside the conversation; `aside_ended` tells its end. False where it cannot be now.

        `reason`: why nothing can be sent meanwhile.
        """
        if self.phase is not Phase.READY:
            return False
        self._aside_reason = reason
        self._set_phase(Phase.ASIDE)
        self._worker.run(job)
        return True

    # Intents: the conversation and the panel

    @property
    def turns(self) -> list[Turn]:
        """What is shown of the open conversation."""
        return self.replies.transcript.turns

    def send(self, question: str) -> None:
        """Ask; the reply is decoded with the settings of this moment."""
        self.replies.send(question)

    def new_chat(self) -> None:
        """An empty conversation; a reply under way is stopped."""
        self.conversations.new_chat()

    def steer(self, reply_index: int, token_ids: Sequence[int]) -> None:
        """Have the reply of that turn begin with exactly these tokens and go on from there, as a new variant."""
        self.replies.steer(reply_index, token_ids)

    def toggle_slow(self, slow: bool) -> None:
        """Decode at about four steps a second, or at full speed."""
        self._worker.set_slow(slow)

    # Intents: the settings

    def use_settings(self, settings: Settings, problem: str = "") -> None:
        """Start with these; `problem` says what was wrong with their file."""
        self.settings = settings
        if problem:
            self._views.notices.tell(Notice(Topic.SETTINGS, problem, is_error=False))
        self._settings_changed()

    def open_settings(self) -> None:
        """Show the settings dialog."""
        self._settings_changed()
        self._views.dialog.show()
        self._views.dialog.raise_()
        self._views.dialog.activateWindow()

    def change_setting(self, key: str, value: object) -> None:
        """Change one option; what concerns decoding applies from the next message on."""
        try:
            self.settings = self.settings.with_value(key, value)
        except ConfigError as error:
            self._views.notices.tell(Notice(Topic.SETTINGS, str(error)))
            return
        self._save_timer.start()
        self._settings_changed()

    def choose_acceptance(self, value: str) -> None:
        """The quick switch of the toolbar."""
        self.change_setting("acceptance", value)

    def restore_defaults(self) -> None:
        """Every option back to its default; what the person wrote stays."""
        self.settings = self.settings.restored()
        self._save_timer.start()
        self._settings_changed()

    def save_settings(self) -> None:
        """Write the settings to their file now."""
        self._save_timer.stop()
        try:
            self._file.write(self.settings.values)
        except OSError as error:
            text = f"The settings could not be saved in {self._file.path.parent}: {error.strerror or error}."
            self._views.notices.tell(Notice(Topic.SETTINGS, text))

    def _settings_changed(self) -> None:
        self.replies.settings = self.settings
        pending = self._loaded_as is not None and self.settings.model() != self._loaded_as
        self._views.dialog.show_settings(self.settings, reload_pending=pending and self.phase is not Phase.LOADING)
        self._views.window.show_acceptance(self.settings["acceptance"])
        if self._model is not None:
            self._views.panel.set_reason(drafting_reason(self._model.info, self.settings["drafter"]))
        self._show_facts()
        self.settings_changed.emit()

    def take_way(self, way: Way) -> None:
        """A way on that a notice offered."""
        {
            Way.LOAD_AGAIN: self.load,
            Way.ASK_AGAIN: self.replies.ask_again,
            Way.NEW_CHAT: self.new_chat,
            Way.OPEN_SETTINGS: self.open_settings,
            Way.SAVE_AGAIN: self.saving.try_again,
            Way.OPEN_FOLDER: self.open_folder,
            Way.CALIBRATE: self.calibration_asked.emit,
        }[way]()

    def open_folder(self) -> None:
        """Show the folder of the settings, the conversations and the crash logs in the desktop's file manager."""
        folder = self._file.path.parent
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
            self._views.notices.tell(Notice(Topic.FILES, f"Here is no file manager to open {folder} with."))

    # Reports

    def take_batch(self, events: list[object]) -> None:
        """What the running job yielded since the last batch."""
        if self.phase is Phase.LOADING:
            for event in events:
                if isinstance(event, Progress):
                    self._views.window.show_work(event.stage, event.done, event.total)
        elif self.phase is Phase.REPLYING:
            self.replies.take_events(events)
        elif self.phase is Phase.ASIDE:
            self.aside_events.emit(events)

    def take_result(self, result: object) -> None:
        """The running job has ended as it should."""
        self._throttle.flush()
        aside = self.phase is Phase.ASIDE
        if self.phase is Phase.LOADING:
            self._take_model(result)
        self._after_job()
        if aside:
            self.aside_ended.emit(result)

    def _take_model(self, model: Any) -> None:
        """The opener's return value, or None where loading was cancelled."""
        self._model = model
        ways = (Way.LOAD_AGAIN, Way.OPEN_SETTINGS)
        if model is None:
            self._loaded_as = None
            self._views.notices.tell(Notice(Topic.MODEL, "Loading was cancelled.", ways=ways, is_error=False))
        elif model.info.heads_problem:
            self._views.notices.tell(Notice(Topic.HEADS, model.info.heads_problem, ways=ways[::-1], is_error=False))

    def take_failure(self, failure: Failure) -> None:
        """The running job has broken off."""
        self._throttle.flush()
        if self.phase is Phase.LOADING:
            self._loaded_as = None
            ways = (Way.LOAD_AGAIN, Way.OPEN_SETTINGS)
            self._views.notices.tell(Notice(Topic.MODEL, failure.message, failure.details, ways))
        elif self.phase is Phase.REPLYING:
            self.replies.take_failure(failure)
        aside = self.phase is Phase.ASIDE
        self._after_job()
        if aside:
            self.aside_ended.emit(failure)

    def _after_job(self) -> None:
        if self.phase is Phase.REPLYING:
            self.replies.end()
        self._set_phase(Phase.READY if self._model is not None else Phase.IDLE)
        if self._reload_after_reply:
            self._reload_after_reply = False
            self.load()

    # What the views say about it

    def _reply_began(self) -> None:
        self._set_phase(Phase.REPLYING)

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self.replies.model, self.replies.can_ask = self._model, phase is Phase.READY
        self._views.chat.set_usable(phase is not Phase.REPLYING, can_ask=phase is Phase.READY)
        state, reason = {
            Phase.IDLE: (ComposerState.WAITING, "Nothing can be sent until a model is loaded."),
            Phase.LOADING: (ComposerState.WAITING, "The model is being loaded; you can already type."),
            Phase.READY: (ComposerState.READY, ""),
            Phase.REPLYING: (ComposerState.REPLYING, ""),
            Phase.ASIDE: (ComposerState.REPLYING, self._aside_reason),
        }[phase]
        self._views.composer.set_state(state, reason)
        self._show_hint()
        self._settings_changed()
        self.phase_changed.emit(phase)

    def _show_hint(self) -> None:
        if self._model is not None:
            self._views.chat.set_hint(
                "What would you like to know?",
                f"{self._model.info.name} runs on this computer; nothing you write leaves it.",
                suggest=True,
            )
        elif self.phase is Phase.LOADING:
            self._views.chat.set_hint(
                "One moment", "The model is being loaded. The first time takes longer.", suggest=False
            )
        else:
            self._views.chat.set_hint("No model is loaded", _WITHOUT_MODEL, suggest=False, without_model=True)

    def _show_facts(self) -> None:
        if self.phase is Phase.LOADING:
            return  # the line says what is being done
        if self._model is None:
            self._views.window.show_facts("No model is loaded", "")
            return
        info = self._model.info
        used = f"Context {grouped(self.replies.context_tokens)} of {grouped(info.context_size)} tokens"
        reason = drafting_reason(info, self.settings["drafter"]) or info.heads_problem
        reason = reason or self.replies.step_note or info.heads_note
        self._views.window.show_facts(SEPARATOR.join(model_words(info)), used, reason)
