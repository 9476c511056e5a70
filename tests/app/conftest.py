"""The whole app over a chat that replays recorded events, with no model and no thread left behind."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt, QThread
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme as looks
from app.application import Application
from app.controller import Phase
from medusa_core.config import ModelConfig
from medusa_core.events import Progress
from medusa_core.opening import open_chat
from medusa_core.testing import ReplayChat, scripted_reply


@pytest.fixture(autouse=True, scope="module")
def _garbage_stays_until_the_module_ends() -> Iterator[None]:
    """As in the app: no other thread may be the one that frees Qt objects in circles."""
    gc.disable()
    yield
    gc.collect()
    gc.enable()


@pytest.fixture(autouse=True)
def _garbage_is_freed_in_this_thread() -> Iterator[None]:
    gc.disable()  # an application that was closed has given back to the automatic collector
    yield
    gc.collect(1)


@pytest.fixture(autouse=True)
def _no_thread_left_behind() -> Iterator[None]:
    """Fail a test that leaves a QThread running: Qt would abort the process when it is destroyed."""
    yield
    # type(), not isinstance(): asking a lazy module of transformers for its class would import it.
    left = [found for found in gc.get_objects() if issubclass(type(found), QThread) and _runs(found)]
    for thread in left:
        thread.wait(2000)
    assert not left, f"the test left threads running: {[thread.objectName() for thread in left]}"


def _runs(thread: QThread) -> bool:
    try:
        return thread.isRunning()
    except RuntimeError:  # Qt's side of it is gone already
        return False


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Delete the widgets of the test for good, so that none is dressed again with those of the next."""
    if QApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


@pytest.fixture
def theme(qapp: QApplication) -> looks.Theme:
    """The light theme, worn by the whole app."""
    light = looks.load_themes()["light"]
    looks.apply(qapp, light)
    return light


@pytest.fixture
def chat() -> ReplayChat:
    """The model that stands in; a test may change what it replays."""
    return ReplayChat(events=scripted_reply(40))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return tmp_path / "profile é ☃"


@pytest.fixture
def start_app(qtbot: QtBot, profile: Path, chat: ReplayChat) -> Iterator[Callable[..., Application]]:
    """Build and show the app; unless told otherwise, wait until the model is loaded."""
    started: list[Application] = []

    def opener(_config: ModelConfig, _cache: Path) -> Generator[Progress, None, ReplayChat]:
        yield Progress("Reading the weights", 1, 2)
        return chat

    def start(
        open_model: Callable[..., Generator[Progress, None, object]] = opener, *, ready: bool = True
    ) -> Application:
        app = Application(profile, profile / "models", open_model)
        started.append(app)
        app.show()
        if ready:
            qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)
        return app

    yield start
    for app in started:
        app.window.close()
        assert app.closed_cleanly


@pytest.fixture
def start_real(qtbot: QtBot, profile: Path) -> Iterator[Callable[..., Application]]:
    """The app over a real, tiny model, once that is loaded. It is on the CPU in 32 bit and writes short replies."""
    started: list[Application] = []

    def start(settings: Mapping[str, object] | None, prepare: Callable[[Application], None]) -> Application:
        """`settings`: to begin with; None: those that the start before left. `prepare`: what is changed in the app."""
        profile.mkdir(parents=True, exist_ok=True)
        if settings is not None:
            text = json.dumps({"dtype": "fp32", "device": "cpu", "max_new_tokens": 16, **settings})
            (profile / "settings.json").write_text(text, encoding="utf-8")
        app = Application(profile, profile / "models", open_chat)
        prepare(app)
        started.append(app)
        app.show()
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
        return app

    yield start
    for app in started:
        app.window.close()
        assert app.closed_cleanly
    gc.unfreeze()


@pytest.fixture
def app(start_app: Callable[..., Application]) -> Application:
    """The app with its model loaded."""
    return start_app()


@pytest.fixture
def wait_for_rest(qtbot: QtBot) -> Callable[[Application], None]:
    """Wait until the running job has ended and its last batch is drawn."""

    def wait(app: Application) -> None:
        qtbot.waitUntil(lambda: app.controller.phase in (Phase.READY, Phase.IDLE), timeout=10_000)
        qtbot.wait(60)

    return wait


@pytest.fixture
def ask(qtbot: QtBot, wait_for_rest: Callable[[Application], None]) -> Callable[..., None]:
    """Type a message, press Enter, and wait for the end of the reply."""

    def ask(app: Application, text: str = "hello", *, wait: bool = True) -> None:
        qtbot.keyClicks(app.views.composer.edit, text)
        qtbot.keyClick(app.views.composer.edit, Qt.Key.Key_Return)
        assert app.controller.phase is Phase.REPLYING
        if wait:
            wait_for_rest(app)

    return ask
