"""Conversations as files for people and other programs: Markdown to read, JSON to read back.

The JSON holds every branch, not the steps. Reading it takes over everything or nothing. Knows nothing of files on disk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from app.conversations.errors import ImportDamaged
from app.conversations.messages import add_conversation, figures_text
from app.conversations.records import Figures, Message, MessageState, Role, storable
from app.conversations.store import ConversationStore
from medusa_core.thinking import split

FORMAT = "medusa-chat conversations"
VERSION = 1
_LATEST = 253_402_214_400.0  # seconds: the end of the year 9999, where calendars end
_MOST = 2**62  # of the numbers SQLite holds

_NAMES = {Role.USER: "Question", Role.ASSISTANT: "Reply"}
_REMARKS = {MessageState.CUT: " (cut)", MessageState.STREAMING: " (cut)", MessageState.STOPPED: " (stopped)"}


def to_markdown(store: ConversationStore, conversations: Iterable[int], zone: tzinfo = UTC) -> str:
    """The current branch of each conversation, texts as they were written; thinking folded away above its answer."""
    return "\n\n".join(_markdown(store, conversation, zone) for conversation in conversations) + "\n"


def _markdown(store: ConversationStore, conversation: int, zone: tzinfo) -> str:
    line = store.get(conversation)
    parts = [f"# {line.title}", f"{datetime.fromtimestamp(line.created, UTC).astimezone(zone):%Y-%m-%d %H:%M}"]
    for message in store.messages.branch(conversation):
        parts += [f"## {_NAMES[message.role]}{_REMARKS.get(message.state, '')}", *_texts(message)]
        if message.figures and message.figures.model:
            parts.append(_figures(message.figures))
    return "\n\n".join(part for part in parts if part)


def _texts(message: Message) -> list[str]:
    """What was said; what was thought before it as a quote, which ends where it ends whatever stands in it."""
    parts = split(message.text, message.figures.opened if message.figures else "")
    if message.role is not Role.ASSISTANT or not parts.has_thinking:
        return [message.text.rstrip()]
    thought = message.text[parts.start : parts.end].strip("\r\n").rstrip()
    quote = "\n".join(f"> {line}".rstrip() for line in thought.split("\n"))
    folded = ["<details>\n<summary>Thinking</summary>", quote, "</details>"] if thought else []
    return [*folded, message.text[parts.answer :].strip("\r\n").rstrip()]


def _figures(figures: Figures) -> str:
    parts = [figures.model]
    if figures.tokens:
        parts += [f"{figures.tokens} tokens", f"{figures.tokens_per_second:.1f} tokens/s"]
        parts += [f"{figures.tokens_per_step:.2f} tokens per step"]
    return "*" + " · ".join(parts + ([figures.rule] if figures.rule else [])) + "*"


def to_json(store: ConversationStore, conversations: Iterable[int]) -> str:
    """Each conversation with all its branches; what is removed is left out."""
    lines = [_conversation(store, conversation) for conversation in conversations]
    return json.dumps({"format": FORMAT, "version": VERSION, "conversations": lines}, ensure_ascii=False, indent=1)


def _conversation(store: ConversationStore, conversation: int) -> dict[str, Any]:
    line = store.get(conversation)
    rows = store.database.read(
        "SELECT id, chosen FROM message WHERE conversation = ? AND removed_by IS NULL ORDER BY id", (conversation,)
    )
    places = {row["id"]: place for place, row in enumerate(rows)}
    return {
        "title": line.title,
        "created": line.created,
        "updated": line.updated,
        "pinned": line.pinned,
        "messages": [_message(store.messages.get(row["id"]), places, row["chosen"]) for row in rows],
    }


def _message(message: Message, places: Mapping[int, int], chosen: int) -> dict[str, Any]:
    streaming = message.state is MessageState.STREAMING
    return {
        "parent": None if message.parent is None else places[message.parent],
        "role": message.role,
        "text": message.text,
        "state": MessageState.CUT if streaming else message.state,
        "figures": None if message.figures is None else message.figures.as_dict(),
        "created": message.created,
        "chosen": chosen,
    }


def from_json(store: ConversationStore, text: str) -> list[int]:
    """Add the conversations of a file; their ids. Raises ImportDamaged, and then nothing was added."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportDamaged(f"This is no JSON, so nothing was imported: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ImportDamaged("This is no file of exported conversations, so nothing was imported.")
    if data.get("version") != VERSION:
        raise ImportDamaged(
            f"The file is of version {data.get('version')!r}, and this app reads {VERSION}, so nothing was imported. "
            "Update the app."
        )
    lines = [
        _checked(line, f"conversation {n}") for n, line in enumerate(_get(data, "conversations", list, "the file"), 1)
    ]
    with store.database.writing() as connection:
        return [_add(connection, line) for line in lines]


