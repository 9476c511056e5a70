"""Settings: declared data whose defaults are the library's, kept in a file that is never half written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.json_file import JsonFile
from app.settings import BY_KEY, OPTIONS, Settings, load_settings
from medusa_core.config import DecodingConfig, GreedyAcceptance, ModelConfig, TypicalAcceptance
from medusa_core.errors import ConfigError

CHANGED: dict[str, Any] = {
    "acceptance": "typical",
    "epsilon": 0.12,
    "delta": 0.4,
    "temperature": 0.9,
    "nodes": 24,
    "max_new_tokens": 77,
    "system_prompt": "Süß — \n line two",
    "theme": "dark",
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
    assert Settings().decoding(explain=False) == DecodingConfig()


def test_every_default_is_a_value_its_option_takes() -> None:
    for option in OPTIONS:
        assert option.check(option.default) == option.default
    assert len(BY_KEY) == len(OPTIONS)


def test_settings_become_configurations() -> None:
    settings = changed()
    assert settings.model() == ModelConfig(model="/models/qwen", heads="none", dtype="bf16", device="cpu")
    assert settings.decoding(explain=True) == DecodingConfig(
        acceptance=TypicalAcceptance(epsilon=0.12, delta=0.4, temperature=0.9),
        nodes=24,
        max_new_tokens=77,
        explain=True,
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
    assert "Draft nodes is 4000" in problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acceptance", "generous"),
        ("epsilon", float("nan")),
        ("epsilon", 1.5),
        ("nodes", True),
        ("nodes", "16"),
        ("system_prompt", None),
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


def test_typical_s_numbers_matter_only_with_typical() -> None:
    assert not Settings().matters(BY_KEY["epsilon"])
    assert Settings().with_value("acceptance", "typical").matters(BY_KEY["epsilon"])
    assert Settings().matters(BY_KEY["nodes"])
