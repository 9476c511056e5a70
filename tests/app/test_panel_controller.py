"""What the panel asks for beyond the reply: prove, steer, record, replay, export, in the whole app."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app import recordings
from app.application import Application
from app.controller import Phase
from app.panel_controller import PanelController
from app.views import proof_page
from app.views.chart_pages import EXPECT, PROVE
from app.views.notices import Topic
from medusa_core.config import DecodingConfig
from medusa_core.events import Event, NodeState, Step
from medusa_core.model_info import ChatMessage, Measured
from medusa_core.testing import ReplayChat, scripted_reply

Start = Callable[..., Application]
Ask = Callable[..., None]
Wait = Callable[[Application], None]


class OtherChat(ReplayChat):
    """Without drafting it answers something else from the third step on."""

    def reply(
        self,
        messages: Sequence[ChatMessage],
        config: DecodingConfig,
        stop: Callable[[], bool] = lambda: False,
        written: Sequence[int] = (),
    ) -> Iterator[Event]:
        if config.drafter == "none":
            self.events = [*scripted_reply(2)[:3], *scripted_reply(30, seed=9)[3:]]
        yield from super().reply(messages, config, stop, written)


def page(app: Application) -> proof_page.ProofPage:
    return app.views.panel.pages.proof


def prove(app: Application, wait: Wait) -> None:
    app.views.panel.pages.show_page(PROVE)
    page(app).button.click()
    assert app.controller.phase is Phase.ASIDE
    wait(app)


def test_before_a_reply_there_is_nothing_to_prove(app: Application) -> None:
    assert not page(app).button.isEnabled()
    assert page(app).button.toolTip() == proof_page.NOTHING_YET


def test_the_last_question_runs_again_without_drafting(
    app: Application, ask: Ask, wait_for_rest: Wait, chat: ReplayChat
) -> None:
    app.controller.change_setting("acceptance", "greedy")
    ask(app, "hello")
    before = list(app.controller.turns[0].events)
    prove(app, wait_for_rest)
    (messages, drafted), (again, plain) = chat.calls
    assert again == messages
    assert plain == replace(drafted, drafter="none")
    assert "Identical: all" in page(app).said
    assert "Greedy" in page(app).said
    assert page(app).bars.speeds[0] == pytest.approx(page(app).bars.speeds[1])
    assert app.controller.turns[0].events == before  # the conversation knows nothing of it
    assert len(app.views.chat.replies()) == 1
    assert page(app).button.isEnabled()
    assert app.views.panel.pages.speed.plain == pytest.approx(page(app).bars.speeds[1])


def test_a_difference_is_shown_with_both_tokens_and_their_logits(
    start_app: Start, ask: Ask, wait_for_rest: Wait
) -> None:
    chat = OtherChat(events=scripted_reply(30))

    def opener(*_: object) -> Iterator[object]:
        yield from ()
        return chat

    app = start_app(opener)
    app.controller.change_setting("acceptance", "greedy")
    ask(app)
    prove(app, wait_for_rest)
    assert "They differ from token" in page(app).said
    assert page(app).said.count("logit 7.5000") == 2
    assert "0.0000 apart" in page(app).said


def test_typical_acceptance_says_that_it_is_approximate(app: Application, ask: Ask, wait_for_rest: Wait) -> None:
    app.controller.change_setting("acceptance", "typical")
    ask(app)
    prove(app, wait_for_rest)
    assert "approximate" in page(app).said


def test_a_run_can_be_cancelled_from_the_card_and_nothing_can_be_sent_meanwhile(
    app: Application, ask: Ask, wait_for_rest: Wait, chat: ReplayChat, qtbot: QtBot
) -> None:
    ask(app)
    chat.seconds_per_step = 0.05
    page(app).button.click()
    qtbot.waitUntil(lambda: "Without drafting:" in page(app).said, timeout=5000)
    assert page(app).button.text() == "Cancel"
    app.controller.send("meanwhile")
    assert app.views.composer.text() == "meanwhile"
    page(app).button.click()
    wait_for_rest(app)
    assert proof_page.CANCELLED in page(app).said
    assert page(app).button.isEnabled()


def test_a_run_that_breaks_off_says_why_and_the_conversation_goes_on(
    app: Application, ask: Ask, wait_for_rest: Wait, chat: ReplayChat
) -> None:
    ask(app)
    chat.error, chat.error_after = MemoryError("no room"), 3
    prove(app, wait_for_rest)
    assert "Memory ran out" in page(app).said
    assert not [notice for notice in app.views.notices.shown() if notice.is_error]
    chat.error = None
    ask(app, "again")
    assert len(app.views.chat.replies()) == 2


def test_another_conversation_ends_the_run(app: Application, ask: Ask, wait_for_rest: Wait, chat: ReplayChat) -> None:
    ask(app)
    chat.seconds_per_step = 0.05
    page(app).button.click()
    app.controller.new_chat()
    wait_for_rest(app)
    assert page(app).button.toolTip() == proof_page.NOTHING_YET
    assert "Identical" not in page(app).said


def test_only_the_last_reply_can_be_proved(app: Application, ask: Ask) -> None:
    ask(app, "one")
    ask(app, "two")
    app.controller.replies.show_step(0, 3)
    assert not page(app).button.isEnabled()
    app.controller.replies.show_step(1, 3)
    assert page(app).button.isEnabled()


def test_steering_from_the_tree_writes_a_new_variant(
    app: Application, ask: Ask, wait_for_rest: Wait, chat: ReplayChat
) -> None:
    ask(app)
    panel = app.views.panel
    step = next(step for step in panel.steps if step.index > 4 and rejected(step) >= 0)
    before = [token for each in panel.steps[: step.index] for token in each.token_ids]
    panel.show_step(step.index)
    panel._tree.node_chosen.emit(rejected(step))
    assert panel.menu is not None
    action = panel.menu.actions()[0]
    assert action.text().startswith("Continue the reply from here")
    action.trigger()
    assert app.controller.phase is Phase.REPLYING
    wait_for_rest(app)
    written = chat.written[-1]
    assert written[: len(before)] == tuple(before)
    assert written[-1] == step.nodes[rejected(step)].token_id
    assert app.controller.turns[0].reply_place == (1, 2)


def rejected(step: Step) -> int:
    found = (index for index, node in enumerate(step.nodes) if node.state is NodeState.REJECTED)
    return next(found, -1)


def test_while_the_model_is_busy_the_tree_cannot_steer(app: Application, ask: Ask, chat: ReplayChat) -> None:
    chat.seconds_per_step = 0.05
    ask(app, wait=False)
    assert app.views.panel._no_steering
    app.controller.stop()


def test_a_reply_is_recorded_and_opens_again(
    app: Application, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chat: ReplayChat
) -> None:
    ask(app, "What is a cat?")
    path = tmp_path / "ordner é" / "cat"
    path.parent.mkdir()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    app.views.panel.save_asked.emit()
    saved = path.with_name("cat.jsonl.gz")
    recording = recordings.load(saved)
    assert recording.question == "What is a cat?"
    assert recording.rule == "exact sampling"
    assert dict(recording.settings)["Top p"] == "0.9"
    assert recording.events == tuple(chat.events)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(saved), ""))
    app.views.panel.open_asked.emit()
    window = app.panel_controller.recording_window
    assert window is not None
    assert window.isVisible()
    assert window.recording == recording
    assert len(app.controller.turns) == 1  # the conversation is left alone


def test_a_recording_that_cannot_be_saved_says_so(
    app: Application, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(app)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "gone" / "x"), ""))
    app.views.panel.save_asked.emit()
    (notice,) = [notice for notice in app.views.notices.shown() if notice.topic is Topic.FILES]
    assert "could not be saved" in notice.text


def test_without_a_model_a_recording_can_be_explored(start_app: Start) -> None:
    def opener(*_: object) -> Iterator[object]:
        raise OSError("there is no model")
        yield

    app = start_app(opener, ready=False)
    app.views.panel.example_asked.emit(1)
    window = app.panel_controller.recording_window
    assert window is not None
    window.player.skip()
    assert len(window.panel.steps) > 10


@pytest.mark.parametrize("ending", [".png", ".svg", ".csv"])
def test_the_charts_are_exported(
    app: Application, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    ask(app)
    path = tmp_path / f"charts{ending}"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    app.views.panel.export_asked.emit()
    assert path.stat().st_size > 500
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "no" / f"charts{ending}"), ""))
    app.views.panel.export_asked.emit()
    assert any("could not be saved" in notice.text for notice in app.views.notices.shown())


def test_the_panel_knows_what_was_measured(start_app: Start, ask: Ask) -> None:
    measured = Measured(
        "A chip", (1, 9, 17), (0.02, 0.03, 0.04), 0.001, ((0.5,),) * 4, (16,), ((0.6, 0.3),), ((0.5, 0.2),)
    )
    chat = ReplayChat(events=scripted_reply(30))
    chat.info = replace(chat.info, measured=measured)

    def opener(*_: object) -> Iterator[object]:
        yield from ()
        return chat

    app = start_app(opener)
    pages = app.views.panel.pages
    assert pages.speed.plain == pytest.approx(50.0)
    ask(app)
    assert pages.acceptance.expected == (0.5, 0.2)  # of sampled replies
    app.controller.change_setting("acceptance", "greedy")
    ask(app)
    assert pages.acceptance.expected == (0.6, 0.3)
    pages.show_page(EXPECT)
    pages.expectation.take_conversation()
    assert pages.expectation.figure("Tokens per step", "measured") == f"{_tokens_per_step(app):.2f}"
    assert pages.expectation.figure("Speed-up over plain decoding", "measured").endswith("×")


def test_plain_is_as_fast_as_a_reply_without_drafting_was_and_at_most_as_a_pass_until_then(
    start_app: Start, ask: Ask, wait_for_rest: Wait
) -> None:
    chat = ReplayChat(events=scripted_reply(30))
    chat.info = replace(chat.info, measured=Measured("A chip", (1, 9, 17), (0.02, 0.03, 0.04), 0.001))

    def opener(*_: object) -> Iterator[object]:
        yield from ()
        return chat

    app = start_app(opener)
    app.controller.change_setting("acceptance", "greedy")
    speed = app.views.panel.pages.speed
    ask(app)
    assert (speed.plain, "at most" in speed.toolTip()) == (pytest.approx(50.0), True)
    prove(app, wait_for_rest)
    proved = page(app).bars.speeds[1]
    assert proved != pytest.approx(50.0)
    assert (speed.plain, "at most" in speed.toolTip()) == (pytest.approx(proved), False)
    ask(app)
    assert speed.plain == pytest.approx(proved), "and of later replies"
    app.controller.change_setting("drafter", "none")
    chat.events = scripted_reply(40, nodes=1)
    ask(app)
    steps = [event for event in app.controller.turns[-1].events if isinstance(event, Step)]
    own = sum(len(step.token_ids) for step in steps) / sum(step.seconds for step in steps)
    assert speed.plain == pytest.approx(own)


def _tokens_per_step(app: Application) -> float:
    steps = [event for turn in app.controller.turns for event in turn.events if isinstance(event, Step)]
    return sum(len(step.token_ids) for step in steps) / len(steps)


def test_it_is_the_controller_of_the_app(app: Application) -> None:
    assert isinstance(app.panel_controller, PanelController)
