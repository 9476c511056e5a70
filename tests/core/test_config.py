"""Options refuse what lies outside their range, and say the range."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from medusa_core import config
from medusa_core.config import (
    DEVICES,
    DTYPES,
    DecodingConfig,
    DistillConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TrainConfig,
    TypicalAcceptance,
)
from medusa_core.errors import ConfigError

KINDS = [
    DecodingConfig,
    DistillConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TrainConfig,
    TypicalAcceptance,
]

RANGES: list[tuple[Any, str, float, float]] = [
    (TypicalAcceptance, "epsilon", 0, 1),
    (TypicalAcceptance, "delta", 0, 1),
    (TypicalAcceptance, "temperature", 0.01, 5),
    (SamplingAcceptance, "temperature", 0, 5),
    (SamplingAcceptance, "top_p", 0, 1),
    (SamplingAcceptance, "top_k", 0, 1_000_000),
    (SamplingAcceptance, "min_p", 0, 1),
    (SamplingAcceptance, "repetition_penalty", 0.1, 10),
    (DecodingConfig, "nodes", 0, 256),
    (DecodingConfig, "max_new_tokens", 1, 1_000_000),
    (DecodingConfig, "seed", 0, 2**63 - 1),
    (DistillConfig, "self_written", 0, 1),
    (DistillConfig, "places", 1, 4096),
    (TrainConfig, "num_heads", 1, 16),
    (TrainConfig, "num_layers", 0, 8),
    (TrainConfig, "head_weight", 0, 1),
    (TrainConfig, "held_out", 0.001, 0.5),
    (TrainConfig, "tree_nodes", 1, 256),
]


def test_the_papers_defaults() -> None:
    assert DecodingConfig().acceptance == GreedyAcceptance()
    typical = TypicalAcceptance()
    assert (typical.epsilon, typical.delta) == (0.09, 0.3)
    assert (DecodingConfig().max_new_tokens, DecodingConfig().nodes, DecodingConfig().drafter) == (512, 0, "auto")


@pytest.mark.parametrize(("kind", "name", "low", "high"), RANGES)
def test_a_range_holds_its_ends_and_nothing_beyond(kind: Any, name: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(kind(**{name: value}), name) == value
    for value in (low - 1, high + 1, math.nan, math.inf, -math.inf):
        with pytest.raises(ConfigError, match=f"^{name} is .* between {low}") as caught:
            kind(**{name: value})
        assert str(value) in str(caught.value)


CLASSES = [kind for kind in vars(config).values() if dataclasses.is_dataclass(kind)]
WHOLE = [(kind, field) for kind in CLASSES for field in dataclasses.fields(kind) if field.type == "int"]


@pytest.mark.parametrize(("kind", "field"), WHOLE, ids=lambda value: getattr(value, "__name__", None) or value.name)
def test_a_count_takes_no_fraction(kind: Any, field: Any) -> None:
    for value in (field.default + 0.5, float(field.default)):
        with pytest.raises(ConfigError, match=f"^{field.name} is {value}; it must be a whole number between"):
            kind(**{field.name: value})
    with pytest.raises(ConfigError, match=f"^{field.name} is True; it must"):
        kind(**{field.name: True})


@pytest.mark.parametrize(("name", "known"), [("dtype", DTYPES), ("device", DEVICES)])
def test_a_name_outside_the_list_is_refused_with_the_list(name: str, known: tuple[str, ...]) -> None:
    for value in known:
        ModelConfig(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"{name} is 'fp8'; it must be one of {', '.join(known)}"):
        ModelConfig(**{name: "fp8"})  # type: ignore[arg-type]


def test_no_temperature_or_a_wrong_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="temperatures is empty"):
        DistillConfig(temperatures=())
    with pytest.raises(ConfigError, match="temperature is -1"):
        DistillConfig(temperatures=(0.0, -1.0))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_options_are_frozen_and_unknown_ones_refused(kind: Any) -> None:
    options = kind()
    for field in dataclasses.fields(options):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(options, field.name, getattr(options, field.name))
    with pytest.raises(TypeError, match="epsilom"):
        kind(epsilom=0.1)


def test_a_changed_copy_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="nodes is -1"):
        dataclasses.replace(DecodingConfig(), nodes=-1)
