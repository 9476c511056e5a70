"""What people have set: a value for every option, turned into the library's configurations, and kept in a file.

Knows nothing of widgets, of threads, or of how a setting is put to use.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.json_file import JsonFile
from app.option_table import ANY_SEED, BY_KEY, HIGHEST_SEED, OPTIONS
from app.options import Option
from medusa_core.config import (
    Acceptance,
    DecodingConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TypicalAcceptance,
)
from medusa_core.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    """A value for every option."""

    values: Mapping[str, Any] = field(default_factory=lambda: {option.key: option.default for option in OPTIONS})

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def with_value(self, key: str, value: Any) -> Settings:
        """The same settings with one value changed. Raises ConfigError where the option does not take it."""
        return Settings({**self.values, key: BY_KEY[key].check(value)})

    def restored(self) -> Settings:
        """Every option at its default, but for what the person wrote."""
        return Settings({option.key: self[option.key] if option.is_content else option.default for option in OPTIONS})

    def matters(self, option: Option) -> bool:
        """Whether the option has an effect, given the others."""
        return option.only_with is None or self[option.only_with.key] in option.only_with.values

    def model(self) -> ModelConfig:
        return ModelConfig(model=self["model"], heads=self["heads"], dtype=self["dtype"], device=self["device"])

    def decoding(self, *, explain: bool) -> DecodingConfig:
        """For one reply: where no seed is fixed, each call draws a new one."""
        return DecodingConfig(
            acceptance=self._acceptance(),
            drafter=self["drafter"],
            nodes=self["nodes"],
            tree=self["tree"],
            max_new_tokens=self["max_new_tokens"],
            seed=self._seed(),
            explain=explain,
        )

    def data_folder(self, default: Path) -> Path:
        """Where the person wants their data; `default` unless they chose."""
        return default if self["data_folder"] == "default" else Path(self["data_folder"]).expanduser()

    def _acceptance(self) -> Acceptance:
        if self["acceptance"] == "greedy":
            return GreedyAcceptance()
        if self["acceptance"] == "typical":
            return TypicalAcceptance(epsilon=self["epsilon"], delta=self["delta"], temperature=self["temperature"])
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        return SamplingAcceptance(**{name: self[name] for name in names})

    def _seed(self) -> int:
        if self["acceptance"] != "sampling":
            return 0  # nothing is drawn
        seed: int = self["seed"]
        return secrets.randbelow(HIGHEST_SEED + 1) if seed == ANY_SEED else seed


def load_settings(file: JsonFile) -> tuple[Settings, str]:
    """The settings in the file, and one sentence where something was wrong with it, else "".

    Keys this version does not know are passed over: a newer version may have written them.
    """
    settings, problems = _read(file)
    if not problems:
        return settings, ""
    return settings, _explain_broken(file, problems)


def read_settings(file: JsonFile) -> Settings:
    """What can be read of the file, nothing said of the rest and nothing moved."""
    return _read(file)[0]


def _read(file: JsonFile) -> tuple[Settings, list[str]]:
    settings, problems = Settings(), []
    try:
        data = file.read()
        for key in BY_KEY.keys() & data.keys():
            try:
                settings = settings.with_value(key, data[key])
            except ConfigError as error:
                problems.append(str(error))
    except ConfigError as error:
        problems.append(str(error))
    return settings, problems


def _explain_broken(file: JsonFile, problems: list[str]) -> str:
    try:
        aside = file.keep_aside()
    except OSError:
        return f"Some settings could not be read, so their defaults are used ({'; '.join(problems)})."
    return (
        f"Some settings could not be read, so their defaults are used ({'; '.join(problems)}). "
        f"The old file was kept as {aside.name}."
    )
