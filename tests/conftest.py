"""What every test needs: no screen, and no thread left behind. Knows nothing of what is tested."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# A busy machine may stall for seconds; how long an example took says nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before anything opens a window


def pytest_configure(config: pytest.Config) -> None:
    """Qt warnings fail a test, except what the screenless platform says about itself."""
    config.addinivalue_line("qt_log_ignore", "^This plugin does not support ")
