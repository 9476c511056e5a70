"""The kinds of options there are: what each of them takes, and what people are told about it.

Knows nothing of which options the app has, of widgets or of files.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class When:
    """An option matters only while another one has one of these values."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(ABC):
    """One thing that can be set. Subclasses say which values it takes."""

    key: str
    section: str  # the page it is on
    label: str
    help: str  # one sentence or two, shown under the control
    default: Any
    group: str = ""  # a heading within the page, shared by neighbours
    needs_reload: bool = False  # takes effect when the model is loaded again
    needs_restart: bool = False  # takes effect when the app is started again
    is_content: bool = False  # written by the person: restoring defaults leaves it alone
    only_with: When | None = None

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

    def label_of(self, value: str) -> str:
        """What people read for one of the values."""
        return next(alternative.label for alternative in self.alternatives if alternative.value == value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Option):
    """A number in a range; with no decimals it is a whole one.

    Where `automatic` is given, the lowest value means just that and is ticked instead of typed.
    """

    low: float
    high: float
    step: float
    decimals: int = 0
    unit: str = ""
    at_low: str = ""  # shown in place of the lowest value: "off"
    automatic: str = ""  # the words beside the tick: "As many as pay"
    manual: float = 0  # what to begin with where the tick is taken away

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
class Presets(Option):
    """Texts by name that another option can be set to: those of the app, and the person's own, which are the value."""

    target: str  # key of the Text they are for
    built_in: tuple[tuple[str, str], ...]  # (name, text)

    def check(self, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.label} is {value!r}; it must be texts by name")
        if wrong := [name for name, text in value.items() if not isinstance(text, str) or not str(name).strip()]:
            raise ConfigError(f"{self.label} has {wrong[0]!r}; each needs a name and a text")
        return {str(name).strip(): text for name, text in value.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Option):
    """A folder on disk, or one of a few names with a meaning of their own."""

    names: tuple[str, ...]

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{self.label} is {value!r}; it must be a folder or one of {', '.join(self.names)}")
        return value.strip()
