"""Two starts on one profile: the second calls the first to the front and leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Application, _send_to_first
from app.conversations import AlreadyOpen, ConversationStore, Owner
from app.single_instance import Doorbell, address_of, ring

ROOT = Path(__file__).resolve().parents[2]
_SECOND = """
import sys
from pathlib import Path
from app.application import Options, run

sys.exit(run(Options(profile=Path(sys.argv[1]))))
"""


def test_the_second_start_brings_the_first_to_the_front(app: Application, profile: Path, qtbot: QtBot) -> None:
    app.window.showMinimized()
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    second = subprocess.Popen(
        [sys.executable, "-c", _SECOND, str(profile)], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )
    qtbot.waitUntil(lambda: second.poll() is not None, timeout=30_000)
    assert second.stderr is not None
    error = second.stderr.read()
    second.stderr.close()
    assert (second.returncode, error) == (0, "")
    assert not app.window.isMinimized()
    assert app.window.isVisible()


def test_a_profile_of_a_process_that_does_not_answer_is_told(
    profile: Path, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ConversationStore(profile, "no such socket")
    with pytest.raises(AlreadyOpen) as caught:
        Application(profile, profile / "models", lambda *_: None)  # type: ignore[arg-type]
    assert _send_to_first(caught.value) == 1
    assert str(os.getpid()) in capsys.readouterr().err
    store.close()


def test_nobody_is_rung_without_an_address() -> None:
    assert not ring("")
    assert not ring("medusa-chat-nobody")
    assert _send_to_first(AlreadyOpen(Path("/somewhere"), Owner(1, ""))) == 1


def test_what_a_dead_process_left_is_no_obstacle(qtbot: QtBot, tmp_path: Path) -> None:
    address = address_of(tmp_path)
    first, second = Doorbell(), Doorbell()
    assert first.listen(address)
    assert second.listen(address)
    first.close()
    second.close()


def test_the_next_start_on_the_profile_is_a_first_one(start_app: Callable[..., Application], profile: Path) -> None:
    start_app().window.close()
    again = start_app()
    assert again.store.is_saved
