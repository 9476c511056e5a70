"""The model manager in the whole app: get, pause, go on after a restart, import, verify, switch, remove."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from pytestqt.qtbot import QtBot
from safetensors.torch import save_file

from app.application import Application
from app.controller import Phase
from app.shelf import Wanted
from app.views.model_manager import ModelManager
from app.views.transfers import State
from medusa_core.config import HubConfig
from medusa_core.hub import fitting
from medusa_core.testing import ReplayChat
from medusa_core.tiny import save_tiny_model
from tests.app.test_drops import drop
from tests.core.hub.conftest import tiny_llama, write_gguf
from tests.core.hub.fake_hub import FakeHub, Repo

Start = Callable[..., Application]
KEY, NAME = "get:Maker/Tiny", "Maker/Tiny"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on this machine with one tiny model."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    hub = FakeHub()
    yield hub
    hub.close()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("made") / "Tiny", seed=3)


@pytest.fixture
def repo(server: FakeHub, tiny: Path) -> Repo:
    server.repos[NAME] = Repo({path.name: path.read_bytes() for path in tiny.iterdir()})
    return server.repos[NAME]


@pytest.fixture
def start(profile: Path, server: FakeHub, chat: ReplayChat, qtbot: QtBot) -> Iterator[Start]:
    """The app over the Hub of this machine."""
    started: list[Application] = []

    def replaying(*_: object) -> Iterator[object]:
        yield from ()
        return chat

    def start(*, ready: bool = True) -> Application:
        app = Application(profile, profile / "models", replaying, lambda: HubConfig(endpoint=server.url))
        started.append(app)
        app.show()
        phases = (Phase.READY,) if ready else (Phase.IDLE,)
        qtbot.waitUntil(lambda: app.controller.phase in phases and app.controller.loaded_as is not None, timeout=20_000)
        return app

    yield start
    for app in started:
        app.window.close()
        assert app.closed_cleanly


def opened(app: Application, qtbot: QtBot) -> ModelManager:
    app.window.models_action.trigger()
    manager = app.models.manager
    assert manager is not None
    qtbot.waitUntil(lambda: at_rest(app), timeout=20_000)
    return manager


def at_rest(app: Application) -> bool:
    return not (app.models.library.running or app.models.downloads.running)


def state(app: Application, key: str = KEY) -> State | None:
    return app.models.transfers[key].state if key in app.models.transfers else None


def put(tiny: Path, profile: Path, name: str, seed: int = 0) -> Path:
    return save_tiny_model(profile / "models" / name, seed=seed)


def get(app: Application, manager: ModelManager, qtbot: QtBot) -> None:
    manager.show_page(1)
    qtbot.keyClicks(manager.repo_edit, NAME)
    qtbot.keyClick(manager.repo_edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: state(app) in (State.DONE, State.FAILED, State.REFUSED, State.PAUSED), timeout=20_000)


def test_opening_it_asks_nothing_of_the_network(start: Start, server: FakeHub, qtbot: QtBot) -> None:
    app = start()
    manager = opened(app, qtbot)
    assert manager.isVisible()
    assert "fits this machine in" in " ".join(row.facts.text() for row in manager.offers.values())
    assert any("heads: published" in row.facts.text() for row in manager.offers.values())
    assert "heads: included" in manager.offers["default"].facts.text()
    assert not server.requests


def test_a_model_is_got_while_chatting_goes_on(start: Start, repo: Repo, qtbot: QtBot) -> None:
    app = start()
    manager = opened(app, qtbot)
    get(app, manager, qtbot)
    assert state(app) is State.DONE
    assert app.controller.phase is Phase.READY
    qtbot.waitUntil(lambda: at_rest(app) and app.models.shelf.has(NAME), timeout=20_000)
    row = next(row for row in manager.things.values() if row.name.full == NAME)
    assert "fp32" in row.facts.text()
    assert "apache-2.0" in row.facts.text()
    assert "not used yet" in row.facts.text()


def test_paused_it_goes_on_after_a_restart_with_the_rest_alone(
    start: Start, server: FakeHub, repo: Repo, profile: Path, qtbot: QtBot
) -> None:
    weights = "model.safetensors"
    size = len(repo.files[weights])
    server.faults[weights] = [("hang", size // 2)]
    app = start()
    manager = opened(app, qtbot)
    manager.repo_edit.setText(NAME)
    manager.get_button.click()
    qtbot.waitUntil(server.hung.is_set, timeout=20_000)
    qtbot.waitUntil(manager.transfers.rows[KEY].pause_button.isVisible, timeout=20_000)
    manager.transfers.rows[KEY].pause_button.click()
    assert manager.transfers.rows[KEY].text.text().startswith("pausing")
    assert not manager.transfers.rows[KEY].pause_button.isVisible()
    server.release.set()
    qtbot.waitUntil(lambda: state(app) is State.PAUSED, timeout=20_000)
    app.window.close()
    server.served = {}
    parts = (profile / "models").glob(f"*/.*.download/{weights}.part")
    there = sum(part.stat().st_size for part in parts)
    again = start()
    manager = opened(again, qtbot)
    row = manager.transfers.rows[KEY]
    assert row.text.text().startswith("paused")
    assert row.bar.value() > 0
    row.resume_button.click()
    qtbot.waitUntil(lambda: state(again) is State.DONE, timeout=20_000)
    assert server.served[weights] == size - there


def test_a_cancelled_download_leaves_nothing(start: Start, server: FakeHub, repo: Repo, qtbot: QtBot) -> None:
    server.faults["model.safetensors"] = [("hang", 1000)]
    app = start()
    manager = opened(app, qtbot)
    manager.get_asked.emit(Wanted(NAME))
    qtbot.waitUntil(server.hung.is_set, timeout=20_000)
    manager.transfers.rows[KEY].cancel_button.click()
    server.release.set()
    qtbot.waitUntil(lambda: KEY not in app.models.transfers and at_rest(app), timeout=20_000)
    assert not list(app.models._cache.glob("Maker/.Tiny.download"))
    assert KEY not in manager.transfers.rows


def test_a_pages_address_can_be_pasted(start: Start, server: FakeHub, repo: Repo, qtbot: QtBot) -> None:
    app = start()
    manager = opened(app, qtbot)
    manager.repo_edit.setText(f"{server.url}/{NAME}/tree/refs%2Fpr%2F1")
    manager.get_button.click()
    qtbot.waitUntil(lambda: state(app) is State.DONE, timeout=20_000)
    assert server.requests[0][1] == f"api/models/{NAME}/revision/refs/pr/1"
    manager.repo_edit.setText("https://elsewhere.example/x/y")
    manager.get_button.click()
    row = manager.transfers.rows["get:https://elsewhere.example/x/y"]
    assert "no page of the Hub" in row.text.text()
    row.cancel_button.click()
    qtbot.waitUntil(lambda: at_rest(app) and len(manager.transfers.rows) == 1, timeout=20_000)


def test_of_several_gguf_files_one_is_chosen(
    start: Start, server: FakeHub, repo: Repo, tmp_path: Path, qtbot: QtBot
) -> None:
    made = write_gguf(tiny_llama(tied=True), tmp_path / "made.gguf")
    repo.files = {"Q4/tiny.gguf": made.read_bytes(), "a&b.gguf": b"no"}
    app = start()
    manager = opened(app, qtbot)
    get(app, manager, qtbot)
    row = manager.transfers.rows[KEY]
    assert row.choose_button.isVisible()
    assert row.text.property("role") == "small", "a question, and nothing wrong"
    assert not row.anyway_button.isVisible()
    labels = [action.text().partition("  ")[0] for action in row.choices.actions()]
    assert labels == ["Q4/tiny.gguf", "a&&b.gguf"]
    row.choices.actions()[0].trigger()
    qtbot.waitUntil(lambda: state(app, "get:Maker/tiny") is State.DONE, timeout=30000)
    assert KEY not in manager.transfers.rows
    qtbot.waitUntil(lambda: at_rest(app) and app.models.shelf.has("Maker/tiny"), timeout=20_000)


def test_what_the_hub_does_not_have_is_said_in_place(start: Start, qtbot: QtBot) -> None:
    app = start()
    manager = opened(app, qtbot)
    get(app, manager, qtbot)
    assert state(app) is State.FAILED
    assert NAME in manager.transfers.rows[KEY].text.text()
    manager.transfers.rows[KEY].cancel_button.click()
    qtbot.waitUntil(lambda: at_rest(app) and KEY not in manager.transfers.rows, timeout=20_000)


def test_what_does_not_fit_is_refused_with_a_way_round(
    start: Start, server: FakeHub, repo: Repo, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medusa_core.errors import DoesNotFit

    def refuse(*_: object) -> object:
        raise DoesNotFit("Maker/Tiny needs 80 GB, and 2 GB are free.")

    app = start()
    manager = opened(app, qtbot)
    monkeypatch.setattr(fitting, "_best", refuse)
    get(app, manager, qtbot)
    assert state(app) is State.REFUSED
    assert "80 GB" in manager.transfers.rows[KEY].text.text()
    assert "model.safetensors" not in server.served
    manager.transfers.rows[KEY].anyway_button.click()
    qtbot.waitUntil(lambda: state(app) is State.DONE, timeout=20_000)


def test_a_dropped_folder_is_imported_and_verified(start: Start, tiny: Path, tmp_path: Path, qtbot: QtBot) -> None:
    source = tmp_path / "My model (new)"
    source.symlink_to(tiny)
    app = start()
    manager = opened(app, qtbot)
    drop(manager, source)
    qtbot.waitUntil(lambda: at_rest(app) and len(manager.things) == 1, timeout=20_000)
    (row,) = manager.things.values()
    row.check_action.trigger()
    qtbot.waitUntil(lambda: at_rest(app) and "Whole" in row.note.text(), timeout=20_000)
    assert row.thing is not None
    (row.thing.entry.folder / "model.safetensors").write_bytes(b"short")
    row.check_action.trigger()
    qtbot.waitUntil(lambda: at_rest(app) and "Damaged" in row.note.text(), timeout=20_000)


def test_a_file_that_is_no_model_is_refused_in_place(start: Start, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "notes.txt").write_text("no model")
    app = start()
    manager = opened(app, qtbot)
    manager.import_asked.emit([tmp_path / "notes.txt"])
    qtbot.waitUntil(lambda: at_rest(app), timeout=20_000)
    (row,) = manager.transfers.rows.values()
    assert "neither a GGUF file nor one of published heads" in row.text.text()


def test_a_file_of_published_heads_is_imported(start: Start, tmp_path: Path, qtbot: QtBot) -> None:
    source = tmp_path / "Heads of mine" / "medusa_lm_head.safetensors"
    source.parent.mkdir()
    shapes = {"0.linear.weight": (8, 8), "0.linear.bias": (8,), "1.weight": (32, 8)}
    save_file({f"0.{name}": torch.ones(shape) for name, shape in shapes.items()}, source)
    app = start()
    manager = opened(app, qtbot)
    manager.import_asked.emit([source])
    qtbot.waitUntil(lambda: at_rest(app) and len(manager.things) == 1, timeout=20_000)
    (row,) = manager.things.values()
    assert row.name.full == "Heads-of-mine"
    assert row.facts.text().startswith("Heads")


def test_removing_asks_and_says_what_it_frees(start: Start, tiny: Path, profile: Path, qtbot: QtBot) -> None:
    folder = put(tiny, profile, "Maker/Tiny")
    app = start()
    manager = opened(app, qtbot)
    row = manager.things[str(folder)]
    row.remove_action.trigger()
    assert not row.question.isHidden()
    assert "frees" in row._asked.text()
    row.leave()
    assert folder.is_dir()
    row.ask()
    row.remove_button.click()
    qtbot.waitUntil(lambda: at_rest(app) and not manager.things, timeout=20_000)
    assert not folder.exists()
    assert "free again" in manager.transfers.rows[f"remove:{folder}"].text.text()


def test_the_folder_is_shown_in_the_file_manager(
    start: Start, tiny: Path, profile: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tiny, profile, "Tiny")
    shown: list[str] = []
    opens = [True]

    def open_folder(url: QUrl) -> bool:
        shown.append(url.toLocalFile())
        return opens[0]

    monkeypatch.setattr(QDesktopServices, "openUrl", open_folder)
    app = start()
    row = opened(app, qtbot).things[str(folder)]
    row.reveal_action.trigger()
    assert (shown, row.note.text()) == ([str(folder)], "")
    opens[0] = False
    row.reveal_action.trigger()
    assert str(folder) in row.note.text(), "where nothing opens folders, at least the place is said"


def test_the_window_says_what_is_missing_and_how_to_add_it(start_app: Start, qtbot: QtBot) -> None:
    def nothing(*_: object) -> Iterator[object]:
        from medusa_core.errors import ModelNotFound

        raise ModelNotFound("The default model is not installed: no .gguf file was found.")
        yield

    app = start_app(nothing, ready=False)
    welcome = app.views.chat._welcome
    qtbot.waitUntil(welcome.models_button.isVisible, timeout=5000)
    assert "not installed" in app.views.notices.shown()[0].text
    welcome.recording_button.click()
    window = app.panel_controller.recording_window
    assert window is not None
    assert window.recording is not None
    welcome.models_button.click()
    assert app.models.manager is not None
    assert app.models.manager.isVisible()
    qtbot.waitUntil(lambda: at_rest(app), timeout=20_000)


def test_a_loaded_model_leaves_no_way_to_look_for_one(app: Application) -> None:
    assert not app.views.chat._welcome.models_button.isVisible()
