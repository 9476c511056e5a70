"""Recordings: what is saved is what opens, and a file that is not right says why in one sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import recordings
from app.recordings import Recording, RecordingError
from medusa_core.events import Finished
from medusa_core.model_info import Measured, ModelInfo
from medusa_core.testing import scripted_reply

MEASURED = Measured("A chip", (1, 17), (0.01, 0.02), 0.001, ((0.5, 0.1),), (4,), ((0.5,),), ((0.4,),))
INFO = ModelInfo("Tiny", "int8", "cpu", 135, 8192, 4, "default", measured=MEASURED)
RECORDING = Recording(
    "What is a cat? ☃", INFO, "greedy", (("seed", "3"),), tuple(scripted_reply(12)), "2026-01-02", "a reply"
)


@pytest.mark.parametrize("name", ["a-reply.jsonl", "a-reply.jsonl.gz"])
def test_what_is_saved_is_what_opens(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ordner é" / name
    path.parent.mkdir()
    recordings.save(RECORDING, path)
    opened = recordings.load(path)
    assert opened == RECORDING
    assert opened.title == "a reply"
    assert [entry.name for entry in path.parent.iterdir()] == [name]  # nothing half-written stays
    assert recordings.title_of(path) == "a reply"


def test_the_same_recording_is_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl.gz", tmp_path / "2.jsonl.gz"
    recordings.save(RECORDING, first)
    recordings.save(RECORDING, second)
    assert first.read_bytes() == second.read_bytes()


def damaged(change: Callable[[list[Any]], None]) -> str:
    """The text of a recording after `change` had its lines as data."""
    lines: list[Any] = [json.loads(line) for line in text_of(RECORDING).splitlines()]
    change(lines)
    return "\n".join(json.dumps(line) for line in lines)


def text_of(recording: Recording) -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        recordings.save(recording, path)
        return path.read_text(encoding="utf-8")


def test_a_newer_file_asks_for_an_update(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text(damaged(lambda lines: lines[0].update(version=2)), encoding="utf-8")
    with pytest.raises(RecordingError, match=r"new\.jsonl cannot be opened: it has version 2.*Update Medusa Chat"):
        recordings.load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines.pop(0), "not a recording"),
        (lambda lines: lines.pop(), "beginning or its end"),
        (lambda lines: lines.pop(1), "beginning or its end"),
        (lambda lines: lines.pop(4), "step 3 is missing"),
        (lambda lines: lines[3].pop("nodes"), "line 3 of the event log is damaged"),
        (lambda lines: lines[3]["nodes"][2].update(parent=9), "tree of step 2 is broken"),
        (lambda lines: lines[3].update(path=[0, 16]), "step 2 is broken"),
        (lambda lines: lines[0].pop("model"), "which model"),
        (lambda lines: lines[0]["model"].pop("name"), "damaged"),
        (lambda lines: lines[0]["model"]["measured"].update(spin=1), "damaged"),
        (lambda lines: lines[0].pop("question"), "no 'question'"),
        (lambda lines: lines[0].update(settings=3), "damaged"),
        (lambda lines: lines.clear(), "not a recording"),
        (lambda lines: lines.__setitem__(slice(2, -1), []), "no decoding step"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(tmp_path: Path, change: Callable[[list[Any]], None], words: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(damaged(change), encoding="utf-8")
    with pytest.raises(RecordingError, match=words) as caught:
        recordings.load(path)
    assert str(caught.value).startswith("broken.jsonl ")


def test_a_file_cut_short_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    recordings.save(RECORDING, path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(RecordingError, match="compressed file is damaged"):
        recordings.load(path)
    path.write_bytes(gzip.compress(b"\xff\xfe\x00"))
    with pytest.raises(RecordingError, match="damaged"):
        recordings.load(path)


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone\.jsonl cannot be read"):
        recordings.load(tmp_path / "gone.jsonl")
    with pytest.raises(RecordingError, match="cannot be read"):
        recordings.load(tmp_path)


def test_a_later_programs_extra_facts_about_the_model_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(damaged(lambda lines: lines[0]["model"].update(colour="green")), encoding="utf-8")
    assert recordings.load(path).info == INFO


def test_an_endless_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl.gz"
    recordings.save(RECORDING, path)
    monkeypatch.setattr(recordings, "_MOST_BYTES", 1000)
    with pytest.raises(RecordingError, match="more than any reply"):
        recordings.load(path)


def test_the_examples_open_and_are_small() -> None:
    found = recordings.examples()
    assert len(found) == 2
    rules = set()
    for path in found:
        assert path.stat().st_size < 300_000
        opened = recordings.load(path)
        rules.add(opened.rule)
        assert opened.question
        assert opened.info.measured.plain_tokens_per_second > 0
        finished = opened.events[-1]
        assert isinstance(finished, Finished)
        assert finished.text == "".join(step.text for step in opened.steps) + finished.tail
    assert rules == {"greedy", "exact sampling"}


def test_a_recording_without_settings_is_one_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    recordings.save(replace(RECORDING, settings=()), path)
    assert recordings.load(path).settings == ()
