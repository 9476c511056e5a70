"""The door: arguments, and a plain word where there is no display."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import main

ROOT = Path(main.__file__).parent


def test_without_a_display_it_says_so_before_qt_is_touched() -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "main.py"], cwd=ROOT, env={}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "There is no display" in result.stderr
    assert "PySide6" not in result.stderr


def test_a_screenshot_needs_the_smoke_test(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--screenshot", "a.png"])
    assert ended.value.code == 2
    assert "--smoke-test" in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can lack a display server")
@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"])
def test_any_display_will_do(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(other, raising=False)
    assert main.display_is_missing()
    monkeypatch.setenv(name, "x")
    assert not main.display_is_missing()
