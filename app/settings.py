"""What people can set: options as declared data, and the values they chose.

The settings dialog is generated from `OPTIONS`; defaults come from the library's configuration. Knows nothing of
widgets, of threads, or of how a setting is put to use.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.json_file import JsonFile
from medusa_core.config import (
    DEVICES,
    DTYPES,
    Acceptance,
    DecodingConfig,
    GreedyAcceptance,
    ModelConfig,
    TypicalAcceptance,
)
from medusa_core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(ABC):
    """One thing that can be set. Subclasses say which values it takes."""

    key: str
    section: str
    label: str
    help: str  # one sentence or two, shown under the control
    default: Any
    needs_reload: bool = False  # takes effect when the model is loaded again
    only_with: tuple[str, Any] | None = None  # (key, value) of the option that makes this one matter

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The value, in this option's type. Raises ConfigError where it is none of the possible ones."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the values of a Choice."""

    value: str
    label: str
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Option):
    """One of a few named values."""

    alternatives: tuple[Alternative, ...]

    def check(self, value: Any) -> str:
        names = [alternative.value for alternative in self.alternatives]
        if value not in names:
            raise ConfigError(f"{self.label} is {value!r}; it must be one of {', '.join(names)}")
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Option):
    """A number in a range; with no decimals it is a whole one."""

    low: float
    high: float
    step: float
    decimals: int = 0
    unit: str = ""

    def check(self, value: Any) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"{self.label} is {value!r}; it must be a number")
        if not self.low <= value <= self.high:
            raise ConfigError(f"{self.label} is {value}; it must lie between {self.low:g} and {self.high:g}")
        return float(value) if self.decimals else int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Option):
    """Free text of several lines."""

    placeholder: str = ""

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ConfigError(f"{self.label} is {value!r}; it must be text")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Option):
    """A folder on disk, or one of a few names with a meaning of their own."""

    names: tuple[str, ...]

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{self.label} is {value!r}; it must be a folder or one of {', '.join(self.names)}")
        return value.strip()


_DECODING, _TYPICAL, _MODEL = DecodingConfig(), TypicalAcceptance(), ModelConfig()
_WITH_TYPICAL = ("acceptance", "typical")
_DTYPE_LABELS = {
    "auto": "Automatic",
    "fp32": "fp32, 32-bit",
    "bf16": "bf16, 16-bit",
    "fp16": "fp16, 16-bit",
    "nf4": "nf4, 4-bit",
}
_DEVICE_LABELS = {"auto": "Automatic", "cpu": "CPU", "cuda": "GPU (CUDA)"}

