"""A model comes from the Hub whole, with all that is needed and nothing else, and by one download at a time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import HubUnreachable, LibraryError
from medusa_core.hub.alone import LOCKS
from medusa_core.hub.check import check
from medusa_core.hub.client import DownloadProgress, HubClient
from medusa_core.hub.download import download
from medusa_core.hub.library import discard, find, remove
from medusa_core.hub.manifest import read_manifest
from tests.core.hub.getting import WEIGHTS, drain, get, models, stage

NEEDED = {
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    WEIGHTS,
    "tokenizer.json",
    "tokenizer_config.json",
}


def test_what_is_needed_comes_and_nothing_else(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    events, folder = get(client, tmp_path)
    assert folder == tmp_path / "Maker" / "Tiny"
    arrived = {path.name: path.read_bytes() for path in folder.iterdir()}
    manifest = read_manifest(folder)
    assert manifest is not None
    assert set(arrived) == NEEDED | {"medusa-model.json"}
    assert set(manifest.files) == NEEDED
    for name in NEEDED:
        assert arrived[name] == tiny_repo.files[name]
        assert manifest.files[name].sha256 == hashlib.sha256(arrived[name]).hexdigest()
    assert (manifest.source, manifest.origin, manifest.commit) == ("hub", "Maker/Tiny", tiny_repo.commit)
    assert manifest.licence == "apache-2.0"
    assert sum(fake_hub.served.values()) == sum(len(tiny_repo.files[name]) for name in NEEDED)
    assert [path.name for path in (tmp_path / "Maker").iterdir()] == ["Tiny"]
    assert events[-1].done == events[-1].total == sum(fake_hub.served.values())


def test_progress_counts_bytes_and_says_how_fast(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    events = [event for event in get(client, tmp_path)[0] if isinstance(event, DownloadProgress) and event.total]
    done = [event.done for event in events]
    assert done == sorted(done)
    assert {event.unit for event in events} == {"bytes"}
    middle = [event for event in events if event.stage == f"Downloading {WEIGHTS}" and event.rate]
    assert len(middle) > 3
    assert middle[0].seconds_left == (middle[0].total - middle[0].done) / middle[0].rate
    assert DownloadProgress("x", 1, 2).seconds_left is None


def test_no_request_but_those_for_the_model_is_made(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    get(client, tmp_path)
    paths = [path for _, path, _ in fake_hub.requests]
    assert paths[0] == "api/models/Maker/Tiny/revision/main"
    assert all("Maker/Tiny" in path for path in paths)
    assert len(paths) == 1 + len(NEEDED) + sum(tiny_repo.is_lfs(name) for name in NEEDED)
    assert {headers["accept-encoding"] for _, _, headers in fake_hub.requests} == {"identity"}


def test_a_model_that_is_there_is_not_fetched_again(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    get(client, tmp_path)
    fake_hub.served = {}
    events, _ = get(client, tmp_path)
    assert fake_hub.served == {}
    assert events[-1].stage == "Maker/Tiny is there already"
    (tmp_path / "Maker" / "Tiny" / "config.json").unlink()
    get(client, tmp_path)
    assert (tmp_path / "Maker" / "Tiny" / "config.json").is_file()


def test_a_newer_commit_takes_the_place_of_the_older(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    _, folder = get(client, tmp_path)
    tiny_repo.commit, tiny_repo.files["README.md"] = "d" * 40, b"new"
    get(client, tmp_path)
    assert (folder / "README.md").read_bytes() == b"new"
    assert [path.name for path in folder.parent.iterdir()] == ["Tiny"]


def test_what_a_newer_commit_left_alone_is_not_fetched_again(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    _, folder = get(client, tmp_path)
    tiny_repo.commit, tiny_repo.files["README.md"] = "d" * 40, b"new"
    fake_hub.served = {}
    get(client, tmp_path)
    assert WEIGHTS not in fake_hub.served
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]
    (folder / WEIGHTS).write_bytes(b"damaged")
    tiny_repo.commit = "e" * 40
    get(client, tmp_path)
    assert fake_hub.served[WEIGHTS] == len(tiny_repo.files[WEIGHTS]), "what was damaged here comes anew"
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]


def test_a_commit_can_be_asked_for(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    _, folder = get(client, tmp_path, revision=tiny_repo.commit)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.revision == tiny_repo.commit


def test_two_at_once_do_not_write_one_model(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    work = download(client, "Maker/Tiny", tmp_path)
    next(work)
    with pytest.raises(LibraryError, match="being downloaded"):
        get(client, tmp_path)
    work.close()
    get(client, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="a file that is open cannot be removed there")
def test_who_came_before_the_lock_was_given_back_holds_the_same_lock(
    client: HubClient, tiny_repo: Any, tmp_path: Path
) -> None:
    import fcntl

    work = download(client, "Maker/Tiny", tmp_path)
    next(work)
    with next((tmp_path / LOCKS).iterdir()).open("wb") as waiting:  # as another program opens it before it locks it
        work.close()
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(LibraryError, match="being downloaded"):
            get(client, tmp_path)


@pytest.mark.parametrize("take_away", [remove, discard])
def test_what_is_being_downloaded_is_not_removed(
    client: HubClient, tiny_repo: Any, tmp_path: Path, take_away: Any
) -> None:
    work = download(client, "Maker/Tiny", tmp_path)
    while not list(stage(tmp_path).glob("*.part")):
        next(work)
    with pytest.raises(LibraryError, match="Maker/Tiny is being downloaded now, so it is left alone"):
        take_away(tmp_path, "Maker/Tiny")
    drain(work)
    assert drain(check(find(tmp_path, "Maker/Tiny")))[1].whole
    assert discard(tmp_path, "Maker/Tiny") == 0


def test_a_broken_off_download_can_be_removed(client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 5000)] + [("status", 500, {})] * 5
    with pytest.raises(HubUnreachable):
        get(client, tmp_path)
    assert remove(tmp_path, "Maker/Tiny") > 5000
    assert models(tmp_path) == []


def test_pickled_weights_come_only_where_there_are_no_others(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    del tiny_repo.files[WEIGHTS]
    _, folder = get(client, tmp_path)
    assert (folder / "pytorch_model.bin").read_bytes() == b"pickled"


def test_published_heads_are_got_too(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files = {"config.json": b'{"medusa_num_heads": 2}', "medusa_lm_head.pt": b"pickled", "x.txt": b"no"}
    _, folder = get(client, tmp_path)
    assert {path.name for path in folder.iterdir()} == {"config.json", "medusa_lm_head.pt", "medusa-model.json"}
    tiny_repo.files["medusa_lm_head.safetensors"] = b"tensors"
    tiny_repo.commit = "f" * 40
    get(client, tmp_path)
    assert not (folder / "medusa_lm_head.pt").exists()
    del tiny_repo.files["config.json"]
    tiny_repo.commit = "e" * 40
    get(client, tmp_path)
    assert find(tmp_path, "Maker/Tiny").kind == "heads"
    assert not (folder / "config.json").exists()


def test_adapters_come_with_the_heads_they_belong_to(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files = {
        "config.json": b'{"format": "medusa-heads"}',
        "heads.safetensors": b"tensors",
        "statistics.json": b"{}",
        "adapters/adapter_config.json": b"{}",
        "adapters/adapter_model.safetensors": b"lora",
        "adapters/other.bin": b"no",
    }
    _, folder = get(client, tmp_path)
    arrived = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert arrived == {*tiny_repo.files, "medusa-model.json"} - {"adapters/other.bin"}
    report = drain(check(find(tmp_path, "Maker/Tiny")))[1]
    assert [problem for problem in report.problems if problem.startswith("adapters/")] == []
    (folder / "adapters" / "adapter_model.safetensors").write_bytes(b"bent")
    report = drain(check(find(tmp_path, "Maker/Tiny")))[1]
    assert "adapters/adapter_model.safetensors is not what arrived" in report.problems


def test_a_broken_off_download_keeps_its_adapters(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files = {
        "config.json": b'{"format": "medusa-heads"}',
        "heads.safetensors": b"tensors",
        "adapters/adapter_config.json": b"{}",
        "adapters/adapter_model.safetensors": b"lora",
    }
    work = download(client, "Maker/Tiny", tmp_path)
    while not (stage(tmp_path) / "adapters" / "adapter_model.safetensors").is_file():
        next(work)
    work.close()
    (stage(tmp_path) / "adapters" / "left.json").write_bytes(b"stale")
    (stage(tmp_path) / "empty").mkdir()
    _, folder = get(client, tmp_path)
    assert {path.name for path in (folder / "adapters").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert not (folder / "empty").exists()


def test_file_names_that_lead_out_are_not_taken(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files |= {"../../evil.json": b"x", "..\\evil.model": b"x", "sub/config.json": b"x"}
    _, folder = get(client, tmp_path / "models")
    assert {path.name for path in folder.iterdir()} == NEEDED | {"medusa-model.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["models"]
