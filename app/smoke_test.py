"""Try the running app as a person would: ask, regenerate, hold a step, steer, switch the rule, restart, find the chat.

One start asks (`Asking`), the next one finds what the first left (`Finding`). Knows nothing of how the app is built.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.controller import Controller, Phase
from app.conversations import Hit
from app.screen import Views
from app.views.abstract import AbstractQt
from medusa_core.events import Step

QUESTION = "Explain in a few sentences how a rainbow forms."
SECOND_QUESTION = "And why is it curved?"
WORDS = "rainbow forms"
TIME_LIMIT_MS = 300_000  # a first start converts the model
_SETTLE_MS = 400  # for the last batch to be drawn, and for a search to begin


class Trial(QObject, metaclass=AbstractQt):
    """Drives the controller; `status` and `message` hold the outcome once the window has closed."""

    def __init__(self, controller: Controller, views: Views, time_limit_ms: int = TIME_LIMIT_MS) -> None:
        super().__init__()
        self.controller, self.views = controller, views
        self.status, self.message = 1, "smoke test: the window was closed before the test had ended"
        self._next: Callable[[], None] = self.begin  # to be done once the model has nothing to do
        self._watchdog = QTimer(self)
        self._watchdog.setSingleShot(True)
        self._watchdog.timeout.connect(self._time_out)
        self._watchdog.start(time_limit_ms)
        controller.phase_changed.connect(self._advance)

    @abstractmethod
    def begin(self) -> None:
        """What to do once the model is loaded."""

    def then(self, do: Callable[[], None]) -> None:
        """What to do once the reply has ended."""
        self._next = do

    def soon(self, do: Callable[[], None]) -> None:
        """Do it when all is drawn."""
        QTimer.singleShot(_SETTLE_MS, do)

    def expect(self, holds: bool, message: str) -> bool:
        """End the trial with the message unless it holds."""
        if not holds:
            self.end(1, message)
        return holds

    def _advance(self, phase: Phase) -> None:
        errors = [notice for notice in self.views.notices.shown() if notice.is_error]
        if errors:
            self.end(1, "\n".join(filter(None, (errors[0].text, errors[0].details))))
        elif phase is Phase.READY:
            self._next()

    def _time_out(self) -> None:
        self.end(1, f"no answer within {self._watchdog.interval() / 1000:g} s")

    def end(self, status: int = 0, message: str = "") -> None:
        """Close the window, and the app with it."""
        self._watchdog.stop()
        self.controller.phase_changed.disconnect(self._advance)
        self.status, self.message = status, f"smoke test: {message}" if message else ""
        self.views.window.close()
        QApplication.quit()


class Asking(Trial):
    """The first start: a question, its reply, another reply to it, and a picture of the window."""

    def __init__(
        self, controller: Controller, views: Views, screenshot: Path | None, time_limit_ms: int = TIME_LIMIT_MS
    ) -> None:
        super().__init__(controller, views, time_limit_ms)
        self._screenshot = screenshot

    def begin(self) -> None:
        self.then(self._regenerate)
        self.controller.send(QUESTION)

    def _regenerate(self) -> None:
        if self.expect(bool(self.controller.turns[-1].answer.strip()), "the reply is empty"):
            self.then(self._see)
            self.views.window.regenerate_action.trigger()

    def _see(self) -> None:
        if self._expect_variant(1, "regenerating"):
            self.soon(self._hold)

    def _hold(self) -> None:
        panel = self.views.panel
        if not self.expect(len(panel.steps) > 1, "the reply has no steps to walk through"):
            return
        panel.show_step(len(panel.steps) - 1)
        panel.show_previous()
        held = self.views.chat.replies()[0].text.held_span()
        if self.expect(not panel.live and held is not None, "the held step is not outlined in the reply"):
            self.then(self._switch)
            self.controller.steer(0, _another_way(panel.steps))

    def _switch(self) -> None:
        if self._expect_variant(2, "steering"):
            self.then(self._compare)
            self.controller.choose_acceptance("typical")
            self.controller.send(SECOND_QUESTION)

    def _compare(self) -> None:
        footer = self.views.chat.replies()[-1].footer.text()
        if self.expect("typical" in footer, f"the second question was not answered under typical acceptance: {footer}"):
            self.soon(self._take_picture)

    def _expect_variant(self, variant: int, what: str) -> bool:
        place = self.controller.turns[0].reply_place
        return self.expect(place == (variant, variant + 1), f"{what} led to variant {place}, not ({variant}, ...)")

    def _take_picture(self) -> None:
        saved = not self._screenshot or self.views.window.grab().save(str(self._screenshot))
        if self.expect(saved, f"the screenshot could not be written to {self._screenshot}"):
            self.end()


class Finding(Trial):
    """The next start: search for the question, open it, and look whether both replies and their steps are there."""

    def begin(self) -> None:
        self.views.window.search_action.trigger()
        self.views.sidebar.search.setText(WORDS)
        self.soon(self._open)

    def _open(self) -> None:
        sidebar = self.views.sidebar
        hits = [number for number, row in enumerate(sidebar.model.rows) if isinstance(row, Hit)]
        if self.expect(bool(hits), f"nothing was found for {WORDS!r}"):
            sidebar.list.clicked.emit(sidebar.model.index(hits[0]))
            self.soon(self._look)

    def _look(self) -> None:
        turns = self.controller.turns
        if (
            self.expect(
                [turn.question for turn in turns] == [QUESTION, SECOND_QUESTION], "the chat that was found is another"
            )
            and self.expect(turns[0].reply_place == (2, 3), "the other replies did not come back")
            and self.expect(bool(turns[1].answer.strip()), "the reply came back empty")
            and self.expect(bool(self.views.panel.steps), "the steps of the reply did not come back")
        ):
            self.end()


def _another_way(steps: Sequence[Step]) -> list[int]:
    """The tokens up to a guess in the middle of the reply that was not kept; where all were, half the reply."""
    begun: list[int] = []
    for step in steps[: len(steps) // 2]:
        begun += step.token_ids
    for step in steps[len(steps) // 2 :]:
        for number, node in enumerate(step.nodes):
            if number not in step.path and node.parent == 0:
                return [*begun, step.nodes[0].token_id, node.token_id]
        begun += step.token_ids
    return begun[: max(1, len(begun) // 2)]
