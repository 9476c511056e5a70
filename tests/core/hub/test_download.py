"""A model comes from the Hub whole, or not at all; what was there when it broke off is not fetched twice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock

from medusa_core.config import HubConfig
from medusa_core.errors import (
    AccessRefused,
    DiskFull,
    DoesNotFit,
    DownloadDamaged,
    HubError,
    HubUnreachable,
    LibraryError,
    NotOnHub,
)
from medusa_core.events import Progress
from medusa_core.hub.client import DownloadProgress, HubClient
from medusa_core.hub.download import download, unfinished
from medusa_core.hub.library import remove
from medusa_core.hub.manifest import read_manifest

ROOT = Path(__file__).resolve().parents[3]
WEIGHTS = "model.safetensors"
NEEDED = {
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    WEIGHTS,
    "tokenizer.json",
    "tokenizer_config.json",
}


def drain(work: Generator[Progress, None, Any]) -> tuple[list[Progress], Any]:
    events = []
    while True:
        try:
            events.append(next(work))
        except StopIteration as finished:
            return events, finished.value


def get(client: HubClient, cache: Path, **options: Any) -> tuple[list[Progress], Path]:
    return drain(download(client, "Maker/Tiny", cache, **options))


def stage(cache: Path) -> Path:
    return cache / "Maker" / ".Tiny.download"


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
    fake_hub.served.clear()
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


def test_a_commit_can_be_asked_for(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    _, folder = get(client, tmp_path, revision=tiny_repo.commit)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.revision == tiny_repo.commit


def test_closing_pauses_and_the_next_call_fetches_the_rest(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    size = len(tiny_repo.files[WEIGHTS])
    kept = size // 2
    fake_hub.faults[WEIGHTS] = [("hang", kept)]  # the server must not go on sending, so that bytes can be counted
    work = download(client, "Maker/Tiny", tmp_path)
    for event in work:
        if event.total and event.done == event.total - size + kept:
            break
    work.close()
    part = stage(tmp_path) / f"{WEIGHTS}.part"
    assert part.read_bytes() == tiny_repo.files[WEIGHTS][:kept]
    (waiting,) = unfinished(tmp_path)
    assert (waiting.name, waiting.repo, waiting.gguf) == ("Maker/Tiny", "Maker/Tiny", "")
    assert waiting.done == waiting.total - (size - kept)
    fake_hub.served.clear()
    _, folder = get(client, tmp_path)
    assert fake_hub.served == {WEIGHTS: size - kept}
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]
    assert unfinished(tmp_path) == []


def test_a_download_killed_at_half_transfers_only_the_rest(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    size = len(tiny_repo.files[WEIGHTS])
    fake_hub.faults[WEIGHTS] = [("hang", size // 2)]
    environment = os.environ | {"HF_ENDPOINT": fake_hub.url, "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    command = [sys.executable, "-m", "medusa_core", "models", "get", "Maker/Tiny", "--anyway", "--cache", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    part = stage(tmp_path) / f"{WEIGHTS}.part"
    try:
        assert fake_hub.hung.wait(120)
        while not (part.is_file() and part.stat().st_size == size // 2):
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        fake_hub.release.set()
    assert part.read_bytes() == tiny_repo.files[WEIGHTS][: size // 2]
    fake_hub.served.clear()
    _, folder = get(client, tmp_path)
    assert fake_hub.served == {WEIGHTS: size - size // 2}
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]


def test_a_connection_cut_in_the_middle_goes_on_where_it_was(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, ticking: Any
) -> None:
    size = len(tiny_repo.files[WEIGHTS])
    fake_hub.faults[WEIGHTS] = [("cut", size // 3)] * 2
    events, folder = get(client, tmp_path)
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]
    assert fake_hub.served[WEIGHTS] == size
    assert any("trying again in 1 s" in event.stage for event in events)
    assert ticking.slept == 2.0  # one second after each: bytes had come in between


def test_a_server_that_falls_silent_is_asked_again(fake_hub: Any, tiny_repo: Any, tmp_path: Path, ticking: Any) -> None:
    size = len(tiny_repo.files[WEIGHTS])
    fake_hub.faults[WEIGHTS] = [("hang", 1000)]
    config = HubConfig(endpoint=fake_hub.url, silence_seconds=0.3)
    client = HubClient(config, sleep=ticking.sleep, clock=ticking.clock)
    events, folder = get(client, tmp_path)
    client.close()
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]
    assert fake_hub.served[WEIGHTS] == size
    assert any(event.stage.startswith("The Hub does not answer") for event in events)


def test_a_server_that_ignores_ranges_sends_everything(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    size = len(tiny_repo.files[WEIGHTS])
    fake_hub.faults[WEIGHTS] = [("cut", size // 2), ("ignoring range",)]
    _, folder = get(client, tmp_path)
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]
    assert fake_hub.served[WEIGHTS] == size // 2 + size


def test_cut_at_the_same_place_again_and_again_is_given_up(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 1000)] + [("cut", 0)] * 20
    with pytest.raises(HubUnreachable, match=r"5 tries.*is kept"):
        get(client, tmp_path)
    assert len(fake_hub.faults[WEIGHTS]) == 16
    assert (stage(tmp_path) / f"{WEIGHTS}.part").stat().st_size == 1000


def test_the_same_bytes_once_more_are_no_progress(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    fake_hub.faults[WEIGHTS] = [("cut ignoring range", 1000)] * 20
    with pytest.raises(HubUnreachable, match="5 tries"):
        get(client, tmp_path)
    assert len(fake_hub.faults[WEIGHTS]) == 15


def test_another_range_than_was_asked_for_is_not_appended(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 1000), ("wrong range",)]
    _, folder = get(client, tmp_path)
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]


def test_416_begins_anew(client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 1000), ("status", 416, {})]
    _, folder = get(client, tmp_path)
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
@pytest.mark.parametrize("fault", ["corrupt", "longer"])
def test_a_wrong_checksum_is_fetched_once_more(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, name: str, fault: str
) -> None:
    fake_hub.faults[name] = [(fault,)]
    events, folder = get(client, tmp_path)
    assert (folder / name).read_bytes() == tiny_repo.files[name]
    assert f"{name} arrived damaged; fetching it once more" in [event.stage for event in events]


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_twice_the_wrong_checksum_is_an_error_and_leaves_no_model(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, name: str
) -> None:
    fake_hub.faults[name] = [("corrupt",), ("corrupt",)]
    with pytest.raises(DownloadDamaged, match=rf"{name} of Maker/Tiny does not match its checksum.*another network"):
        get(client, tmp_path)
    assert not (tmp_path / "Maker" / "Tiny").exists()
    assert not (stage(tmp_path) / f"{name}.part").exists()


def test_a_part_that_is_damaged_on_the_disk_is_found_and_fetched_anew(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 5000)] + [("status", 500, {})] * 5
    with pytest.raises(HubUnreachable):
        get(client, tmp_path)
    part = stage(tmp_path) / f"{WEIGHTS}.part"
    part.write_bytes(bytes(5000))
    _, folder = get(client, tmp_path)
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]


def test_parts_of_a_file_that_changed_on_the_hub_are_dropped_and_others_kept(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path
) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 5000)] + [("status", 500, {})] * 5
    with pytest.raises(HubUnreachable):
        get(client, tmp_path)
    tiny_repo.commit = "e" * 40
    tiny_repo.files[WEIGHTS] = tiny_repo.files[WEIGHTS][::-1]
    fake_hub.served.clear()
    _, folder = get(client, tmp_path)
    assert fake_hub.served == {WEIGHTS: len(tiny_repo.files[WEIGHTS])}
    assert (folder / WEIGHTS).read_bytes() == tiny_repo.files[WEIGHTS]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_busy_hub_is_waited_for_as_it_asks(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, ticking: Any, status: int
) -> None:
    fake_hub.faults["api"] = [("status", status, {"Retry-After": "7"})]
    fake_hub.faults[WEIGHTS] = [("status", status, {})] * 2
    get(client, tmp_path)
    assert ticking.slept == 7 + 1 + 2


def test_a_hub_that_asks_to_wait_long_is_left_to_the_user(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, ticking: Any
) -> None:
    fake_hub.faults["api"] = [("status", 429, {"Retry-After": "3600"})]
    with pytest.raises(HubUnreachable, match=r"busy \(429\), and asks to wait 60 minutes"):
        get(client, tmp_path)
    assert ticking.slept == 0


def test_a_hub_that_stays_busy_is_given_up(client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path) -> None:
    fake_hub.faults["api"] = [("status", 503, {})] * 9
    with pytest.raises(HubUnreachable, match=r"trouble of its own \(503\) \(5 tries\)"):
        get(client, tmp_path)
    assert len(fake_hub.faults["api"]) == 4


def test_a_model_that_is_not_there(client: HubClient, fake_hub: Any, tmp_path: Path) -> None:
    with pytest.raises(AccessRefused, match=r"no such model, or it is private.*HF_TOKEN"):
        get(client, tmp_path)
    assert list((tmp_path / "Maker").iterdir()) == []


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


def test_a_disk_that_fills_up_keeps_what_has_come(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medusa_core.hub import fetch

    written = 0
    write = fetch._write

    def fill_up(part: Any, data: bytes) -> None:
        nonlocal written
        written += len(data)
        if part.name.endswith(f"{WEIGHTS}.part") and written > 200_000:
            raise OSError(28, "No space left on device")
        write(part, data)

    monkeypatch.setattr(fetch, "_write", fill_up)
    with pytest.raises(DiskFull, match=r"The disk is full: [\d,]+ bytes of model\.safetensors are missing.*goes on"):
        get(client, tmp_path)
    kept = (stage(tmp_path) / f"{WEIGHTS}.part").stat().st_size
    assert kept
    monkeypatch.setattr(fetch, "_write", write)
    fake_hub.served.clear()
    get(client, tmp_path)
    assert fake_hub.served == {WEIGHTS: len(tiny_repo.files[WEIGHTS]) - kept}


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


def test_two_at_once_do_not_write_one_model(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    work = download(client, "Maker/Tiny", tmp_path)
    next(work)
    with pytest.raises(LibraryError, match="being downloaded"):
        get(client, tmp_path)
    work.close()
    assert not FileLock(tmp_path / "Maker" / ".Tiny.lock").is_locked
    get(client, tmp_path)


def test_a_broken_off_download_can_be_removed(client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path) -> None:
    fake_hub.faults[WEIGHTS] = [("cut", 5000)] + [("status", 500, {})] * 5
    with pytest.raises(HubUnreachable):
        get(client, tmp_path)
    assert remove(tmp_path, "Maker/Tiny") > 5000
    assert list(tmp_path.iterdir()) == []


def test_a_gguf_file_is_chosen_and_converted(
    client: HubClient, fake_hub: Any, tiny_repo: Any, tmp_path: Path, tiny_gguf: Path
) -> None:
    tiny_repo.files = {"tiny.F32.gguf": tiny_gguf.read_bytes(), "other.gguf": b"no", "README.md": b"# Card"}
    with pytest.raises(NotOnHub, match=r"choose one with --file: other\.gguf, tiny\.F32\.gguf"):
        get(client, tmp_path / "models")
    with pytest.raises(NotOnHub, match=r"no file 'third\.gguf'"):
        get(client, tmp_path / "models", gguf="third.gguf")
    _, folder = get(client, tmp_path / "models", gguf="tiny.F32.gguf")
    assert folder == tmp_path / "models" / "Maker" / "tiny.F32"
    assert (folder / WEIGHTS).is_file()
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.source, manifest.origin) == ("gguf", "Maker/Tiny/tiny.F32.gguf")
    assert [path.name for path in folder.parent.iterdir()] == ["tiny.F32"]
    fake_hub.served.clear()
    get(client, tmp_path / "models", gguf="tiny.F32.gguf")
    assert fake_hub.served == {}


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


def test_a_repository_without_a_model(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files = {"data.csv": b"1"}
    with pytest.raises(NotOnHub, match=r"holds no model.*data\.csv"):
        get(client, tmp_path)


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "a/b/c", "one", "a/..", "-x/y", "a/b.git"])
def test_names_that_are_no_models(client: HubClient, fake_hub: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(LibraryError, match="no name of a model on the Hub"):
        drain(download(client, name, tmp_path))
    assert fake_hub.requests == []


def test_file_names_that_lead_out_are_not_taken(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    tiny_repo.files |= {"../../evil.json": b"x", "..\\evil.model": b"x", "sub/config.json": b"x"}
    _, folder = get(client, tmp_path / "models")
    assert {path.name for path in folder.iterdir()} == NEEDED | {"medusa-model.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["models"]


def test_a_folder_that_is_not_from_the_hub_is_not_replaced(client: HubClient, tiny_repo: Any, tmp_path: Path) -> None:
    mine = tmp_path / "Maker" / "Tiny"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("{}")
    with pytest.raises(LibraryError, match="not from the Hub"):
        get(client, tmp_path)
    assert [path.name for path in mine.iterdir()] == ["config.json"]
