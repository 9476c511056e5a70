"""The app over real, tiny models: where they cannot be had it says why in one sentence, and it calls nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from pytestqt.qtbot import QtBot

from app.application import Application, _open_chat
from app.controller import Phase
from app.conversations import MessageState, Turn
from app.views.notices import Notice, Topic, Way
from medusa_core import fit
from medusa_core.backbone.load import load_backbone
from medusa_core.events import Finished
from medusa_core.tiny import save_tiny_model, save_untrained_heads
from medusa_core.tree import RankedTree, Tree
from tests.app.test_calibration import put_statistics

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., Application]
Ask = Callable[..., None]
Rest = Callable[[Application], None]


def finish(work: Generator[Any, None, Any]) -> Any:
    """What a long operation comes to."""
    while True:
        try:
            next(work)
        except StopIteration as finished:
            return finished.value


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and heads for it, under a name that no code page holds."""
    folder = tmp_path_factory.mktemp("models") / "модели ☃ é"
    save_tiny_model(folder / "tiny")
    backbone, _, _ = finish(load_backbone(folder / "tiny", "fp32", "cpu"))
    save_untrained_heads(folder / "heads", backbone, RankedTree(Tree((0, 0, 0, 1)), (0, 0, 1, 0)))
    put_statistics(folder / "heads", "fp32")
    return folder


@pytest.fixture
def broken(models: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(models, tmp_path / "сломано"))


def begun(app: Application) -> bool:
    """Whether loading has begun; it may have failed already, sooner than anybody looks."""
    return app.controller.phase is not Phase.IDLE or bool(app.views.notices.shown())


@pytest.fixture
def start_with(profile: Path, start_app: Start, qtbot: QtBot) -> Callable[..., Application]:
    """The app with the real opener and a model in its settings, once loading has ended one way or the other."""

    def start(models: Path, *, heads: str = "") -> Application:
        profile.mkdir(parents=True)
        settings = {"model": str(models / "tiny"), "heads": heads or str(models / "heads"), "dtype": "fp32"}
        (profile / "settings.json").write_text(json.dumps({**settings, "max_new_tokens": 24}), encoding="utf-8")
        app = start_app(_open_chat, ready=False)
        qtbot.waitUntil(lambda: begun(app), timeout=60_000)
        qtbot.waitUntil(lambda: app.controller.phase in (Phase.READY, Phase.IDLE), timeout=60_000)
        return app

    return start


def is_answered(turn: Turn) -> bool:
    """Whether a reply went on to its end, or to the longest that the settings allow."""
    return isinstance(turn.events[-1], Finished) and turn.figures.tokens > 0


def told(app: Application) -> Notice:
    """The one notice that stands: a sentence or two, without a traceback."""
    (notice,) = app.views.notices.shown()
    assert notice.details == ""
    assert "\n" not in notice.text
    return notice


def test_a_folder_with_any_name_answers(start_with: Start, models: Path, ask: Ask) -> None:
    app = start_with(models)
    assert app.views.notices.shown() == []
    assert app.window.status_line.facts.full.startswith("tiny  ·  fp32  ·  cpu  ·  2 heads")
    ask(app)
    (turn,) = app.controller.turns
    assert is_answered(turn)
    assert app.views.panel.steps


def test_a_model_that_does_not_fit_is_refused_with_the_figures(
    start_with: Start, models: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, ask: Ask
) -> None:
    free = [300 * 2**20]
    monkeypatch.setattr(fit, "free_bytes", lambda _device: free[0])
    app = start_with(models)
    notice = told(app)
    assert (notice.topic, notice.ways) == (Topic.MODEL, (Way.LOAD_AGAIN, Way.OPEN_SETTINGS))
    assert "tiny needs about 0.4 GiB in fp32, and 0.3 GiB of memory are free" in notice.text
    assert "must be free), or choose a smaller model" in notice.text
    free[0] = 2**33  # other programs were closed
    app.views.notices.way_chosen.emit(Way.LOAD_AGAIN)
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=60_000)
    assert app.views.notices.shown() == []
    ask(app)