OPTIONS: tuple[Option, ...] = (
    Choice(
        key="acceptance",
        section="Decoding",
        label="Acceptance",
        help="Which of the heads’ guesses are kept.",
        default="greedy",
        alternatives=(
            Alternative(
                "greedy",
                "Greedy",
                "Keeps a guess only where it is the model’s own first choice: the reply is the one plain greedy "
                "decoding writes (in half precision, rounding can tip a close call).",
            ),
            Alternative(
                "typical",
                "Typical",
                "Keeps a guess the model finds plausible enough: more tokens per step, but the reply only "
                "approximates what the model would write by itself.",
            ),
        ),
    ),
    Number(
        key="epsilon",
        section="Decoding",
        label="Epsilon, ε",
        help="Highest probability a guess ever needs. Lower keeps more guesses.",
        default=_TYPICAL.epsilon,
        low=0.0,
        high=1.0,
        step=0.01,
        decimals=2,
        only_with=_WITH_TYPICAL,
    ),
    Number(
        key="delta",
        section="Decoding",
        label="Delta, δ",
        help="Scales what a guess needs where the model is unsure: δ·exp(−entropy). Lower keeps more guesses.",
        default=_TYPICAL.delta,
        low=0.0,
        high=1.0,
        step=0.05,
        decimals=2,
        only_with=_WITH_TYPICAL,
    ),
    Number(
        key="temperature",
        section="Decoding",
        label="Temperature",
        help="Flattens the model’s probabilities before guesses are judged. Higher keeps more guesses.",
        default=_TYPICAL.temperature,
        low=0.05,
        high=2.0,
        step=0.05,
        decimals=2,
        only_with=_WITH_TYPICAL,
    ),
    Number(
        key="nodes",
        section="Decoding",
        label="Draft nodes",
        help="Guesses checked in one pass of the model at most; 0: as many as pay on this machine.",
        default=_DECODING.nodes,
        low=0,
        high=64,
        step=1,
        unit="per step",
    ),
    Number(
        key="max_new_tokens",
        section="Reply",
        label="Longest reply",
        help="The reply is cut there, and says so.",
        default=_DECODING.max_new_tokens,
        low=1,
        high=32_768,
        step=64,
        unit="tokens",
    ),
    Text(
        key="system_prompt",
        section="Reply",
        label="System prompt",
        help="Given to the model before the conversation.",
        default="",
        placeholder="Empty: the model’s own default",
    ),
    Choice(
        key="theme",
        section="Appearance",
        label="Theme",
        help="",
        default="system",
        alternatives=(
            Alternative("system", "As the system"),
            Alternative("light", "Light"),
            Alternative("dark", "Dark"),
        ),
    ),
    Place(
        key="model",
        section="Model",
        label="Model",
        help="“default” is SmolLM2-135M-Instruct; or the folder of another chat model.",
        default=_MODEL.model,
        names=("default",),
        needs_reload=True,
    ),
    Place(
        key="heads",
        section="Model",
        label="Medusa heads",
        help="“default” are the heads shipped with the app, “paper” those exactly as in the paper, “none” turns "
        "drafting off; or a folder of heads.",
        default=_MODEL.heads,
        names=("default", "paper", "none"),
        needs_reload=True,
    ),
    Choice(
        key="dtype",
        section="Model",
        label="Precision",
        help="Fewer bits need less memory; nf4 is meant for GPUs.",
        default=_MODEL.dtype,
        alternatives=tuple(Alternative(name, _DTYPE_LABELS.get(name, name)) for name in DTYPES),
        needs_reload=True,
    ),
    Choice(
        key="device",
        section="Model",
        label="Device",
        help="Automatic takes the GPU where there is one.",
        default=_MODEL.device,
        alternatives=tuple(Alternative(name, _DEVICE_LABELS.get(name, name)) for name in DEVICES),
        needs_reload=True,
    ),
)
BY_KEY: Mapping[str, Option] = {option.key: option for option in OPTIONS}


@dataclass(frozen=True)
class Settings:
    """A value for every option."""

    values: Mapping[str, Any] = field(default_factory=lambda: {option.key: option.default for option in OPTIONS})

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def with_value(self, key: str, value: Any) -> Settings:
        """The same settings with one value changed. Raises ConfigError where the option does not take it."""
        return Settings({**self.values, key: BY_KEY[key].check(value)})

    def matters(self, option: Option) -> bool:
        """Whether the option has an effect, given the others."""
        return option.only_with is None or self[option.only_with[0]] == option.only_with[1]

    def model(self) -> ModelConfig:
        return ModelConfig(model=self["model"], heads=self["heads"], dtype=self["dtype"], device=self["device"])

    def decoding(self, *, explain: bool) -> DecodingConfig:
        return DecodingConfig(
            acceptance=self._acceptance(),
            nodes=self["nodes"],
            max_new_tokens=self["max_new_tokens"],
            explain=explain,
        )

    def _acceptance(self) -> Acceptance:
        if self["acceptance"] == "greedy":
            return GreedyAcceptance()
        return TypicalAcceptance(epsilon=self["epsilon"], delta=self["delta"], temperature=self["temperature"])


def load_settings(file: JsonFile) -> tuple[Settings, str]:
    """The settings in the file, and one sentence where something was wrong with it, else "".

    Keys this version does not know are passed over: a newer version may have written them.
    """
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
    if not problems:
        return settings, ""
    return settings, _explain_broken(file, problems)


def _explain_broken(file: JsonFile, problems: list[str]) -> str:
    try:
        aside = file.keep_aside()
    except OSError:
        return f"Some settings could not be read, so their defaults are used ({'; '.join(problems)})."
    return (
        f"Some settings could not be read, so their defaults are used ({'; '.join(problems)}). "
        f"The old file was kept as {aside.name}."
    )
