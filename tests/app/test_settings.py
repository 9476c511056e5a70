"""Settings: declared data whose defaults are the library's, kept in a file that is never half written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.json_file import JsonFile
from app.option_table import BY_KEY, HIGHEST_SEED, OPTIONS
from app.options import Choice
from app.settings import Settings, load_settings, read_settings
from medusa_core.config import (
    DRAFTERS,
    DecodingConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TypicalAcceptance,
)
from medusa_core.errors import ConfigError

CHANGED: dict[str, Any] = {
    "acceptance": "typical",
    "epsilon": 0.12,
    "delta": 0.4,
    "temperature": 0.9,
    "top_p": 0.8,
    "top_k": 40,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "seed": 7,
    "drafter": "medusa",
    "nodes": 24,
    "tree": "ranked",
    "max_new_tokens": 77,
    "system_prompt": "Süß — \n line two",
    "prompt_presets": {"Mine": "Be kind."},
    "theme": "dark",
    "font_size": 18,
    "scale": 200,
    "data_folder": "/data",
    "model": "/models/qwen",
    "heads": "none",
    "dtype": "bf16",
    "device": "cpu",
}


def changed() -> Settings:
    settings = Settings()
    for key, value in CHANGED.items():
        settings = settings.with_value(key, value)
    return settings


def test_the_defaults_are_the_library_s() -> None:
    assert Settings().model() == ModelConfig()
    seeded = Settings().with_value("seed", 0)
    assert seeded.decoding(explain=False) == DecodingConfig(acceptance=SamplingAcceptance())
    assert seeded.with_value("acceptance", "greedy").decoding(explain=False) == DecodingConfig()
    assert SamplingAcceptance() == SamplingAcceptance(temperature=0.7, top_p=0.9)


def test_every_default_is_a_value_its_option_takes() -> None:
    for option in OPTIONS:
        assert option.check(option.default) == option.default
    assert len(BY_KEY) == len(OPTIONS)


def test_settings_become_configurations() -> None:
    settings = changed()
    assert settings.model() == ModelConfig(model="/models/qwen", heads="none", dtype="bf16", device="cpu")
    assert settings.decoding(explain=True) == DecodingConfig(
        acceptance=TypicalAcceptance(epsilon=0.12, delta=0.4, temperature=0.9),
        drafter="medusa",
        nodes=24,
        tree="ranked",
        max_new_tokens=77,
        explain=True,
    )
    assert settings.with_value("acceptance", "sampling").decoding(explain=False) == DecodingConfig(
        acceptance=SamplingAcceptance(temperature=0.9, top_p=0.8, top_k=40, min_p=0.05, repetition_penalty=1.1),
        drafter="medusa",
        nodes=24,
        tree="ranked",
        max_new_tokens=77,
        seed=7,
    )
    assert settings.with_value("acceptance", "greedy").decoding(explain=False).acceptance == GreedyAcceptance()


def test_every_option_survives_the_file(tmp_path: Path) -> None:
    assert set(CHANGED) == set(BY_KEY)
    file = JsonFile(tmp_path / "new folder" / "settings.json")
    file.write(changed().values)
    loaded, problem = load_settings(file)
    assert loaded == changed()
    assert problem == ""
    assert [path.name for path in file.path.parent.iterdir()] == ["settings.json"]


def test_no_file_means_defaults_and_no_problem(tmp_path: Path) -> None:
    assert load_settings(JsonFile(tmp_path / "settings.json")) == (Settings(), "")


@pytest.mark.parametrize("content", ["{", "[]", '"text"', "\x00\xff"])
def test_a_broken_file_is_kept_aside_each_time(tmp_path: Path, content: str) -> None:
    file = JsonFile(tmp_path / "settings.json")
    for name in ("settings.json.broken", "settings.json.broken-2"):
        file.path.write_text(content, encoding="latin-1")
        loaded, problem = load_settings(file)
        assert loaded == Settings()
        assert name in problem
        assert (tmp_path / name).read_text(encoding="latin-1") == content
        assert not file.path.exists()


def test_one_bad_value_costs_only_itself(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "settings.json")
    file.write({"nodes": 4000, "max_new_tokens": 99, "of a later version": True})
    loaded, problem = load_settings(file)
    assert loaded["nodes"] == Settings()["nodes"]
    assert loaded["max_new_tokens"] == 99
    assert "Tree size is 4000" in problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acceptance", "generous"),
        ("epsilon", float("nan")),
        ("epsilon", 1.5),
        ("nodes", True),
        ("nodes", "16"),
        ("system_prompt", None),
        ("prompt_presets", ["a"]),
        ("prompt_presets", {"a": 1}),
        ("prompt_presets", {" ": "text"}),
        ("seed", -2),
        ("scale", 50),
        ("model", "  "),
    ],
)
def test_values_out_of_range_are_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=BY_KEY[key].label.split(",")[0]):
        Settings().with_value(key, value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = JsonFile(tmp_path / "settings.json")
    file.write({"nodes": 3})

    def full(_descriptor: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.write({"nodes": 4})
    assert json.loads(file.path.read_text(encoding="utf-8")) == {"nodes": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_only_the_numbers_of_the_chosen_rule_matter() -> None:
    def mattering(rule: str) -> set[str]:
        settings = Settings().with_value("acceptance", rule)
        return {option.key for option in OPTIONS if option.only_with and settings.matters(option)}

    drawn = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed"}
    assert mattering("greedy") == {"nodes"}
    assert mattering("typical") == {"temperature", "epsilon", "delta", "nodes"}
    assert mattering("sampling") == {*drawn, "nodes"}


def test_what_sizes_and_shapes_the_tree_matters_only_to_those_who_draft() -> None:
    def matters(drafter: str, key: str) -> bool:
        return Settings().with_value("drafter", drafter).matters(BY_KEY[key])

    assert [matters(name, "nodes") for name in ("auto", "lookup", "none")] == [True, True, False]
    assert [matters(name, "tree") for name in ("auto", "medusa")] == [False, True]


def test_every_reply_draws_a_new_seed_unless_one_is_fixed() -> None:
    seeds = {Settings().decoding(explain=False).seed for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed <= HIGHEST_SEED for seed in seeds)
    fixed = Settings().with_value("seed", 11)
    assert {fixed.decoding(explain=False).seed for _ in range(3)} == {11}


def test_every_drafter_offered_is_one_of_the_library_s() -> None:
    option = BY_KEY["drafter"]
    assert isinstance(option, Choice)
    assert {alternative.value for alternative in option.alternatives} == set(DRAFTERS) - {"hybrid"}


def test_restoring_defaults_leaves_alone_what_was_written() -> None:
    restored = changed().restored()
    assert restored["prompt_presets"] == {"Mine": "Be kind."}
    assert restored == Settings().with_value("prompt_presets", {"Mine": "Be kind."})


def test_a_settings_file_of_the_first_version_still_loads(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "settings.json")
    old = {"acceptance": "typical", "epsilon": 0.1, "temperature": 0.5, "nodes": 16, "theme": "dark", "heads": "none"}
    file.write(old)
    loaded, problem = load_settings(file)
    assert problem == ""
    assert {key: loaded[key] for key in old} == old


def test_reading_alone_moves_nothing(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "settings.json")
    file.write({"scale": 200, "nodes": "many"})
    assert read_settings(file)["scale"] == 200
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_the_data_folder_is_the_profile_unless_chosen(tmp_path: Path) -> None:
    assert Settings().data_folder(tmp_path) == tmp_path
    assert Settings().with_value("data_folder", "/data").data_folder(tmp_path) == Path("/data")
