"""Where conversations cannot be kept it is told in one sentence, and nothing that is on the screen is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application, Options, run
from app.conversations import AlreadyOpen, ConversationStore, MessageState
from app.conversations.database import Database
from app.conversations.store import FILE_NAME
from app.views.notices import Topic, Way
from medusa_core.testing import ReplayChat

ROOT = Path(__file__).resolve().parents[2]
Ask = Callable[..., None]
Start = Callable[..., Application]
Rest = Callable[[Application], None]

_KILLED = """
import sys
from pathlib import Path
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from app.application import Application, Options, run
from app.controller import Phase
from medusa_core.events import Progress
from medusa_core.testing import ReplayChat, scripted_reply

def opener(*_):
    yield Progress("Reading the weights", 0, 0)
    return ReplayChat(scripted_reply(4000), seconds_per_step=0.01)

class Asker(QObject):
    def take(self, phase):
        if phase is Phase.READY:
            app.controller.send("a question")

    def tell(self):
        print(len(app.controller.turns[0].answer), flush=True)

qt = QApplication(sys.argv[:1])
app = Application(Path(sys.argv[1]), Path(sys.argv[1]) / "models", opener)
asker = Asker()
app.controller.phase_changed.connect(asker.take)
app.controller.replies.facts_changed.connect(asker.tell)
app.show()
qt.exec()
"""


def test_a_killed_app_leaves_the_half_reply_marked_as_cut(
    profile: Path, start_app: Start, chat: ReplayChat, wait_for_rest: Rest
) -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(profile)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    written = 0
    for line in process.stdout:
        written = int(line)
        if written > 300:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    app = start_app()
    app.controller.conversations.open(app.store.conversations()[0].id)
    (turn,) = app.controller.turns
    assert turn.state is MessageState.CUT
    assert len(turn.answer) >= written
    reply = app.views.chat.replies()[0]
    assert reply.text.text == turn.answer
    assert "cut:\u00a0it\u00a0broke\u00a0off" in reply.footer.text()
    assert reply.footer.text().split("\u00a0")[0].isdigit()  # the tokens, counted from its steps
    assert reply.continue_button.isVisible()
    half = turn.answer
    reply.continue_button.click()
    wait_for_rest(app)
    assert turn.answer.startswith(half)
    assert turn.state is MessageState.COMPLETE


@pytest.mark.skipif(sys.platform == "win32", reason="folders there have no such permission")
def test_a_folder_that_takes_no_writing_is_told_and_the_chat_goes_on(
    profile: Path, start_app: Start, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConversationStore(profile)
    store.messages.ask("from before")
    store.close()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Permissions do not hold for root, who runs tests in containers.
    monkeypatch.setattr("app.conversations.lock.FileLock.acquire", refuse)
    app = start_app()
    notices = {notice.topic: notice for notice in app.views.notices.shown()}
    assert "cannot be written, so conversations are not saved" in notices[Topic.CONVERSATIONS].text
    assert [line.title for line in app.store.conversations()] == ["from before"]  # can be read all the same
    ask(app, "one")
    assert app.views.chat.replies()[0].text.text
    assert [line.title for line in app.store.conversations()] == ["one", "from before"]
    app.window.close()
    monkeypatch.undo()
    again = start_app()
    assert [line.title for line in again.store.conversations()] == ["from before"]


def test_no_room_for_temporary_files_does_not_keep_the_app_from_starting(
    profile: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def refuse(*_: object) -> None:
        raise AlreadyOpen("far enough", None)

    monkeypatch.setattr("app.application.tempfile.TemporaryDirectory", full)
    monkeypatch.setattr("app.application._qt_application", lambda _scale: None)
    monkeypatch.setattr("app.application.Application", refuse)
    assert run(Options(profile=profile)) == 1
    assert "far enough" in capsys.readouterr().err


def test_a_corrupt_file_is_kept_aside_and_told(profile: Path, start_app: Start, ask: Ask) -> None:
    profile.mkdir(parents=True)
    (profile / FILE_NAME).write_bytes(b"no database " * 1000)
    app = start_app()
    (notice,) = app.views.notices.shown()
    assert (notice.topic, notice.is_error) == (Topic.CONVERSATIONS, False)
    assert "conversations.broken-1.db" in notice.text
    assert (profile / "conversations.broken-1.db").read_bytes() == b"no database " * 1000
    ask(app, "one")
    assert [line.title for line in app.store.conversations()] == ["one"]


def limit(app: Application, more_pages: int) -> None:
    """As if the disk had so much room left."""
    connection = app.store.database._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + more_pages}")


def test_a_disk_that_fills_up_during_a_reply_is_told_and_the_rest_saved_later(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    chat.seconds_per_step = 0.02
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 2, timeout=5000)
    limit(app, 0)
    wait_for_rest(app)
    (notice,) = app.views.notices.shown()
    assert (notice.topic, notice.ways) == (Topic.SAVING, (Way.SAVE_AGAIN,))
    assert "is full" in notice.text
    whole = app.controller.turns[0].answer
    assert app.views.chat.replies()[0].text.text == whole
    limit(app, 10_000)
    app.views.notices.way_chosen.emit(Way.SAVE_AGAIN)
    assert app.views.notices.shown() == []
    saved = app.store.messages.get(app.controller.turns[0].reply or 0)
    assert (saved.text, saved.state) == (whole, MessageState.COMPLETE)


def test_closing_does_not_lose_what_is_not_saved_unasked(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    chat.seconds_per_step = 0.02
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 2, timeout=5000)
    limit(app, 0)
    wait_for_rest(app)
    assert not app.window.close()
    assert app.window.isVisible()
    (notice,) = app.views.notices.shown()
    assert (notice.topic, notice.ways) == (Topic.SAVING, (Way.SAVE_AGAIN,))
    assert "close the window once more" in notice.text
    assert app.window.close()  # asked for twice


def test_closing_saves_what_could_not_be_saved_before(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest, profile: Path
) -> None:
    chat.seconds_per_step = 0.02
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 2, timeout=5000)
    limit(app, 0)
    wait_for_rest(app)
    whole = app.controller.turns[0].answer
    limit(app, 10_000)
    assert app.window.close()
    store = ConversationStore(profile)
    saved = store.messages.branch(store.conversations()[0].id)[1]
    store.close()
    assert (saved.text, saved.state) == (whole, MessageState.COMPLETE)


def test_a_disk_that_is_full_at_the_start_is_told_and_the_chat_goes_on(
    start_app: Start, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Database) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(Database, "_open", full)
    app = start_app()
    (notice,) = app.views.notices.shown()
    assert notice.topic is Topic.CONVERSATIONS
    assert "is full, so conversations are not saved" in notice.text
    ask(app, "one")
    assert app.views.chat.replies()[0].text.text


def test_it_is_tried_again_without_being_asked(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot, wait_for_rest: Rest
) -> None:
    chat.seconds_per_step = 0.02
    ask(app, "one", wait=False)
    qtbot.waitUntil(lambda: len(app.views.panel.steps) >= 2, timeout=5000)
    limit(app, 0)
    wait_for_rest(app)
    limit(app, 10_000)
    qtbot.waitUntil(lambda: app.views.notices.shown() == [], timeout=5000)
    saved = app.store.messages.get(app.controller.turns[0].reply or 0)
    assert saved.text == app.controller.turns[0].answer


def test_a_question_that_cannot_be_saved_goes_back_to_where_it_was_typed(
    app: Application, ask: Ask, chat: ReplayChat, qtbot: QtBot
) -> None:
    limit(app, 0)
    long = "a question " * 10_000
    app.controller.send(long)
    assert app.views.composer.text() == long
    assert app.controller.turns == []
    (notice,) = app.views.notices.shown()
    assert notice.topic is Topic.SAVING
    assert chat.calls == []