@pytest.mark.parametrize("damage", ["cut", "garbage", "config", "missing"])
def test_a_broken_model_is_named(start_with: Start, broken: Path, damage: str) -> None:
    weights, config = broken / "tiny" / "model.safetensors", broken / "tiny" / "config.json"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif damage == "garbage":
        weights.write_bytes(b"\xff" * 5000)
    elif damage == "config":
        config.write_text("{ broken", encoding="utf-8")
    else:
        weights.unlink()
    notice = told(start_with(broken))
    assert notice.topic is Topic.MODEL
    assert str(broken / "tiny") in notice.text


@pytest.mark.parametrize("damage", ["cut", "config", "missing", "other model"])
def test_broken_heads_are_named_and_the_model_answers_without(
    start_with: Start, broken: Path, damage: str, ask: Ask
) -> None:
    heads = broken / "heads"
    weights = next(heads.glob("*.safetensors"))
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "config":
        (heads / "config.json").write_text("{ broken", encoding="utf-8")
    elif damage == "missing":
        weights.unlink()
    else:
        shutil.rmtree(broken / "tiny")
        save_tiny_model(broken / "tiny", "qwen2", seed=5)
    app = start_with(broken)
    notice = told(app)
    assert (notice.topic, notice.is_error) == (Topic.HEADS, False)
    assert Way.OPEN_SETTINGS in notice.ways
    ask(app)
    assert is_answered(app.controller.turns[0])


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:115] . DefaultCPUAllocator: can't allocate memory: 8 bytes."),
    ],
)
def test_memory_that_runs_out_in_a_reply_loses_nothing(
    start_with: Start, models: Path, ask: Ask, wait_for_rest: Rest, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    app = start_with(models)
    ask(app, "a question")
    whole = app.controller.turns[0].answer
    model: Any = app.controller.model
    passes = [0]
    original = model.backbone.forward

    def fail(*given: object, **named: object) -> object:
        passes[0] += 1
        if passes[0] > 4:
            raise error
        return original(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(model.backbone, "forward", fail)
        ask(app, "another")
    notice = told(app)
    assert (notice.topic, notice.ways) == (Topic.REPLY, (Way.ASK_AGAIN, Way.OPEN_SETTINGS))
    assert "memory" in notice.text
    assert app.controller.turns[0].answer == whole
    assert not is_answered(app.controller.turns[1])
    assert app.controller.turns[1].state is MessageState.CUT
    assert app.store.messages.get(app.controller.turns[1].reply or 0).text == app.controller.turns[1].answer
    app.views.notices.way_chosen.emit(Way.ASK_AGAIN)
    wait_for_rest(app)
    assert is_answered(app.controller.turns[1])


_ALONE = """
import sys
from pathlib import Path

def refuse(event, _given):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"):
        print("CALLED", event, _given, flush=True)
        raise OSError(101, "Network is unreachable")

sys.addaudithook(refuse)
import psutil
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication
from app.application import Application, _open_chat
from app.controller import Phase

class Asker(QObject):
    asked = 0

    def take(self, phase):
        if phase is Phase.READY:
            self.asked += 1
            if self.asked > 2:
                print("OPEN", psutil.Process().net_connections(kind="inet"), flush=True)
                print("NOTICES", app.views.notices.shown(), flush=True)
                QTimer.singleShot(0, app.window.close)
            else:
                app.controller.send("a question")

qt = QApplication(sys.argv[:1])
app = Application(Path(sys.argv[1]), Path(sys.argv[1]) / "models", _open_chat)
asker = Asker()
app.controller.phase_changed.connect(asker.take)
app.show()
qt.exec()
print("ANSWERS", sum(bool(turn.figures.tokens) for turn in app.controller.turns), flush=True)
"""


def test_nothing_is_sent_anywhere(models: Path, profile: Path) -> None:
    profile.mkdir()
    settings = {"model": str(models / "tiny"), "heads": str(models / "heads"), "dtype": "fp32", "max_new_tokens": 24}
    (profile / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    environment |= {"QT_QPA_PLATFORM": "offscreen", "PYTHONIOENCODING": "utf-8"}
    ended = subprocess.run(
        [sys.executable, "-c", _ALONE, str(profile)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ended.stdout.splitlines() == ["OPEN []", "NOTICES []", "ANSWERS 2"], ended.stderr
