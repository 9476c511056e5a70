"""A recording plays, stops, slows down and is walked through like a reply, without any model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import main
from app import demo, recordings
from app.player import Player
from app.recording_window import RecordingWindow
from app.theme import load_themes
from app.views.tree import TreeView
from medusa_core.events import Event, Finished, Step
from medusa_core.testing import scripted_reply


@pytest.fixture
def window(qtbot: QtBot) -> Iterator[RecordingWindow]:
    window = RecordingWindow(load_themes()["light"])
    qtbot.addWidget(window)
    window.show()
    yield window
    window.close()


def test_an_example_plays_to_its_end_and_reads_like_a_reply(window: RecordingWindow) -> None:
    window.open_example(0)
    recording = window.recording
    assert recording is not None
    assert window.player.playing
    window.player.skip()
    finished = recording.events[-1]
    assert isinstance(finished, Finished)
    assert window.chat.replies()[0].text.text == finished.text
    assert window.panel.steps == recording.steps
    assert recording.info.name in window.facts.text()
    assert recording.rule in window.facts.text()
    assert window.panel.pages.speed.plain == pytest.approx(recording.info.measured.plain_tokens_per_second)
    assert window.play_button.text() == "Play again"
    window.toggle()
    assert window.player.playing
    assert window.panel.steps == ()


def test_steps_and_words_find_each_other(window: RecordingWindow) -> None:
    window.open_example(1)
    window.player.skip()
    window.panel.show_step(5)
    reply = window.chat.replies()[0]
    assert reply.text.held_rectangle() is not None
    window.chat.step_chosen.emit(0, 9)
    assert window.panel.findChild(TreeView).step is window.panel.steps[9]


def test_it_pauses_and_the_button_says_what_it_does(window: RecordingWindow, qtbot: QtBot) -> None:
    window.open_example(0)
    assert window.play_button.text() == "Pause"
    qtbot.mouseClick(window.play_button, Qt.MouseButton.LeftButton)
    assert not window.player.playing
    assert window.play_button.text() == "Play"
    before = len(window.panel.steps)
    qtbot.wait(120)
    assert len(window.panel.steps) == before


def test_a_broken_file_says_so_in_place_and_the_recording_before_stays(window: RecordingWindow, tmp_path: Path) -> None:
    window.open_example(0)
    before = window.recording
    path = tmp_path / "broken.jsonl"
    path.write_text("nothing", encoding="utf-8")
    assert not window.open(path)
    (notice,) = window.notices.shown()
    assert notice.text == "broken.jsonl cannot be opened: it is not a recording of Medusa Chat."
    assert window.recording is before
    window.open_example(1)
    assert window.notices.shown() == []


def test_there_is_no_model_to_steer_or_to_prove_with(window: RecordingWindow) -> None:
    window.open_example(0)
    window.player.skip()
    window.panel.findChild(TreeView).node_chosen.emit(0)
    button = window.panel.pages.proof.button
    assert not button.isEnabled()
    assert "recording" in button.toolTip()
    window.panel.save_asked.emit()
    assert "already" in window.notices.shown()[0].text


def test_another_theme_reaches_everything(window: RecordingWindow) -> None:
    window.open_example(0)
    window.player.skip()
    dark = load_themes()["dark"]
    window.set_theme(dark)
    image = window.panel.findChild(TreeView).grab().toImage()
    colours = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(40, 100)}
    assert dark.text in colours


def played(player: Player, events: list[Event], seconds: float, tick: float = 0.033) -> list[Event]:
    found: list[Event] = []
    player.batch.connect(found.extend)
    player.load(events)
    for _ in range(round(seconds / tick)):
        player.advance(tick)
    return found


def test_events_take_the_time_they_took(qtbot: QtBot) -> None:
    events = scripted_reply(40)  # 0.2 s of reading, then 30 ms a step
    found = played(Player(), events, 0.8)
    steps = [event for event in found if isinstance(event, Step)]
    assert 18 <= len(steps) <= 21
    assert found == events[: len(found)]


def test_slowly_it_is_four_steps_a_second(qtbot: QtBot) -> None:
    player = Player()
    player.set_slow(True)
    found = played(player, scripted_reply(40), 2.3)
    assert 7 <= sum(isinstance(event, Step) for event in found) <= 9
    player.skip()
    assert player.at_end
    assert sum(isinstance(event, Step) for event in found) == 40


def test_the_demo_opens_an_example_or_the_file_it_is_given(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    for given in (None, recordings.examples()[1]):
        window = demo.open_window(given)
        qtbot.addWidget(window)
        assert window.recording is not None
        assert window.recording.title == recordings.title_of(given or recordings.examples()[0])
        window.close()
    window = demo.open_window(tmp_path / "gone.jsonl")
    qtbot.addWidget(window)
    assert "cannot be read" in window.notices.shown()[0].text
    window.close()


def test_the_command_line_leads_to_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Path | None] = []
    monkeypatch.setattr(demo, "run", lambda path: told.append(path) or 0)
    monkeypatch.setenv("DISPLAY", ":1")
    assert main.main(["--demo"]) == 0
    assert main.main(["--demo", "x.jsonl"]) == 0
    assert told == [None, Path("x.jsonl")]
