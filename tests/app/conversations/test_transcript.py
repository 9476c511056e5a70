"""The open conversation: what is shown of it, and how its replies begin, go on, end, and become tokens again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations import ConversationStore, Figures, MessageState, Transcript
from medusa_core.errors import DiskFull
from medusa_core.events import Finished, Step
from medusa_core.testing import scripted_reply

EVENTS = scripted_reply(12)
STEPS = [event for event in EVENTS if isinstance(event, Step)]
FIGURES = Figures(model="m", rule="greedy")


def write(transcript: Transcript, events: list[Step]) -> None:
    for event in events:
        transcript.write(event.text, [event])


@pytest.fixture
def transcript(store: ConversationStore) -> Transcript:
    """One question, answered."""
    transcript = Transcript(store)
    transcript.ask("q")
    transcript.begin_reply(0, FIGURES)
    write(transcript, STEPS)
    transcript.finish(MessageState.COMPLETE, "stop")
    return transcript


def test_a_saved_conversation_comes_back_with_its_steps(transcript: Transcript) -> None:
    again = Transcript(transcript.store)
    assert transcript.conversation is not None
    again.open(transcript.conversation)
    (turn,) = again.turns
    assert (turn.question, turn.answer, turn.state) == ("q", "".join(s.text for s in STEPS), MessageState.COMPLETE)
    assert turn.figures == transcript.turns[0].figures
    assert turn.figures.tokens == sum(len(step.token_ids) for step in STEPS)
    assert turn.events == []
    again.load_events(turn)
    assert turn.events == STEPS


def test_another_reply_and_another_wording_are_variants(transcript: Transcript) -> None:
    transcript.ask("and then?")
    transcript.begin_reply(0, FIGURES)  # to the first question: what followed its first reply goes with it
    transcript.write("other")
    transcript.finish(MessageState.COMPLETE)
    assert [turn.answer for turn in transcript.turns] == ["other"]
    assert transcript.turns[0].reply_place == (1, 2)
    assert transcript.choose(0, -1, of_reply=True)
    assert [turn.question for turn in transcript.turns] == ["q", "and then?"]
    assert not transcript.choose(0, -1, of_reply=True)
    transcript.edit(0, "q, better")
    assert (transcript.turns[0].question_place, transcript.turns[0].answer) == ((1, 2), "")
    assert transcript.choose(0, -1, of_reply=False)
    assert transcript.turns[1].question == "and then?"


def test_what_is_removed_comes_back(transcript: Transcript) -> None:
    removed = transcript.remove(0, of_reply=True)
    assert [turn.reply for turn in transcript.turns] == [None]
    transcript.store.messages.restore(removed)
    assert transcript.conversation is not None
    transcript.open(transcript.conversation)
    assert transcript.turns[0].reply == removed


def test_a_reply_goes_on_from_its_tokens_and_from_text_where_they_are_not_known(
    store: ConversationStore, open_store: Callable[[], ConversationStore]
) -> None:
    transcript = Transcript(store)
    transcript.ask("q")
    turn = transcript.begin_reply(0, FIGURES)
    write(transcript, STEPS[:6])
    transcript.write(" and more", [])  # a killed process may have saved more text than steps
    assert turn.written == (*(step.token_ids for step in STEPS[:6]), " and more")
    transcript.finish(MessageState.STOPPED, "cancelled")
    transcript.continue_reply()
    assert turn.state is MessageState.STREAMING
    shift = len(turn.answer) - STEPS[6].spans[0][0]
    later = [replace(s, spans=tuple((a + shift, b + shift) for a, b in s.spans)) for s in STEPS[6:8]]
    write(transcript, later)
    transcript.finish(MessageState.COMPLETE, "stop")
    assert turn.written == (*(s.token_ids for s in STEPS[:6]), " and more", *(s.token_ids for s in later))
    assert turn.figures.tokens == sum(len(step.token_ids) for step in STEPS[:8])
    assert transcript.conversation is not None
    conversation = transcript.conversation
    again = Transcript(open_store())
    again.open(conversation)
    again.load_events(again.turns[0])
    assert again.turns[0].written == turn.written
    assert again.turns[0].state is MessageState.COMPLETE


def test_half_a_character_at_the_end_is_no_text_of_its_own(transcript: Transcript) -> None:
    turn = transcript.turns[0]
    turn.answer += "\ufffd"
    assert turn.written == tuple(step.token_ids for step in STEPS)


@pytest.mark.parametrize(("shown", "agreed"), [("ab", "abc"), ("ab\ufffd", "abé"), ("", "abc")])
def test_the_words_of_the_tokens_win_over_those_shown(store: ConversationStore, shown: str, agreed: str) -> None:
    transcript = Transcript(store)
    transcript.ask("q")
    transcript.begin_reply(0, FIGURES)
    transcript.write(shown)
    assert transcript.agree_on(agreed) is agreed.startswith(shown)
    transcript.write("!")
    transcript.finish(MessageState.COMPLETE)
    assert transcript.turns[0].answer == agreed + "!"
    assert transcript.turns[0].reply is not None
    assert store.messages.get(transcript.turns[0].reply).text == agreed + "!"


def test_a_full_disk_loses_nothing(transcript: Transcript) -> None:
    connection = transcript.store.database._connection
    transcript.begin_reply(0, FIGURES)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    long = "x" * 100_000
    with pytest.raises(DiskFull):
        transcript.write(long)
    with pytest.raises(DiskFull):
        transcript.finish(MessageState.COMPLETE)
    assert transcript.turns[0].answer == long
    assert transcript.has_unsaved
    connection.execute("PRAGMA max_page_count = 1000000")
    transcript.save_rest()
    assert not transcript.has_unsaved
    assert transcript.turns[0].reply is not None
    assert transcript.store.messages.get(transcript.turns[0].reply).text == long


def test_figures_are_of_all_steps_however_often_it_was_continued() -> None:
    finished = EVENTS[-1]
    assert isinstance(finished, Finished)
    figures = FIGURES.measured([*EVENTS, EVENTS[0], *EVENTS[1:4]], "length")
    assert figures.tokens == finished.tokens + sum(len(step.token_ids) for step in STEPS[:3])
    assert figures.first_token_seconds == pytest.approx(0.23)
    assert (figures.model, figures.rule, figures.ending) == ("m", "greedy", "length")


def test_in_memory_everything_works_and_nothing_is_written(transcript: Transcript, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if "shm" not in path.name}
    unsaved = ConversationStore(folder, in_memory=True)
    assert not unsaved.is_saved
    assert [line.title for line in unsaved.conversations()] == ["q"]  # what can be read is shown
    unsaved.messages.ask("another")
    assert len(unsaved.search("another")) == 2  # in the title, and in the text
    unsaved.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if "shm" not in path.name} == before
    nothing = ConversationStore(folder / "not there", in_memory=True)
    assert nothing.conversations() == []
    nothing.close()
