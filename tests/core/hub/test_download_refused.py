"""What keeps a model from coming from the Hub, said before any weights come: its name, permission, room, memory."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medusa_core.errors import (
    AccessRefused,
    DiskFull,
    DoesNotFit,
    HubError,
    HubUnreachable,
    LibraryError,
    NotOnHub,
)
from medusa_core.hub.client import HubClient
from medusa_core.hub.download import download
from tests.core.hub.getting import WEIGHTS, drain, get, models, stage


def test_a_model_that_is_not_there(client: HubClient, fake_hub: Any, tmp_path: Path) -> None:
    with pytest.raises(AccessRefused, match=r"no such model, or it is private.*HF_TOKEN"):
        get(client, tmp_path)
    assert models(tmp_path) == [], "nor an empty folder of its maker's"


def test_a_revision_and_a_file_that_are_not_there(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    with pytest.raises(NotOnHub, match="has no revision 'v9'"):
        get(client, tmp_path, revision="v9")
    fake_hub.faults[WEIGHTS] = [("status", 404, {"X-Error-Code": "EntryNotFound"})]
    with pytest.raises(NotOnHub, match=r"has no file 'model\.safetensors'"):
        get(client, tmp_path)
    fake_hub.faults["api"] = [("status", 404, {})]
    with pytest.raises(NotOnHub, match="no model Maker/Tiny"):
        get(client, tmp_path)
    fake_hub.faults["api"] = [("status", 418, {"X-Error-Message": "a teapot"})]
    with pytest.raises(HubError, match=r"answered 418.*a teapot"):
        get(client, tmp_path)


@pytest.mark.parametrize("token", ["", "hf_mine"])
def test_a_gated_model_says_which_page_to_visit(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, token: str
) -> None:
    tiny_repo.gated = True
    fake_hub.tokens = {"hf_mine"}
    client.config = replace(client.config, token=token)
    with pytest.raises(AccessRefused, match=r"gated.*Visit https://huggingface\.co/Maker/Tiny, agree") as caught:
        get(client, tmp_path)
    assert ("settings/tokens" in str(caught.value)) is not bool(token)
    assert "hf_mine" not in str(caught.value)


def test_a_token_opens_a_private_model_and_does_not_leave_the_hub(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    tiny_repo.private = True
    fake_hub.tokens = {"hf_mine"}
    client.config = replace(client.config, token="hf_mine")
    get(client, tmp_path)
    hosts = {(host, headers.get("authorization")) for host, _, headers in fake_hub.requests}
    assert hosts == {("hub", "Bearer hf_mine"), ("cdn", None)}
    assert "hf_mine" not in repr(client.config)


def test_a_token_that_is_not_accepted(client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path) -> None:
    client.config = replace(client.config, token="hf_wrong")
    with pytest.raises(AccessRefused, match="does not accept the token"):
        get(client, tmp_path)


def test_offline_nothing_is_asked(client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path) -> None:
    client.config = replace(client.config, offline=True)
    with pytest.raises(HubUnreachable, match="Offline mode"):
        get(client, tmp_path)
    assert fake_hub.requests == []


def test_a_disk_without_room_is_seen_before_any_weights(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(DiskFull, match=r"Maker/Tiny needs 0\.0\d GB more.*0\.00 GB free"):
        get(client, tmp_path)
    assert fake_hub.served == {}


def test_what_does_not_fit_is_refused_before_the_weights_come(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    def check(listing: Any, config: Path) -> None:
        assert json.loads(config.read_text())["model_type"] == "llama"
        assert listing.parameters == 1000
        raise DoesNotFit("too large")

    with pytest.raises(DoesNotFit):
        get(client, tmp_path, check=check)
    assert WEIGHTS not in fake_hub.served
    assert not stage(tmp_path).exists()


def test_a_repository_without_a_model(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files = {"data.csv": b"1"}
    with pytest.raises(NotOnHub, match=r"holds no model.*data\.csv"):
        get(client, tmp_path)


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "a/b/c", "one", "a/..", "-x/y", "a/b.git"])
def test_names_that_are_no_models(client: HubClient, fake_hub: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(LibraryError, match="no name of a model on the Hub"):
        drain(download(client, name, tmp_path))
    assert fake_hub.requests == []


def test_a_folder_that_is_not_from_the_hub_is_not_replaced(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    mine = tmp_path / "Maker" / "Tiny"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("{}")
    with pytest.raises(LibraryError, match="not from the Hub"):
        get(client, tmp_path)
    assert [path.name for path in mine.iterdir()] == ["config.json"]
