"""A JSON object on disk that is never half written. Knows nothing of what it holds."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medusa_core.errors import ConfigError


class JsonFile:
    """Replaced at once when written; a damaged one is kept aside, never deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """What the file holds; empty where there is none. Raises ConfigError where it cannot be understood."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, OSError) as error:
            raise ConfigError(f"{self.path.name} could not be read: {error}") from error
        if not isinstance(data, dict):
            raise ConfigError(f"{self.path.name} holds {type(data).__name__} instead of an object")
        return data

    def write(self, data: Mapping[str, Any]) -> None:
        """Replace the file at once. Raises OSError where the folder is full or read-only; the old file then stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name, suffix=".new")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(data, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def keep_aside(self) -> Path:
        """Rename the file so that a new one can be written; earlier ones kept aside stay too."""
        aside, number = self.path.with_name(self.path.name + ".broken"), 2
        while aside.exists():
            aside, number = self.path.with_name(f"{self.path.name}.broken-{number}"), number + 1
        self.path.replace(aside)
        return aside
