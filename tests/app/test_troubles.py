"""What goes wrong is told in one sentence with a way on, and nothing is lost."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application
from app.controller import Phase
from app.json_file import JsonFile
from app.views.notices import Topic, Way
from medusa_core.config import ModelConfig
from medusa_core.errors import CheckpointError, OutOfMemory
from medusa_core.events import Progress
from medusa_core.testing import ReplayChat

Start = Callable[..., Application]
Ask = Callable[..., None]


class Openers:
    """Openers that fail with each error in turn, then succeed."""

    def __init__(self, chat: ReplayChat, *errors: Exception) -> None:
        self.chat, self.errors = chat, list(errors)
        self.configs: list[ModelConfig] = []

    def __call__(self, config: ModelConfig, _cache: Path) -> Generator[Progress, None, ReplayChat]:
        self.configs.append(config)
        yield Progress("Reading the weights", 0, 0)
        if self.errors:
            raise self.errors.pop(0)
        return self.chat


@pytest.mark.parametrize(
    ("error", "sentence", "has_details"),
    [
        (CheckpointError("heads.safetensors is cut short; train it again"), "heads.safetensors is cut short", False),
        (OutOfMemory("the model needs 9.1 GB, 2.0 GB are free; choose nf4"), "needs 9.1 GB", False),
        (MemoryError(), "Memory ran out", True),
        (ZeroDivisionError("division by zero"), "unexpected went wrong: division by zero", True),
    ],
)
def test_a_model_that_does_not_load_is_explained_and_tried_again(
    start_app: Start, qtbot: QtBot, chat: ReplayChat, error: Exception, sentence: str, has_details: bool
) -> None:
    app = start_app(Openers(chat, error), ready=False)
    qtbot.waitUntil(lambda: bool(app.views.notices.shown()), timeout=5000)
    (notice,) = app.views.notices.shown()
    assert sentence in notice.text
    assert notice.ways == (Way.LOAD_AGAIN, Way.OPEN_SETTINGS)
    assert bool(notice.details) is has_details
    assert type(error).__name__ in notice.details or not has_details
    assert "until a model is loaded" in app.views.composer.reason.text()
    app.views.notices.way_chosen.emit(Way.LOAD_AGAIN)
    assert app.views.notices.shown() == []
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)


def test_a_reply_that_breaks_off_keeps_its_text_and_can_be_asked_again(
    app: Application, ask: Ask, chat: ReplayChat, wait_for_rest: Callable[[Application], None]
) -> None:
    chat.error, chat.error_after = MemoryError(), 10
    ask(app, "first")
    (notice,) = app.views.notices.shown()
    assert (notice.topic, notice.ways) == (Topic.REPLY, (Way.ASK_AGAIN, Way.OPEN_SETTINGS))
    half = app.views.chat.replies()[0]
    assert half.text.text
    assert half.footer.text().endswith("it\u00a0broke\u00a0off")
    assert half.continue_button.isVisible()
    chat.error = None
    app.views.notices.way_chosen.emit(Way.ASK_AGAIN)
    wait_for_rest(app)
    (reply,) = app.views.chat.replies()
    assert reply is not half
    (turn,) = app.controller.turns
    assert turn.reply_place == (1, 2)  # what there was of the other one is still there
    assert app.views.notices.shown() == []
    assert chat.calls[-1][0] == [{"role": "user", "content": "first"}]


def test_a_question_without_any_reply_is_left_out_of_the_next(app: Application, ask: Ask, chat: ReplayChat) -> None:
    chat.error, chat.error_after = RuntimeError("boom"), 0
    ask(app, "lost")
    assert "left out" in app.views.chat.replies()[0].footer.text()
    chat.error = None
    ask(app, "next")
    assert chat.calls[-1][0] == [{"role": "user", "content": "next"}]


def test_heads_that_cannot_be_used_are_told_and_the_chat_goes_on(start_app: Start, ask: Ask, chat: ReplayChat) -> None:
    chat.info = replace(chat.info, num_heads=0, heads_name="none", heads_problem="The heads belong to another model.")
    app = start_app()
    (notice,) = app.views.notices.shown()
    assert notice.text == "The heads belong to another model."
    assert Way.OPEN_SETTINGS in notice.ways
    ask(app)
    assert app.views.chat.replies()[0].text.text


def test_loading_can_be_cancelled_and_begun_again(start_app: Start, qtbot: QtBot, chat: ReplayChat) -> None:
    endless = [True]

    def opener(*_: object) -> Generator[Progress, None, ReplayChat]:
        while endless[0]:
            yield Progress("Converting the model", 0, 0)
        return chat

    app = start_app(opener, ready=False)
    qtbot.waitUntil(lambda: app.controller.phase is Phase.LOADING, timeout=5000)
    app.window.status_line.cancel_button.click()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.IDLE, timeout=5000)
    (notice,) = app.views.notices.shown()
    assert not notice.is_error
    endless[0] = False
    app.views.notices.way_chosen.emit(Way.LOAD_AGAIN)
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)


def test_model_settings_wait_for_a_reload(start_app: Start, qtbot: QtBot, chat: ReplayChat) -> None:
    openers = Openers(chat)
    app = start_app(openers)
    app.controller.open_settings()
    assert not app.views.dialog.reload_button.isEnabled()
    app.controller.change_setting("heads", "none")
    assert app.views.dialog.reload_button.isEnabled()
    app.views.dialog.reload_button.click()
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)
    assert [config.heads for config in openers.configs] == ["default", "none"]
    assert not app.views.dialog.reload_button.isEnabled()


def test_a_reload_during_a_reply_waits_for_its_end(start_app: Start, ask: Ask, qtbot: QtBot, chat: ReplayChat) -> None:
    openers = Openers(chat)
    app = start_app(openers)
    chat.seconds_per_step = 0.03
    ask(app, wait=False)
    app.controller.load()
    qtbot.waitUntil(lambda: len(openers.configs) == 2 and app.controller.phase is Phase.READY, timeout=5000)
    assert app.views.chat.replies()[0].footer.text().endswith("stopped")


def test_a_full_disk_is_told_and_the_settings_still_apply(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JsonFile, "write", full)
    app.controller.change_setting("nodes", 8)
    app.controller.save_settings()
    (notice,) = app.views.notices.shown()
    assert "No space left" in notice.text
    assert app.controller.settings["nodes"] == 8


def test_broken_settings_are_kept_aside_and_told(start_app: Start, profile: Path) -> None:
    profile.mkdir(parents=True)
    (profile / "settings.json").write_text("{ broken", encoding="utf-8")
    app = start_app()
    (notice,) = app.views.notices.shown()
    assert "settings.json.broken" in notice.text
    assert (profile / "settings.json.broken").read_text(encoding="utf-8") == "{ broken"


def test_an_exception_nobody_caught_reaches_the_window(app: Application) -> None:
    with pytest.raises(KeyError) as caught:
        {}["lost"]
    app.tell_unexpected(caught.type, caught.value, caught.tb)
    (notice,) = app.views.notices.shown()
    assert notice.topic is Topic.UNEXPECTED
    assert "KeyError" in notice.details
