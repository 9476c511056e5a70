"""The conversation list in groups: pinned, today, yesterday, … and by month. Knows nothing of the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from app.conversations.records import Conversation

# Not the locale's: the rest of the interface is in English.
_MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True, slots=True)
class Group:
    """Conversations under one heading, in the order they came in."""

    title: str
    conversations: tuple[Conversation, ...]


def grouped(conversations: Iterable[Conversation], now: datetime) -> list[Group]:
    """Group by the day of the last message, in the time zone of `now`; what is pinned stands first.

    `conversations` come newest first. Days are those of the calendar, so the hours that a clock change adds or takes
    move nothing; a time in the future (a clock set back) counts as today.
    """
    if now.tzinfo is None:
        raise ValueError("now has no time zone; pass datetime.now().astimezone()")
    groups: dict[str, list[Conversation]] = {}
    pinned: list[Conversation] = []
    for conversation in conversations:
        if conversation.pinned:
            pinned.append(conversation)
            continue
        day = datetime.fromtimestamp(conversation.updated, UTC).astimezone(now.tzinfo).date()
        groups.setdefault(_heading(day, now.date()), []).append(conversation)
    first = [Group("Pinned", tuple(pinned))] if pinned else []
    return first + [Group(title, tuple(members)) for title, members in groups.items()]


def _heading(day: date, today: date) -> str:
    age = (today - day).days
    for limit, title in ((0, "Today"), (1, "Yesterday"), (7, "Previous 7 days"), (30, "Previous 30 days")):
        if age <= limit:
            return title
    month = _MONTHS[day.month - 1]
    return month if day.year == today.year else f"{month} {day.year}"
