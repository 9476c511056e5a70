"""What Qt needs: the missing packages, the command that installs them, and whether there is a display."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import qt_system

FONTS = ["DejaVuSans.ttf", "DejaVuSansMono.ttf"]


@pytest.fixture(autouse=True)
def _on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(qt_system, "_installed_fonts", lambda: FONTS)


def lacking(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(qt_system, "_loads", lambda name: name not in names)


def test_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    assert qt_system.missing_packages(windows=True) == []


def test_libraries_become_packages_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "libglib-2.0.so.0", "libgthread-2.0.so.0", "libEGL.so.1", "libxcb-cursor.so.0")
    assert qt_system.missing_packages(windows=True) == ["libegl1", "libglib2.0-0", "libxcb-cursor0"]


def test_tests_need_no_window_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "libxcb-cursor.so.0")
    assert qt_system.missing_packages(windows=False) == []


def test_other_systems_bring_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, *qt_system.BASE_LIBRARIES)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert qt_system.missing_packages(windows=True) == []


def test_missing_fonts_are_a_package_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    monkeypatch.setattr(qt_system, "_installed_fonts", lambda: FONTS[:1])
    assert qt_system.missing_packages(windows=False) == [qt_system.FONT_PACKAGE]


@pytest.mark.parametrize(
    ("fonts", "enough"),
    [
        (FONTS, True),
        ([], False),
        (["DejaVuSans.ttf"], False),
        (["LiberationMono-Regular.ttf"], False),
        (["/f/a.ttf: Some Family", "/f/b.ttf: Other Family:spacing=100"], True),
    ],
)
def test_a_text_font_and_a_fixed_width_one(fonts: list[str], enough: bool) -> None:
    assert qt_system.has_fonts(fonts) is enough


def test_loading_tells_there_from_missing() -> None:
    assert qt_system._loads("libc.so.6")
    assert not qt_system._loads("libmedusa-chat-no-such-library.so.1")


def test_ordinary_user_gets_the_command_and_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qt_system, "is_root", lambda: False)
    monkeypatch.setattr(qt_system.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert qt_system.install(["libegl1"]) is False
    text = qt_system.advice(["libegl1", "libgl1"], "The window")
    assert text.splitlines()[-1].strip() == "sudo apt-get install -y --no-install-recommends libegl1 libgl1"


def test_other_distributions_get_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qt_system.shutil, "which", lambda name: None)
    assert "apt-get" not in qt_system.advice(["libegl1"], "The window")
    assert "libegl1" in qt_system.advice(["libegl1"], "The window")


@pytest.mark.parametrize(("statuses", "installed"), [([0, 0], True), ([1, 0], True), ([0, 100], False)])
def test_root_installs_with_apt(statuses: list[int], installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        calls.append(command)
        return SimpleNamespace(returncode=statuses[len(calls) - 1])

    monkeypatch.setattr(qt_system, "is_root", lambda: True)
    monkeypatch.setattr(qt_system.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    assert qt_system.install(["libegl1"]) is installed
    assert [command[1] for command in calls] == ["update", "install"]
    assert "sudo" not in calls[1]
    assert "libegl1" in calls[1]


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, "are not set"),
        ({"QT_QPA_PLATFORM": "offscreen"}, None),
        ({"QT_QPA_PLATFORM": "minimal:enable_fonts"}, None),
        ({"QT_QPA_PLATFORM": "xcb"}, "are not set"),
        ({"QT_QPA_PLATFORM": "wayland-egl"}, "are not set"),
        ({"DISPLAY": ":1"}, None),
        ({"DISPLAY": ":2"}, "DISPLAY is ':2'"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "WAYLAND_DISPLAY is 'wayland-0'"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":1"}, None),
    ],
)
def test_display_is_there_or_one_sentence_says_why_not(environ: dict[str, str], problem: str | None) -> None:
    said = qt_system.display_problem(environ, answers=lambda display: display == ":1")
    if problem is None:
        assert said is None
    else:
        assert said is not None
        assert problem in said
        assert "\n" not in said


def test_wayland_socket_counts_as_a_display(tmp_path: Path) -> None:
    (tmp_path / "wayland-0").touch()
    environ = {"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert qt_system.display_problem(environ) is None


def test_x_display_over_the_network_answers_only_while_it_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        number = server.getsockname()[1] - 6000
        assert qt_system._x_answers(f"127.0.0.1:{number}.0")
    assert not qt_system._x_answers(f"127.0.0.1:{number}.0")


def test_unusual_display_name_is_left_to_qt() -> None:
    assert qt_system._x_answers("/private/tmp/launchd/org.xquartz:zero")
