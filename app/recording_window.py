"""A window for one recorded reply: it plays in the chat and in the decoding panel, without any model.

Has nothing to do with the conversations or with what the model is doing. Knows nothing of how a recording is made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import qtawesome
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSplitter, QVBoxLayout, QWidget

from app import recordings
from app.expectation import at_first
from app.find_controller import FindController
from app.jobs import model_words
from app.player import Player
from app.recordings import Recording, RecordingError
from app.theme import Theme
from app.views.chat import Chat
from app.views.notices import Notice, NoticeArea, Topic
from app.views.page import column_width
from app.views.panel import DecodingPanel
from app.views.panel_files import ask_for_recording, save_charts

_SIZE = QSize(1180, 800)
_PANEL_WIDTH = 420
_NO_MODEL = "This is a recording: there is no model to run again."


class RecordingWindow(QWidget):
    """What was asked and answered at the left, how it was decoded at the right, play and pause above."""

    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._theme = theme
        self.recording: Recording | None = None
        self.player = Player(self)
        self.chat, self.panel = Chat(theme, ()), DecodingPanel()
        self.find = FindController(self.chat)
        self.notices = NoticeArea(theme, column_width(self.chat))
        self.play_button = self._button("Pause", self.toggle)
        self.skip_button = self._button("To the end", self.player.skip)
        self.open_button = self._button("Open…", self.ask_for_recording)
        self.facts = QLabel()
        self._stack()
        self._connect()
        self.panel.set_examples([recordings.title_of(path) for path in recordings.examples()])
        self.panel.set_steering(_NO_MODEL)
        self.panel.pages.proof.set_ready(_NO_MODEL)
        self.chat.set_usable(False, can_ask=False)
        self.chat.set_hint(
            "No recording is open", "Open one, or explore one of those that came with the app.", suggest=False
        )
        self.set_theme(theme)
        self.resize(_SIZE)
        self._show_state()

    def _stack(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(16, 8, 16, 8)
        bar.setSpacing(8)
        self.facts.setProperty("role", "small")
        self.facts.setTextFormat(Qt.TextFormat.PlainText)
        self.facts.setMinimumWidth(40)
        for button in (self.play_button, self.skip_button):
            bar.addWidget(button)
        bar.addWidget(self.facts, 1)
        bar.addWidget(self.open_button)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 8)
        column.addWidget(self.chat, 1)
        column.addWidget(self.notices)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setChildrenCollapsible(False)
        splitter.setHandleWidth(1)
        splitter.addWidget(left)
        splitter.addWidget(self.panel)
        splitter.setStretchFactor(0, 1)
        splitter.setSizes([_SIZE.width() - _PANEL_WIDTH, _PANEL_WIDTH])
        page = QVBoxLayout(self)
        page.setContentsMargins(0, 0, 0, 0)
        page.setSpacing(0)
        page.addLayout(bar)
        page.addWidget(splitter, 1)

    def _connect(self) -> None:
        self.player.batch.connect(self._take)
        self.player.changed.connect(self._show_state)
        self.panel.slow_toggled.connect(self.player.set_slow)
        self.panel.step_shown.connect(self._hold)
        self.panel.open_asked.connect(self.ask_for_recording)
        self.panel.example_asked.connect(self.open_example)
        self.panel.save_asked.connect(self._refuse_saving)
        self.panel.export_asked.connect(self._export)
        self.chat.step_chosen.connect(self._show_step)
        QShortcut(QKeySequence("Ctrl+O"), self, self.ask_for_recording)
        QShortcut(QKeySequence("Ctrl+F"), self, self.find.open)
        QShortcut(QKeySequence("F3"), self, self.find.go_to_next)
        QShortcut(QKeySequence("Shift+F3"), self, self.find.go_to_previous)
        QShortcut(QKeySequence("Ctrl+W"), self, self.close)
        QShortcut(QKeySequence("Esc"), self, self.player.pause)

    # What a person wants

    def open(self, path: Path) -> bool:
        """Show another recording from its beginning; False where it cannot be opened, which is then said."""
        self.notices.settle(Topic.FILES)
        try:
            recording = recordings.load(path)
        except RecordingError as error:
            self.notices.tell(Notice(Topic.FILES, str(error)))
            return False
        self.show_recording(recording)
        return True

    def open_example(self, number: int) -> None:
        """Show one of those that came with the app."""
        paths = recordings.examples()
        if number < len(paths):
            self.open(paths[number])

    def ask_for_recording(self) -> None:
        """Let the person choose a file."""
        path = ask_for_recording(self)
        if path is not None:
            self.open(path)

    def toggle(self) -> None:
        """Play, pause, or play again from the beginning."""
        if self.player.playing:
            self.player.pause()
        elif self.player.at_end and self.recording is not None:
            self.show_recording(self.recording)
        else:
            self.player.play()

    def show_recording(self, recording: Recording) -> None:
        """Play a recording from its beginning."""
        self.recording = recording
        info, measured = recording.info, recording.info.measured
        self.setWindowTitle(f"{recording.title} – a recorded reply")
        words = (*model_words(info), measured.machine, recording.rule, recording.recorded)
        self.facts.setText("  ·  ".join(filter(None, words)))
        settings = (f"{name}: {value}" for name, value in recording.settings)
        self.facts.setToolTip("\n".join((self.facts.text(), *settings)))
        self.chat.clear()
        self.chat.add_question(recording.question)
        self.chat.begin_reply(recording.rule)
        self.chat.set_usable(False, can_ask=False)
        self.panel.pages.set_measured(measured, measured.plain_tokens_per_second)
        self.panel.pages.set_sampled(recording.rule != "greedy")
        self.panel.pages.expectation.show_expectation(at_first())
        self.panel.pages.expectation.take_calibration()
        self.panel.begin_reply()
        self.player.load(recording.events)
        self.player.play()

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        for view in (self.chat, self.panel, self.notices):
            view.set_theme(theme)
        self._show_state()

    # What happens

    def _take(self, events: list[object]) -> None:
        self.chat.show_events(events)
        self.panel.show_events(events)
        if self.player.at_end:
            self.panel.pages.expectation.set_conversation(self.panel.pages.figures.metrics)

    def _show_state(self) -> None:
        playing, ended = self.player.playing, self.player.at_end
        name, icon = ("Pause", "mdi6.pause") if playing else ("Play again" if ended else "Play", "mdi6.play")
        self.play_button.setText(name)
        self.play_button.setIcon(qtawesome.icon(icon, color=self._theme.text))
        self.play_button.setEnabled(self.recording is not None)
        self.skip_button.setEnabled(not ended)

    def _hold(self, step: int) -> None:
        self.chat.hold_step(0, step)

    def _show_step(self, _turn: int, step: int) -> None:
        self.panel.show_step(step)

    def _export(self) -> None:
        problem = save_charts(self, self.panel, self._theme)
        if problem:
            self.notices.tell(Notice(Topic.FILES, problem))

    def _refuse_saving(self) -> None:
        self.notices.tell(Notice(Topic.FILES, "This reply is a recording already.", is_error=False))

    def _button(self, text: str, do: Callable[[], object]) -> QPushButton:
        button = QPushButton(text)
        button.clicked.connect(do)
        return button

    def closeEvent(self, event: QCloseEvent) -> None:
        """Nothing plays on unseen."""
        self.player.pause()
        self.closed.emit()
        super().closeEvent(event)
