"""What every test needs: no screen, no stopwatch. Works with and without pytest-qt. Knows nothing of what is tested."""

from __future__ import annotations

import contextlib
import os

import pytest
from hypothesis import HealthCheck, settings

# A busy machine may stall for seconds; how long an example took says nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before anything opens a window


def pytest_addoption(parser: pytest.Parser) -> None:
    """Without pytest-qt (`-p no:pytest-qt`, for the library alone) its options must still be known."""
    for name in ("qt_api", "qt_log_level_fail"):
        with contextlib.suppress(ValueError):  # pytest-qt is here and has said so itself
            parser.addini(name, "an option of pytest-qt")


def pytest_configure(config: pytest.Config) -> None:
    """Qt warnings fail a test, except what the screenless platform says about itself."""
    if config.pluginmanager.hasplugin("pytest-qt"):
        config.addinivalue_line("qt_log_ignore", "^This plugin does not support ")
