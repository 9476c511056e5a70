"""What people want done, and what comes back: one method per intent, and one per report of the worker.

Intents become jobs of the library; its events go to the views. Knows nothing of widgets' insides and paints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.jobs import (
    ChatModel,
    Opener,
    Turn,
    decoding_words,
    drafting_reason,
    loading,
    messages_of,
    model_words,
    replying,
    rule_name,
)
from app.json_file import JsonFile
from app.settings import Settings
from app.throttle import Throttle
from app.views.chat import Chat
from app.views.composer import Composer, ComposerState
from app.views.message import grouped
from app.views.notices import Notice, NoticeArea, Topic, Way
from app.views.panel import DecodingPanel
from app.views.settings_dialog import SettingsDialog
from app.views.status_line import SEPARATOR
from app.views.window import MainWindow
from app.worker import Failure, Worker
from medusa_core.config import ModelConfig
from medusa_core.errors import ConfigError
from medusa_core.events import Finished, Prefilled, Progress, Step

_SAVE_AFTER_MS = 400


class Phase(Enum):
    """What the app is about."""

    IDLE = auto()  # no model; loading failed, was cancelled, or has not begun
    LOADING = auto()
    READY = auto()
    REPLYING = auto()


@dataclass(frozen=True, slots=True)
class Views:
    """What the controller shows things on."""

    window: MainWindow
    chat: Chat
    composer: Composer
    notices: NoticeArea
    panel: DecodingPanel
    dialog: SettingsDialog


class Controller(QObject):
    """The straight line from an intent to a job, and from an event to the views."""

    phase_changed = Signal(object)  # Phase
    settings_changed = Signal()

    def __init__(self, views: Views, worker: Worker, opener: Opener, cache: Path, file: JsonFile) -> None:
        super().__init__()
        self._views, self._worker, self._opener, self._cache, self._file = views, worker, opener, cache, file
        self.settings = Settings()
        self.phase = Phase.IDLE
        self.turns: list[Turn] = []
        self._model: ChatModel | None = None
        self._loaded_as: ModelConfig | None = None
        self._dropping = False  # the running reply belongs to a conversation that is no longer shown
        self._reload_after_reply = False
        self._shown_turn = -1  # whose steps the panel holds
        self._context_tokens = 0
        self._step_note = ""  # why the newest step drafted nothing
        self._throttle = Throttle(self)
        self._throttle.batch.connect(self.take_batch)
        self._save_timer = QTimer(self)
        self._save_timer.setSingleShot(True)
        self._save_timer.setInterval(_SAVE_AFTER_MS)
        self._save_timer.timeout.connect(self.save_settings)
        worker.event.connect(self._throttle.add)
        worker.failed.connect(self.take_failure)
        worker.finished.connect(self.take_result)

    # Intents: the model

    def load(self) -> None:
        """Load the model the settings name, in place of the one there is."""
        if self.phase is Phase.LOADING:
            return
        if self.phase is Phase.REPLYING:
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
        if self.phase in (Phase.REPLYING, Phase.LOADING):
            self._worker.stop()

    # Intents: the conversation

    def send(self, question: str) -> None:
        """Ask; the reply is decoded with the settings of this moment."""
        if self.phase is not Phase.READY:
            self._views.composer.set_text(question)
            return
        self.turns.append(Turn(question))
        self._views.chat.add_question(question)
        self._ask()

    def ask_again(self) -> None:
        """Try the last question once more, in place of the reply that broke off."""
        if self.phase is Phase.READY and self.turns:
            self._views.chat.drop_reply()
            self.turns[-1] = Turn(self.turns[-1].question)
            self._ask()

    def new_chat(self) -> None:
        """An empty conversation; a reply under way is stopped."""
        if self.phase is Phase.REPLYING:
            self._dropping = True
            self._throttle.clear()
            self._worker.stop()
        self.turns.clear()
        self._shown_turn = -1
        self._context_tokens = 0
        self._step_note = ""
        self._views.notices.settle(Topic.REPLY)
        self._views.chat.clear()
        self._views.panel.clear()
        self._show_facts()

    def _ask(self) -> None:
        assert self._model is not None
        config = self.settings.decoding(explain=self._views.window.panel_action.isChecked())
        self._views.notices.settle(Topic.REPLY)
        self._views.chat.hold_step(-1, -1)
        self._views.chat.begin_reply(rule_name(config), decoding_words(config))
        self._views.chat.follow()
        self._views.panel.begin_reply()
        self._shown_turn = len(self.turns) - 1
        self._step_note = ""
        self._set_phase(Phase.REPLYING)
        self._worker.run(replying(self._model, messages_of(self.turns, self.settings["system_prompt"]), config))

    # Intents: the panel

    def toggle_slow(self, slow: bool) -> None:
        """Decode at about four steps a second, or at full speed."""
        self._worker.set_slow(slow)

    def hold_step(self, step: int) -> None:
        """The panel shows a step; -1: it shows the newest."""
        self._views.chat.hold_step(self._shown_turn, step)

    def show_step(self, reply: int, step: int) -> None:
        """Show in the panel the step that wrote a token of the transcript."""
        self._views.window.panel_action.setChecked(True)
        if reply != self._shown_turn:
            if self.phase is Phase.REPLYING:
                return  # the panel belongs to the reply being written
            self._views.chat.hold_step(reply, -1)
            self._views.panel.begin_reply()
            self._shown_turn = reply
            self._views.panel.show_events(self.turns[reply].events)
        self._views.panel.show_step(step)

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
        pending = self._loaded_as is not None and self.settings.model() != self._loaded_as
        self._views.dialog.show_settings(self.settings, reload_pending=pending and self.phase is not Phase.LOADING)
        self._views.window.show_acceptance(self.settings["acceptance"])
        if self._model is not None:
            self._views.panel.set_reason(drafting_reason(self._model.info, self.settings["drafter"]))
        if self.phase is not Phase.LOADING:
            self._show_facts()
        self.settings_changed.emit()

    def take_way(self, way: Way) -> None:
        """A way on that a notice offered."""
        {Way.LOAD_AGAIN: self.load, Way.ASK_AGAIN: self.ask_again, Way.OPEN_SETTINGS: self.open_settings}[way]()

    # Reports

    def take_batch(self, events: list[object]) -> None:
        """What the running job yielded since the last batch."""
        if self.phase is Phase.LOADING:
            for event in events:
                if isinstance(event, Progress):
                    self._views.window.show_work(event.stage, event.done, event.total)
        if self._dropping or self.phase is not Phase.REPLYING:
            return
        turn = self.turns[-1]
        turn.events += [event for event in events if not isinstance(event, Progress)]
        for event in events:
            if isinstance(event, Prefilled):
                self._context_tokens = event.prompt_tokens
            elif isinstance(event, Step):
                self._context_tokens, self._step_note = event.context_tokens, event.note
                turn.answer += event.text
            elif isinstance(event, Finished):
                turn.answer += event.tail
        self._views.chat.show_events(events)
        self._views.panel.show_events([event for event in events if not isinstance(event, Progress)])
        self._show_facts()

    def take_result(self, result: object) -> None:
        """The running job has ended as it should."""
        self._throttle.flush()
        if self.phase is Phase.LOADING:
            self._take_model(result)
        self._after_job()

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
        elif not self._dropping:
            self._views.chat.fail_reply()
            ways = (Way.ASK_AGAIN, Way.OPEN_SETTINGS)
            self._views.notices.tell(Notice(Topic.REPLY, failure.message, failure.details, ways))
        self._after_job()

    def _after_job(self) -> None:
        self._dropping = False
        self._set_phase(Phase.READY if self._model is not None else Phase.IDLE)
        if self._reload_after_reply:
            self._reload_after_reply = False
            self.load()

    # What the views say about it

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        state, reason = {
            Phase.IDLE: (ComposerState.WAITING, "Nothing can be sent until a model is loaded."),
            Phase.LOADING: (ComposerState.WAITING, "The model is being loaded; you can already type."),
            Phase.READY: (ComposerState.READY, ""),
            Phase.REPLYING: (ComposerState.REPLYING, ""),
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
            self._views.chat.set_hint(
                "No model is loaded", "Try again, or choose another in the settings.", suggest=False
            )

    def _show_facts(self) -> None:
        if self._model is None:
            self._views.window.show_facts("No model is loaded", "")
            return
        info = self._model.info
        used = f"Context {grouped(self._context_tokens)} of {grouped(info.context_size)} tokens"
        reason = drafting_reason(info, self.settings["drafter"]) or info.heads_problem or self._step_note
        self._views.window.show_facts(SEPARATOR.join(model_words(info)), used, reason)
