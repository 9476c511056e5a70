"""The groups of the conversation list, by the calendar of a time zone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations import Conversation, grouped


class Berlin(tzinfo):
    """UTC+1, and +2 from 29 March 2026, 01:00 UTC."""

    _CHANGE = datetime(2026, 3, 29, 2)  # noqa: DTZ001  local standard time

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=2 if when is not None and when.replace(tzinfo=None) >= self._CHANGE else 1)

    def dst(self, when: datetime | None) -> timedelta:
        return self.utcoffset(when) - timedelta(hours=1)


def line(when: datetime, *, pinned: bool = False) -> Conversation:
    return Conversation(0, "", 0.0, when.timestamp(), pinned)


NOW = datetime(2026, 3, 30, 0, 30, tzinfo=Berlin())


@pytest.mark.parametrize(
    ("when", "title"),
    [
        (datetime(2026, 3, 30, 0, 5, tzinfo=Berlin()), "Today"),
        (datetime(2026, 3, 31, 0, 5, tzinfo=Berlin()), "Today"),
        (datetime(2026, 3, 29, 23, 59, tzinfo=Berlin()), "Yesterday"),
        (datetime(2026, 3, 29, 0, 1, tzinfo=Berlin()), "Yesterday"),
        (datetime(2026, 3, 28, 23, 59, tzinfo=Berlin()), "Previous 7 days"),
        (datetime(2026, 3, 23, 12, tzinfo=Berlin()), "Previous 7 days"),
        (datetime(2026, 3, 22, 12, tzinfo=Berlin()), "Previous 30 days"),
        (datetime(2026, 2, 28, 12, tzinfo=Berlin()), "Previous 30 days"),
        (datetime(2026, 2, 27, 12, tzinfo=Berlin()), "February"),
        (datetime(2025, 12, 31, 12, tzinfo=Berlin()), "December 2025"),
    ],
)
def test_heading(when: datetime, title: str) -> None:
    assert [group.title for group in grouped([line(when)], NOW)] == [title]


def test_pinned_ones_have_a_group_of_their_own() -> None:
    old, new = line(NOW - timedelta(days=400), pinned=True), line(NOW)
    assert [(group.title, group.conversations) for group in grouped([old, new], NOW)] == [
        ("Pinned", (old,)),
        ("Today", (new,)),
    ]
    assert grouped([], NOW) == []


def test_now_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        grouped([], datetime(2026, 3, 30))  # noqa: DTZ001


@given(st.lists(st.floats(0, 4e9), max_size=20), st.integers(-12, 14))
def test_every_conversation_is_in_one_group_and_the_order_stays(times: list[float], hours: int) -> None:
    lines = [Conversation(number, "", 0.0, when) for number, when in enumerate(sorted(times, reverse=True))]
    groups = grouped(lines, datetime(2026, 3, 30, tzinfo=timezone(timedelta(hours=hours))))
    assert [line for group in groups for line in group.conversations] == lines
    assert len({group.title for group in groups}) == len(groups)
