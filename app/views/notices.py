"""What went wrong or needs knowing, in place: one sentence, ways on, and details that can be copied.

Never modal, never gone before it is dismissed or settled. Knows nothing of what the ways on do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import qtawesome
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.theme import Theme

_DETAIL_LINES = 8


class Way(Enum):
    """A way on; the value is the label of its button."""

    LOAD_AGAIN = "Try again"
    ASK_AGAIN = "Ask again"
    NEW_CHAT = "New chat"
    OPEN_SETTINGS = "Open settings"
    SAVE_AGAIN = "Save again"
    OPEN_FOLDER = "Open folder"
    CALIBRATE = "Calibrate now"


class Topic(Enum):
    """What a notice is about; a new one replaces the one before on the same topic."""

    MODEL = "model"
    HEADS = "heads"
    REPLY = "reply"
    SETTINGS = "settings"
    CONVERSATIONS = "conversations"  # the file they are in
    SAVING = "saving"  # what is shown is not saved yet
    FILES = "files"  # export and import
    CRASH = "crash"  # of an earlier start
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell."""

    topic: Topic
    text: str
    details: str = ""
    ways: tuple[Way, ...] = ()
    is_error: bool = True


class NoticeArea(QWidget):
    """The notices that stand, newest last."""

    way_chosen = Signal(object)  # Way

    def __init__(self, theme: Theme, width: int) -> None:
        super().__init__()
        self._theme = theme
        self._shown: dict[Topic, _NoticeFrame] = {}
        inner = QWidget()
        inner.setMaximumWidth(width)
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        centred = QHBoxLayout(self)
        centred.setContentsMargins(16, 8, 16, 0)
        centred.addStretch(1)
        centred.addWidget(inner, 1000)
        centred.addStretch(1)
        self.hide()

    def tell(self, notice: Notice) -> None:
        """Show a notice, in place of one on the same topic."""
        self.settle(notice.topic)
        frame = _NoticeFrame(notice)
        frame.set_theme(self._theme)
        frame.way_chosen.connect(self.way_chosen)
        frame.dismissed.connect(self.settle)
        self._shown[notice.topic] = frame
        self._column.addWidget(frame)
        self.show()

    def settle(self, topic: Topic) -> None:
        """Take away the notice on a topic, where there is one."""
        frame = self._shown.pop(topic, None)
        if frame is not None:
            self._column.removeWidget(frame)
            frame.hide()
            frame.deleteLater()
        self.setVisible(bool(self._shown))

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for frame in self._shown.values():
            frame.set_theme(theme)

    def shown(self) -> list[Notice]:
        """The notices that stand."""
        return [frame.notice for frame in self._shown.values()]

    def frame(self, topic: Topic) -> QWidget | None:
        """The widget of a notice, where it stands."""
        return self._shown.get(topic)


class _NoticeFrame(QFrame):
    way_chosen = Signal(object)
    dismissed = Signal(object)

    def __init__(self, notice: Notice) -> None:
        super().__init__()
        self.notice = notice
        self._ways: dict[QPushButton, Way] = {}
        self._icon = QLabel()
        self.setProperty("role", "panel")
        self.setAccessibleName(notice.text)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 8)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self._sentence(), 1)
        column.addLayout(head)
        self._details = self._detail_box()
        column.addWidget(self._details)
        column.addLayout(self._buttons())

    def set_theme(self, theme: Theme) -> None:
        name, colour = ("mdi6.alert-outline", theme.warning)
        if self.notice.is_error:
            name, colour = ("mdi6.alert-circle-outline", theme.error)
        icon = qtawesome.icon(name, color=colour)
        self._icon.setPixmap(icon.pixmap(QSize(16, 16), self.devicePixelRatioF()))

    def _sentence(self) -> QLabel:
        sentence = QLabel(self.notice.text)
        sentence.setTextFormat(Qt.TextFormat.PlainText)
        sentence.setWordWrap(True)
        sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        sentence.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        return sentence

    def _detail_box(self) -> QPlainTextEdit:
        box = QPlainTextEdit(self.notice.details)
        box.setReadOnly(True)
        box.setAccessibleName("Details of the problem")
        box.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        box.setFixedHeight(_DETAIL_LINES * box.fontMetrics().lineSpacing())
        box.hide()
        return box

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        row.setContentsMargins(24, 0, 0, 0)
        for way in self.notice.ways:
            button = QPushButton(way.value)
            button.clicked.connect(self._choose)
            self._ways[button] = way
            row.addWidget(button)
        row.addStretch(1)
        if self.notice.details:
            self._add_quiet(row, "Details", self._toggle_details)
        self._add_quiet(row, "Copy", self.copy)
        self._add_quiet(row, "Dismiss", self._dismiss)
        return row

    def _add_quiet(self, row: QHBoxLayout, label: str, do: object) -> None:
        button = QPushButton(label)
        button.setProperty("role", "quiet")
        button.clicked.connect(do)
        row.addWidget(button)

    def copy(self) -> None:
        """Put sentence and details on the clipboard."""
        QGuiApplication.clipboard().setText("\n\n".join(filter(None, (self.notice.text, self.notice.details))))

    def _choose(self) -> None:
        button = self.sender()
        if isinstance(button, QPushButton):
            self.way_chosen.emit(self._ways[button])

    def _toggle_details(self) -> None:
        self._details.setVisible(not self._details.isVisible())

    def _dismiss(self) -> None:
        self.dismissed.emit(self.notice.topic)
