"""Full-text search over titles and messages. What people type is only ever words to find, never query syntax.

Words match from their beginning, without regard to case or accents, all of them in one text; "…" keeps words together.
What the index has no words for (emoji, C++, scripts written without spaces) is looked for as it stands.
Knows nothing of the list or of branches.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.conversations.database import Database
from app.conversations.errors import StoreDamaged
from app.conversations.records import Hit, storable
from app.conversations.schema import rebuild_indexes

_MARK, _UNMARK = "\ufdd0", "\ufdd1"  # around the words in a snippet; these characters stand for nothing in texts
_AROUND = 40  # characters of context in the snippets made here
# Scripts written without spaces between words: a word of the query may stand anywhere in what the index calls a word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_LONGEST_QUERY = 500  # characters
_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for."""

    match: str  # in the syntax of the index; "" where it cannot help
    contained: tuple[str, ...]  # that must stand in the text as they are


@dataclass(frozen=True, slots=True)
class _Place:
    """A column to look in."""

    table: str
    column: str
    index: str
    conversation: str  # the column with the conversation's id
    message: str  # the message's id, in SQL
    condition: str  # besides the conversation not being deleted


_PLACES = (
    _Place("conversation", "title", "title_index", "id", "NULL", "TRUE"),
    _Place("message", "text", "message_index", "conversation", "t.id", "t.removed_by IS NULL"),
)


def parse(words: str) -> Query:
    """The query for what somebody typed."""
    match, contained = [], []
    for phrase, word in _TERM.findall(storable(words[:_LONGEST_QUERY]).replace("\0", " ")):
        text = (phrase or word).strip()
        indexed = any(character.isalnum() for character in text) and not _UNSPACED.search(text)
        if text and (not indexed or (word and set(word) & set("+#"))):
            contained.append(text)
        if indexed:
            match.append(f'"{text}"' if phrase else f'"{text}"*')
    return Query(" ".join(match), tuple(contained))


def search(database: Database, words: str, limit: int) -> list[Hit]:
    """At most `limit` hits: titles first, then by relevance, then the newest first."""
    query = parse(words)
    hits: list[Hit] = []
    for place in _PLACES if query.match or query.contained else ():
        if len(hits) < limit:
            hits += _search(database, place, query, limit - len(hits))
    return hits


def without_repeats(hits: Iterable[Hit]) -> list[Hit]:
    """The same, where a message was found beside its conversation's title: its earliest stands in the title's place."""
    found = list(hits)
    earliest: dict[int, Hit] = {}
    for hit in sorted((hit for hit in found if hit.message is not None), key=lambda hit: hit.message or 0):
        earliest.setdefault(hit.conversation, hit)
    first = [earliest.get(hit.conversation, hit) for hit in found if hit.message is None]
    return first + [hit for hit in found if hit.message is not None and hit not in first]


def _search(database: Database, place: _Place, query: Query, limit: int) -> list[Hit]:
    try:
        return _find(database, place, query, limit)
    except StoreDamaged:
        # Opening the file found the texts whole, so this is the index, and it can be made anew from them.
        with database.writing() as connection:
            rebuild_indexes(connection)
        return _find(database, place, query, limit)


def _find(database: Database, place: _Place, query: Query, limit: int) -> list[Hit]:
    index = f"{place.index} JOIN {place.table} t ON t.id = {place.index}.rowid" if query.match else f"{place.table} t"
    conditions, values = ["c.deleted IS NULL", place.condition], list[Any]()
    if query.match:
        conditions.append(f"{place.index} MATCH ?")
        values.append(query.match)
    for text in query.contained:
        conditions.append(f"t.{place.column} LIKE ? ESCAPE '\\'")
        values.append("%" + re.sub(r"([%_\\])", r"\\\1", text) + "%")
    # Rounded, so that of hits hardly differing in relevance the newest comes first.
    order = f"round({place.index}.rank, 1), " if query.match else ""
    rows = database.read(
        f"SELECT t.id, c.id AS conversation, c.title, {place.message} AS message, t.created, "
        f"iif({bool(query.match)}, '', t.{place.column}) AS text FROM {index} "
        f"JOIN conversation c ON c.id = t.{place.conversation} WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order}t.created DESC, t.id DESC LIMIT ?",
        (*values, limit),
    )
    return [
        Hit(row["conversation"], row["title"], row["message"], _snippet(database, place, query, row), row["created"])
        for row in rows
    ]


def _snippet(database: Database, place: _Place, query: Query, row: sqlite3.Row) -> tuple[tuple[str, bool], ...]:
    """The text around the first words found. Made hit by hit: in the query above it would be made for every match."""
    if not query.match:
        return _cut_out(row["text"], query.contained[0])
    marked = database.read(
        f"SELECT snippet({place.index}, 0, '{_MARK}', '{_UNMARK}', '…', 16) FROM {place.index} "
        f"WHERE {place.index} MATCH ? AND rowid = ?",
        (query.match, row["id"]),
    )[0][0]
    runs = [(part, number % 2 == 1) for number, part in enumerate(re.split(f"[{_MARK}{_UNMARK}]", marked))]
    return tuple(run for run in runs if run[0])


def _cut_out(text: str, word: str) -> tuple[tuple[str, bool], ...]:
    found = re.search(re.escape(word), text, re.IGNORECASE)
    start, end = found.span() if found else (0, 0)
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    before = ("…" if start > _AROUND else "") + before
    after += "…" if end + _AROUND < len(text) else ""
    return tuple(run for run in ((before, False), (text[start:end], True), (after, False)) if run[0])