def _add(connection: Any, line: dict[str, Any]) -> int:
    number = add_conversation(connection, line["title"], line["created"], line["updated"], pinned=line["pinned"])
    ids: list[int] = []
    for message in line["messages"]:
        values = (
            number,
            None if message["parent"] is None else ids[message["parent"]],
            *(message[key] for key in ("role", "text", "state", "figures", "created", "chosen")),
        )
        ids.append(
            connection.execute(
                "INSERT INTO message (conversation, parent, role, text, state, figures, created, chosen) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                values,
            ).fetchone()[0]
        )
    return number


def _checked(line: Any, where: str) -> dict[str, Any]:
    """The same data, every value known to fit its column."""
    messages = _get(line, "messages", list, where)
    return {
        "title": storable(_get(line, "title", str, where)),
        "created": _time(line, "created", where),
        "updated": _time(line, "updated", where),
        "pinned": _get(line, "pinned", bool, where),
        "messages": [
            _checked_message(message, place, f"message {place + 1} of {where}")
            for place, message in enumerate(messages)
        ],
    }


def _checked_message(message: Any, place: int, where: str) -> dict[str, Any]:
    parent = _get(message, "parent", int | None, where)
    if parent is not None and not 0 <= parent < place:
        raise ImportDamaged(f"The parent of {where} is {parent}, none of those before it; nothing was imported.")
    chosen = _get(message, "chosen", int, where)
    if not 0 <= chosen < _MOST:
        raise ImportDamaged(f"“chosen” of {where} is {chosen}, out of range; nothing was imported.")
    state = _kind(message, "state", MessageState, where)
    if state is MessageState.STREAMING:
        raise ImportDamaged(f"{where} is still being written; nothing was imported.")
    return {
        "parent": parent,
        "role": _kind(message, "role", Role, where),
        "text": storable(_get(message, "text", str, where)),
        "state": state,
        "figures": figures_text(_checked_figures(_get(message, "figures", dict | None, where), where)),
        "created": _time(message, "created", where),
        "chosen": chosen,
    }


def _checked_figures(values: dict[str, Any] | None, where: str) -> Figures | None:
    if values is None:
        return None
    figures, default = Figures.from_dict(values), Figures()
    for key, value in figures.as_dict().items():
        kind = {"seed": int, "first_token_seconds": float}.get(key, type(getattr(default, key)))
        fits = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
        if not (fits or (value is None and getattr(default, key) is None)):
            raise ImportDamaged(f"“{key}” of {where} is {value!r}, no {kind.__name__}; nothing was imported.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ImportDamaged(f"“{key}” of {where} is {value}; nothing was imported.")
    return figures


def _get(data: Any, key: str, kind: Any, where: str) -> Any:
    if not isinstance(data, dict) or key not in data:
        raise ImportDamaged(f"“{key}” of {where} is missing; nothing was imported.")
    value = data[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ImportDamaged(f"“{key}” of {where} is {str(value)[:40]!r}, of another type; nothing was imported.")
    return value


def _time(data: Any, key: str, where: str) -> float:
    value = _get(data, key, int | float, where)
    if not 0 <= value < _LATEST:  # false for what is no number, too
        raise ImportDamaged(f"“{key}” of {where} is {value}, no time; nothing was imported.")
    return float(value)


def _kind(data: Any, key: str, kind: Callable[[str], Any], where: str) -> Any:
    value = _get(data, key, str, where)
    try:
        return kind(value)
    except ValueError:
        raise ImportDamaged(f"“{key}” of {where} is {value[:40]!r}; nothing was imported.") from None
