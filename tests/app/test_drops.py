"""What is dropped on the main window: models come into the library, conversations and recordings are opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.application import Application
from app.conversations.exchange import to_json
from app.recordings import examples
from medusa_core.tiny import save_tiny_model

Ask = Callable[..., None]
_COPY, _LEFT, _NONE = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def dragged(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drop(target: QWidget, *paths: Path) -> None:
    data = dragged(*paths)
    enter = QDragEnterEvent(QPoint(300, 300), _COPY, data, _LEFT, _NONE)
    QApplication.sendEvent(target, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(target, QDropEvent(QPointF(300, 300), _COPY, data, _LEFT, _NONE))


def test_a_models_folder_comes_into_the_library(app: Application, tmp_path: Path, qtbot: QtBot) -> None:
    folder = save_tiny_model(tmp_path / "Tiny", seed=3)
    drop(app.window, folder)
    assert app.models.manager is not None
    assert app.models.manager.isVisible()
    qtbot.waitUntil(lambda: app.models.shelf.has("Tiny"), timeout=20_000)


def test_it_may_be_dropped_on_what_lies_in_the_window(app: Application, tmp_path: Path, qtbot: QtBot) -> None:
    """Qt asks the widget under the mouse and then those around it; none but the window may say yes."""
    folder = save_tiny_model(tmp_path / "Tiny", seed=3)
    edit = app.views.composer.edit
    assert not edit.canInsertFromMimeData(dragged(folder))
    text = QMimeData()
    text.setText("some words")
    assert edit.canInsertFromMimeData(text)
    data = dragged(folder)
    for widget in app.window.findChildren(QWidget):
        if widget.isVisible() and widget.window() is app.window and widget.acceptDrops():
            enter = QDragEnterEvent(QPoint(1, 1), _COPY, data, _LEFT, _NONE)
            enter.ignore()
            widget.event(enter)
            assert not enter.isAccepted(), widget


def test_conversations_and_recordings_are_opened(app: Application, ask: Ask, tmp_path: Path) -> None:
    ask(app, "a talk")
    (conversation,) = app.store.conversations()
    exported = tmp_path / "talk.JSON"
    exported.write_text(to_json(app.store, [conversation.id]), encoding="utf-8")
    drop(app.window, exported)
    assert len(app.store.conversations()) == 2
    drop(app.window, examples()[0])
    window = app.panel_controller.recording_window
    assert window is not None
    assert window.recording is not None


def test_what_is_of_no_use_is_named(app: Application, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"")
    drop(app.window, tmp_path / "photo.png")
    (notice,) = app.views.notices.shown()
    assert "photo.png cannot be used here" in notice.text


def test_text_and_pages_are_not_the_windows(app: Application) -> None:
    data = QMimeData()
    data.setUrls([QUrl("https://example.org/model")])
    enter = QDragEnterEvent(QPoint(300, 300), _COPY, data, _LEFT, _NONE)
    enter.ignore()
    QApplication.sendEvent(app.window, enter)
    assert not enter.isAccepted()
    assert enter.type() is QEvent.Type.DragEnter
