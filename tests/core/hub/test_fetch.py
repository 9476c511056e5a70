"""What was there when a download broke off is not fetched twice, and what arrived damaged is not kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medusa_core.config import HubConfig
from medusa_core.errors import (
    DiskFull,
    DownloadDamaged,
    HubUnreachable,
)
from medusa_core.hub.client import HubClient
from medusa_core.hub.download import download, unfinished
from tests.core.hub.getting import get, stage

ROOT = Path(__file__).resolve().parents[3]
WEIGHTS = "model.safetensors"


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
    fake_hub.served = {}
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
    fake_hub.served = {}
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
    fake_hub.served = {}
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
    fake_hub.served = {}
    get(client, tmp_path)
    assert fake_hub.served == {WEIGHTS: len(tiny_repo.files[WEIGHTS]) - kept}
