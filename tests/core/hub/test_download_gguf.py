"""A GGUF file comes from the Hub when it is named, becomes a model, and goes on where it broke off."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import FileNotChosen, LibraryError, NotOnHub
from medusa_core.hub.check import check
from medusa_core.hub.client import HubClient
from medusa_core.hub.download import download, unfinished
from medusa_core.hub.library import find
from medusa_core.hub.manifest import read_manifest
from tests.core.hub.getting import WEIGHTS, drain, get, models


def test_a_gguf_file_is_chosen_and_converted(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path
) -> None:
    tiny_repo.files = {"tiny.F32.gguf": tiny_gguf.read_bytes(), "other.gguf": b"no", "README.md": b"# Card"}
    tiny_repo.files["x-00001-of-00002.gguf"] = b"half"
    with pytest.raises(FileNotChosen, match=r"choose one of them: other\.gguf, tiny\.F32\.gguf\.$") as caught:
        get(client, tmp_path / "models")
    assert caught.value.files == {name: len(tiny_repo.files[name]) for name in ("other.gguf", "tiny.F32.gguf")}
    with pytest.raises(NotOnHub, match=r"no file 'third\.gguf'"):
        get(client, tmp_path / "models", gguf="third.gguf")
    _, folder = get(client, tmp_path / "models", gguf="tiny.F32.gguf")
    assert folder == tmp_path / "models" / "Maker" / "tiny.F32"
    assert (folder / WEIGHTS).is_file()
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.source, manifest.origin) == ("gguf", "Maker/Tiny/tiny.F32.gguf")
    assert [path.name for path in folder.parent.iterdir()] == ["tiny.F32"]
    fake_hub.served = {}
    get(client, tmp_path / "models", gguf="tiny.F32.gguf")
    assert fake_hub.served == {}


@pytest.mark.parametrize("there", [False, True])
def test_a_conversion_that_is_broken_off_anywhere_goes_on(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path, there: bool
) -> None:
    tiny_repo.files = {"tiny.F32.gguf": tiny_gguf.read_bytes()}
    folder = tmp_path / "Maker" / "tiny.F32"
    if there:
        get(client, tmp_path, gguf="tiny.F32.gguf")
        tiny_repo.commit, tiny_repo.files["README.md"] = "d" * 40, b"new"
    work = download(client, "Maker/Tiny", tmp_path, gguf="tiny.F32.gguf")
    while not next(work).stage.startswith("Reading model.safetensors"):
        pass
    work.close()
    manifest = read_manifest(folder) if folder.exists() else None
    assert (manifest.commit if manifest else "") == ("c" * 40 if there else ""), "what has the name is always whole"
    fake_hub.served = {}
    get(client, tmp_path, gguf="tiny.F32.gguf")
    assert "tiny.F32.gguf" not in fake_hub.served
    assert drain(check(find(tmp_path, "Maker/tiny.F32")))[1].whole
    assert [path.name for path in folder.parent.iterdir()] == ["tiny.F32"]


def test_what_a_download_killed_in_its_last_moment_left_goes_away(
    client: HubClient, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_repo.files = {"tiny.F32.gguf": tiny_gguf.read_bytes()}
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        get(client, tmp_path, gguf="tiny.F32.gguf")
    assert len(unfinished(tmp_path)) == 1
    get(client, tmp_path, gguf="tiny.F32.gguf")
    assert unfinished(tmp_path) == []


def test_a_gguf_file_in_parts_is_refused(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files = {"x-00001-of-00002.gguf": b"half", "x-00002-of-00002.GGUF": b"half"}
    with pytest.raises(NotOnHub, match="split into several"):
        get(client, tmp_path)
    with pytest.raises(LibraryError, match="one part of several"):
        get(client, tmp_path, gguf="x-00002-of-00002.GGUF")


@pytest.mark.parametrize("name", ["Q4/tiny.F32.gguf", "a/b/tiny.F32.GGUF", "tiny.F32.GGUF"])
def test_a_gguf_file_may_lie_in_a_folder_and_be_called_in_capitals(
    client: HubClient, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path, name: str
) -> None:
    cache = tmp_path / "models"
    tiny_repo.files = {name: tiny_gguf.read_bytes(), "other.gguf": b"no"}
    with pytest.raises(NotOnHub, match=re.escape(name)):
        get(client, cache)
    assert models(cache) == []
    _, folder = get(client, cache, gguf=name)
    assert folder == cache / "Maker" / "tiny.F32"
    assert drain(check(find(cache, "Maker/tiny.F32")))[1].whole
    assert [path.name for path in folder.parent.iterdir()] == ["tiny.F32"]
    tiny_repo.files["elsewhere/tiny.F32.gguf"] = b"another"
    with pytest.raises(LibraryError, match=rf"holds Maker/Tiny/{name}"):
        get(client, cache, gguf="elsewhere/tiny.F32.gguf")


@pytest.mark.parametrize(
    "name", ["../x.gguf", "a/../x.gguf", "/x.gguf", "a\\..\\x.gguf", "C:x.gguf", ".x/y.gguf", "a//b.gguf"]
)
def test_gguf_files_that_lead_out_are_not_taken(
    client: HubClient, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path, name: str
) -> None:
    tiny_repo.files = {name: tiny_gguf.read_bytes()}
    with pytest.raises((NotOnHub, LibraryError)):
        get(client, tmp_path / "models", gguf=name)
    assert models(tmp_path / "models") == []
    assert not list(tmp_path.rglob("*.gguf"))[1:], "but for the one that it was made of"
