"""A crash is written down while the process dies, and told at the next start."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl

from app.application import Application
from app.crash_log import FILE_NAME, KEPT, CrashLog
from app.views.notices import Topic, Way

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., Application]
CRASH = "Medusa Chat 0\n\nFatal Python error: Segmentation fault\n\nThread 0x00 (most recent call first):\n  File x\n"

_CRASHING = """
import faulthandler, sys
from pathlib import Path
from app.crash_log import CrashLog

def in_the_middle_of_something():
    faulthandler._sigsegv()

assert CrashLog(Path(sys.argv[1])).begin(("Medusa Chat 0.1.0",))
in_the_middle_of_something()
"""


@pytest.fixture(autouse=True)
def _the_test_run_keeps_its_own_handler() -> Iterator[None]:
    yield
    faulthandler.enable(sys.__stderr__)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "profile é ☃"


def test_a_crash_tells_where_it_happened(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    ended = subprocess.run([sys.executable, "-c", _CRASHING, str(folder)], cwd=ROOT, env=environment, check=False)
    assert ended.returncode != 0
    log = CrashLog(folder)
    assert log.found is not None
    assert "in_the_middle_of_something" in log.read()
    assert "Medusa Chat 0.1.0" in log.read()
    assert not (folder / FILE_NAME).exists()
    assert CrashLog(folder).found is None  # told once


def test_a_process_that_was_killed_has_nothing_to_tell(folder: Path) -> None:
    log = CrashLog(folder)
    assert log.begin(("Medusa Chat",))
    assert faulthandler.is_enabled()
    assert CrashLog(folder).found is None
    log.end()
    assert list(folder.iterdir()) == []


def test_the_newest_logs_stay(folder: Path) -> None:
    folder.mkdir()
    found = []
    for number in range(KEPT + 3):
        path = folder / FILE_NAME
        path.write_text(CRASH, encoding="utf-8")
        os.utime(path, (number * 1000, number * 1000))
        found.append(CrashLog(folder).found)
    assert sorted(folder.iterdir()) == sorted(found[-KEPT:])


def test_a_folder_that_takes_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    log = CrashLog(tmp_path / "file" / "profile")
    assert not log.begin(())
    log.end()


def test_it_is_offered_at_the_next_start(profile: Path, start_app: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    profile.mkdir()
    (profile / FILE_NAME).write_text(CRASH, encoding="utf-8")
    app = start_app()
    log = CrashLog(profile)
    app.watch(log)
    log.end()
    (notice,) = app.views.notices.shown()
    assert (notice.topic, notice.ways, notice.is_error) == (Topic.CRASH, (Way.OPEN_FOLDER,), False)
    assert log.found is not None
    assert log.found.name in notice.text
    assert notice.details == CRASH
    opened: list[str] = []

    def open_url(url: QUrl) -> bool:
        opened.append(url.toLocalFile())
        return len(opened) == 1

    monkeypatch.setattr("app.controller.QDesktopServices.openUrl", open_url)
    app.views.notices.way_chosen.emit(Way.OPEN_FOLDER)
    assert opened == [str(profile)]
    app.views.notices.way_chosen.emit(Way.OPEN_FOLDER)  # and where there is no file manager
    assert str(profile) in app.views.notices.shown()[-1].text
    app.views.notices.settle(Topic.CRASH)
    assert log.found.exists()
