"""The decoding panel: the candidate tree of a step, the walk through the steps of a reply, and the charts.

Shows the newest step while a reply is written (live), or holds the step the reader asked for. Knows nothing of the
model, of threads, or of where the events come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.theme import Theme, load_themes, system_theme
from app.views.tree import TreeView
from medusa_core.events import Event, Step
from medusa_core.metrics import ReplyMetrics


class DecodingPanel(QWidget):
    """Everything to the right of the chat."""

    slow_toggled = Signal(bool)
    step_shown = Signal(int)  # index of the held step; -1 when live again

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = load_themes()[system_theme()]
        self._steps: list[Step] = []
        self._metrics = ReplyMetrics()
        self._tree = TreeView(self._theme, self)
        QVBoxLayout(self).addWidget(self._tree)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step of the reply so far."""
        return tuple(self._steps)

    def begin_reply(self) -> None:
        """Forget the reply before."""
        self._steps.clear()
        self._metrics = ReplyMetrics()

    def show_events(self, events: Sequence[Event]) -> None:
        """Take a batch in."""
        for event in events:
            if isinstance(event, Step):
                self._steps.append(event)
                self._metrics.add(event)
        if self._steps:
            self._tree.show_step(self._steps[-1], self._metrics.acceptance_per_head)

    def show_step(self, index: int) -> None:
        """Hold the step with this index."""
        self._tree.show_step(self._steps[index], self._metrics.acceptance_per_head)
        self.step_shown.emit(index)

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self._tree.set_theme(theme)

    def set_reason(self, text: str) -> None:
        """Say why there is no tree."""
        self._tree.set_message(text)
