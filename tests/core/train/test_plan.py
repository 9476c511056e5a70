"""The list of conversations: the sources by their shares, the same list for any number of writers."""

from __future__ import annotations

from itertools import islice

import pytest

from medusa_core.config import DistillConfig
from medusa_core.prompt_file import FilePrompt
from medusa_core.train.plan import Conversation, conversation_of, plan


def first(count: int, config: DistillConfig, file: tuple[FilePrompt, ...] = (), **writers: int) -> list[Conversation]:
    return list(islice(plan(config, file, **writers), count))


def test_shares_are_kept() -> None:
    entries = tuple(FilePrompt(({"role": "user", "content": f"mine {n}"},)) for n in range(2000))
    config = DistillConfig(self_written=0.4, from_file=0.3, multi_turn=0.2, temperatures=(0.0, 0.7))
    listed = first(2000, config, entries)
    own = [c for c in listed if c.messages and c.messages[0]["content"].startswith("mine")]
    itself = [c for c in listed if not c.messages]
    assert len(own) == pytest.approx(600, abs=70)
    assert len(itself) == pytest.approx(0.7 * 0.4 * 2000, abs=70)
    assert sum(bool(c.followup) for c in listed) == pytest.approx(400, abs=70)
    assert sum(c.temperature == 0 for c in listed) == pytest.approx(1000, abs=90)
    assert [c.number for c in listed] == list(range(2000))
    assert len({c.followup for c in listed}) > 5


def test_the_file_is_asked_once_and_its_own_second_turn_counts() -> None:
    entry = FilePrompt(({"role": "user", "content": "mine"},), "and on?")
    listed = first(50, DistillConfig(from_file=1.0, multi_turn=0.0), (entry,))
    assert [c.number for c in listed if c.followup] == [0]
    assert listed[0].messages == entry.messages
    assert listed[0].followup == "and on?"


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_writers_share_the_same_list(ranks: int) -> None:
    config = DistillConfig()
    whole = first(60, config)
    parts = [first(60 // ranks, config, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert sorted((c for part in parts for c in part), key=lambda c: c.number) == whole


def test_job_numbers_tell_the_conversation() -> None:
    conversation = first(8, DistillConfig())[7]
    assert [conversation_of(conversation.job(turn)) for turn in (0, 1)] == [7, 7]
    assert conversation.job(0) != conversation.job(1)
