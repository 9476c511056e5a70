"""What the decoding panel asks for beyond the running reply: steer, prove, record and replay, export.

Knows nothing of how a reply is asked for or saved, and paints nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject

from app import recordings
from app.controller import Controller, Phase
from app.jobs import Asked, ChatModel, StopCheck, decoding_words
from app.proof import Claim, Proof, Run, claim_of, compare, run_of
from app.recording_window import RecordingWindow
from app.recordings import Recording
from app.screen import Views
from app.theme import Theme
from app.views.notices import Notice, Topic
from app.views.panel_files import ask_for_recording, ask_where_to_record, save_charts
from app.views.proof_page import CANCELLED, NOTHING_YET
from app.worker import Failure, Job
from medusa_core.events import Step, StopReason
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import Measured

_PROVING = "The last question runs again without drafting."
_NO_MODEL = "No model is loaded."
_ENOUGH_STEPS = 16  # of a reply, to tell its speed
_BUSY = "The model is busy; wait for the end of the reply, or stop it."
_OTHER_REPLY = "Only the last reply can be run again: ask it anew, or regenerate it."
_NO_END = "The last reply broke off; there is nothing to compare."
_NOT_DRAFTED = "The last reply was decoded without drafting: there is nothing to compare."


class PanelController(QObject):
    """Stands between the panel and the controller of the model."""

    def __init__(self, views: Views, controller: Controller, theme: Theme) -> None:
        super().__init__()
        self._views, self._controller, self._theme = views, controller, theme
        self._panel = views.panel
        self._page = views.panel.pages.proof
        self.recording_window: RecordingWindow | None = None
        self._proving: Asked | None = None
        self._claim = Claim.SAMPLED
        self._drafted: Run | None = None
        self._plain = ReplyMetrics()  # of the run without drafting, as far as it has come
        self._proved: tuple[ChatModel, float] | None = None  # how fast the last proof wrote without drafting
        self._panel.set_examples([recordings.title_of(path) for path in recordings.examples()])
        self._connect()
        self.refresh()

    def _connect(self) -> None:
        panel, controller = self._panel, self._controller
        panel.steer_asked.connect(self.steer)
        panel.save_asked.connect(self.record)
        panel.open_asked.connect(self.ask_for_recording)
        panel.example_asked.connect(self.open_example)
        panel.export_asked.connect(self.export)
        panel.reply_shown.connect(self.refresh)
        self._page.prove_asked.connect(self.prove)
        self._page.cancel_asked.connect(controller.stop)
        controller.phase_changed.connect(self._take_phase)
        controller.aside_events.connect(self.take_events)
        controller.aside_ended.connect(self.take_end)

    # What the panel is told

    def _take_phase(self, _phase: object) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Tell the panel what is known of the model, and what can be asked for now."""
        model, phase = self._controller.model, self._controller.phase
        if self._proving is not None and self._controller.replies.shown_turn != self._proving.turn:
            self._proving = None  # the reply it was about is no longer shown
            self._controller.stop()
        measured = Measured() if model is None else model.info.measured
        pages = self._panel.pages
        plain = self._speed_without_drafting()
        pages.set_measured(measured, plain or measured.plain_tokens_per_second, of_a_reply=plain > 0)
        pages.set_sampled(self._is_sampled())
        busy = "" if phase is Phase.READY else (_NO_MODEL if model is None else _BUSY)
        self._panel.set_steering(busy)
        self._page.set_ready(busy or self._why_not_prove())
        if phase is not Phase.REPLYING:
            pages.expectation.set_conversation(self._conversation())

    def _speed_without_drafting(self) -> float:
        """Tokens per second of the last reply that this model wrote so: shown, or run for a proof; 0: there is none."""
        model, asked = self._controller.model, self._controller.replies.asked
        if asked is not None and asked.config.drafter == "none":
            metrics = ReplyMetrics()
            for event in self._events_of(asked):
                if isinstance(event, Step):
                    metrics.add(event)
            if metrics.steps >= _ENOUGH_STEPS:
                return metrics.tokens_per_second
        return self._proved[1] if self._proved is not None and self._proved[0] is model else 0.0

    def _is_sampled(self) -> bool:
        turns, shown = self._controller.turns, self._controller.replies.shown_turn
        return not 0 <= shown < len(turns) or turns[shown].figures.rule != "greedy"

    def _conversation(self) -> ReplyMetrics:
        """The figures of all replies whose steps are at hand."""
        metrics = ReplyMetrics()
        for turn in self._controller.turns:
            for event in turn.events:
                if isinstance(event, Step):
                    metrics.add(event)
        return metrics

    # Steer

    def steer(self, token_ids: Sequence[int]) -> None:
        """Continue the shown reply from a node of its tree, as a new variant."""
        self._controller.steer(self._controller.replies.shown_turn, token_ids)

    # Prove

    def _why_not_prove(self) -> str:
        asked = self._controller.replies.asked
        if not self._controller.turns:
            return NOTHING_YET
        if asked is None or self._controller.replies.shown_turn != asked.turn or not self._events_of(asked):
            return _OTHER_REPLY
        if run_of(self._events_of(asked)) is None:
            return _NO_END
        return _NOT_DRAFTED if asked.config.drafter == "none" else ""

    def _events_of(self, asked: Asked) -> list[object]:
        """What the asked reply wrote itself: a reply that goes on has older events before."""
        turns = self._controller.turns
        if not 0 <= asked.turn < len(turns) or turns[asked.turn].reply != asked.reply:
            return []  # another conversation, or another variant
        events = turns[asked.turn].events
        return [event for event in events if not isinstance(event, Step) or event.index >= asked.beginning.steps]

    def prove(self) -> None:
        """Run the last question again without drafting."""
        asked, model = self._controller.replies.asked, self._controller.model
        if asked is None or model is None or self._why_not_prove():
            return
        begun = asked.beginning.token_ids(model)
        drafted = run_of(self._events_of(asked), begun)
        if drafted is None:
            return
        claim = claim_of(asked.config.acceptance)
        if not self._controller.run_aside(proving(model, asked, begun, drafted, claim), _PROVING):
            return
        self._proving, self._drafted, self._claim, self._plain = asked, drafted, claim, ReplyMetrics()
        self._page.begin(claim, drafted.tokens_per_second)

    def take_events(self, events: list[object]) -> None:
        """Another piece of the plain reply."""
        steps = [event for event in events if isinstance(event, Step)]
        if self._proving is None or self._drafted is None or not steps:
            return
        for step in steps:
            self._plain.add(step)
        speeds = (self._drafted.tokens_per_second, self._plain.tokens_per_second)
        self._page.show_progress(self._plain.tokens, self._drafted.tokens, *speeds)

    def take_end(self, result: object) -> None:
        """The plain reply has ended, was cancelled, or broke off."""
        if self._proving is None:
            return
        self._proving = None
        if isinstance(result, Proof):
            self._page.show_proof(result)
            if self._controller.model is not None:
                self._proved = (self._controller.model, result.plain.tokens_per_second)
            self.refresh()
        else:
            self._page.end(result.message if isinstance(result, Failure) else CANCELLED)

    # Record and replay

    def record(self) -> None:
        """Save the shown reply with its events."""
        path = ask_where_to_record(self._views.window, "reply")
        recording = self._recording()
        if path is None or recording is None:
            return
        try:
            recordings.save(recording, path)
        except OSError as error:
            text = f"The recording could not be saved in {path.parent}: {error.strerror or error}."
            self._views.notices.tell(Notice(Topic.FILES, text))

    def _recording(self) -> Recording | None:
        turns, shown = self._controller.turns, self._controller.replies.shown_turn
        model, asked = self._controller.model, self._controller.replies.asked
        if model is None or not 0 <= shown < len(turns) or not self._panel.steps:
            return None
        turn = turns[shown]
        settings: tuple[tuple[str, str], ...] = ()
        if asked is not None and asked.turn == shown:
            lines = (line.partition(": ") for line in decoding_words(asked.config).splitlines())
            settings = tuple((name, value) for name, _, value in lines)
        return Recording(
            question=turn.question,
            info=model.info,
            rule=turn.figures.rule,
            settings=settings,
            events=self._panel.events,
            recorded=date.today().isoformat(),  # noqa: DTZ011  the day on the person's own calendar
        )

    def ask_for_recording(self) -> None:
        """Let the person choose a recording to open."""
        path = ask_for_recording(self._views.window)
        if path is not None:
            self.open_recording(path)

    def open_recording(self, path: Path) -> None:
        """Open this one."""
        self._window().open(path)

    def open_example(self, number: int) -> None:
        """Open one of the recordings that came with the app."""
        self._window().open_example(number)

    def _window(self) -> RecordingWindow:
        if self.recording_window is None:
            self.recording_window = RecordingWindow(self._theme)
        self.recording_window.show()
        self.recording_window.raise_()
        self.recording_window.activateWindow()
        return self.recording_window

    def close(self) -> None:
        """The app ends."""
        if self.recording_window is not None:
            self.recording_window.close()
            self.recording_window.deleteLater()
            self.recording_window = None

    def set_theme(self, theme: Theme) -> None:
        """Dress the window of recordings too."""
        self._theme = theme
        if self.recording_window is not None:
            self.recording_window.set_theme(theme)

    def export(self) -> None:
        """Save the page of charts on screen."""
        problem = save_charts(self._views.window, self._panel, self._theme)
        if problem:
            self._views.notices.tell(Notice(Topic.FILES, problem))


def proving(model: ChatModel, asked: Asked, begun: Sequence[int], drafted: Run, claim: Claim) -> Job:
    """The same reply without drafting; its value is the Proof, or None where it was cancelled."""
    config = replace(asked.config, drafter="none")
    if not drafted.whole:
        config = replace(config, max_new_tokens=max(len(drafted.token_ids), 1))

    def job(stop: StopCheck) -> Generator[Any, None, Proof | None]:
        events: list[object] = []
        for event in model.reply(list(asked.messages), config, stop, begun):
            events.append(event)
            if isinstance(event, Step):
                yield event
        plain = run_of(events, begun)
        if plain is None or plain.reason is StopReason.CANCELLED:
            return None
        proof = compare(claim, drafted, plain)
        index = proof.compared
        if proof.parting is None or index >= min(len(drafted.token_ids), len(plain.token_ids)):
            return proof
        both = (drafted.token_ids[index], plain.token_ids[index])
        weights = model.weigh(list(asked.messages), [*begun, *drafted.token_ids[:index]], both)
        return replace(proof, parting=replace(proof.parting, drafted_weight=weights[0], plain_weight=weights[1]))

    return job
