"""Calibrating the heads in use: offered where they were measured in another precision than the model runs in.

It runs where replies are decoded, so the chat rests meanwhile; stopped, it goes on later from what was written. Knows
nothing of widgets' insides or of how heads are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import ref

from PySide6.QtCore import QObject, Signal

from app.calibration_jobs import calibrating, calibration_due
from app.controller import Controller, Phase
from app.json_file import JsonFile
from app.screen import Views
from app.views.notices import Notice, Topic, Way
from app.worker import STOPPED, Failure
from medusa_core.config import CalibrateConfig
from medusa_core.errors import ConfigError
from medusa_core.events import Progress

_REASON = "The heads are being calibrated: stop it to chat."
_STOPPED = "Calibrating the heads was stopped. What was written for it is kept, and it goes on from there."
_DONE = "The heads are calibrated for this model as it runs here, and in use."
_OFFERED = "calibration-offered.json"


class CalibrationController(QObject):
    """One intent, and one method per report."""

    due_changed = Signal(str)  # what to know of the heads in use; "" where calibrating them would mend nothing

    def __init__(self, views: Views, controller: Controller, cache: Path) -> None:
        super().__init__()
        self._views, self._controller, self._cache = views, controller, cache
        self.config = CalibrateConfig()
        self._model: Callable[[], object] = lambda: None  # not held: its memory is needed for the next one
        self._offered = JsonFile(cache.parent / _OFFERED)
        self._running = self._in_use = False
        self._heads = ""  # that are calibrated
        controller.phase_changed.connect(self._take_phase)
        controller.aside_events.connect(self._take_events)
        controller.aside_ended.connect(self._take_end)
        controller.calibration_asked.connect(self.calibrate)

    def calibrate(self) -> None:
        """Measure the heads in use, and load them with what follows."""
        model = self._controller.model
        if model is None or not calibration_due(model):
            return
        if not self._controller.run_aside(calibrating(model, self._cache, self.config), _REASON):
            self._tell("The model is busy. Wait for the end of the reply, or stop it.", (Way.CALIBRATE,))
            return
        self._running, self._heads = True, model.info.heads_name
        self._views.notices.settle(Topic.HEADS)
        self._views.window.show_work("Calibrating the heads", 0, 0)

    # Reports

    def _take_phase(self, phase: object) -> None:
        if phase is not Phase.READY or self._controller.model is self._model():
            return
        model: Any = self._controller.model
        self._model = ref(model)
        due = calibration_due(model)
        self.due_changed.emit(model.info.heads_note if due else "")
        if due and self._is_first_time(model):
            self._tell(model.info.heads_note, (Way.CALIBRATE,))
        elif self._in_use and not due:
            self._tell(_DONE)
        self._in_use = False

    def _is_first_time(self, model: Any) -> bool:
        """Of these heads with the model in this precision: told once, it can be found where heads are trained."""
        told: list[Any] = []
        with suppress(ConfigError):
            found = self._offered.read().get("told")
            told = found if isinstance(found, list) else []
        case = [model.info.name, model.info.heads_name, model.info.dtype.partition(" ")[0]]
        if case in told:
            return False
        with suppress(OSError):
            self._offered.write({"told": [*told, case]})
        return True

    def _take_events(self, events: list[object]) -> None:
        progress = [event for event in events if isinstance(event, Progress)]
        if self._running and progress:
            last = progress[-1]
            self._views.window.show_work(last.stage, last.done, last.total)

    def _take_end(self, result: object) -> None:
        if not self._running:
            return  # another job's
        self._running = False
        if isinstance(result, Failure):
            notice = Notice(Topic.HEADS, result.message, result.details, (Way.CALIBRATE,))
            self._views.notices.tell(notice)
        elif result is STOPPED:
            self._tell(_STOPPED, (Way.CALIBRATE,))
        elif isinstance(result, Path):
            self._in_use = True
            if str(result) != self._heads:  # a copy; else the settings mean them already
                self._controller.change_setting("heads", str(result))
            self._controller.load()

    def _tell(self, text: str, ways: tuple[Way, ...] = ()) -> None:
        self._views.notices.tell(Notice(Topic.HEADS, text, ways=ways, is_error=False))
