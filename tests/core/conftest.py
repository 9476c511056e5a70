"""What several tests share: the default model, converted once and kept in the checkout's ignored cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core import hub


@pytest.fixture(scope="session")
def default_model_folder() -> Path:
    """The default model's folder. The first call converts it (half a minute); later runs find it in `.cache/models`."""
    cache = Path(__file__).resolve().parents[2] / ".cache" / "models"
    conversion = hub.model_folder(hub.DEFAULT, cache)
    while True:
        try:
            next(conversion)
        except StopIteration as finished:
            return Path(finished.value)
