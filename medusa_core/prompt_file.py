"""A user's own prompts: one JSON object a line, with `turns`, `messages` or `prompt`.

`{"prompt": "..."}` is one question; `{"turns": ["...", "..."]}` are the user's messages one after another;
`{"messages": [{"role": ..., "content": ...}, ...]}` is a conversation, answered at its last user message.
Knows nothing of models, tokenizers or of what becomes of the prompts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from medusa_core.errors import ConfigError
from medusa_core.model_info import ChatMessage

_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class FilePrompt:
    """A conversation up to a user's message, and what the user says after the reply ("" for nothing)."""

    messages: tuple[ChatMessage, ...]
    followup: str = ""
    name: str = ""  # what the file calls it, under question_id or id; "" where it does not
    category: str = ""


def read_prompts(path: Path) -> list[FilePrompt]:
    """Every prompt of the file, empty lines left out. Raises ConfigError naming the line that cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The prompts in {path} cannot be read: {error}.") from error
    prompts = [_prompt(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise ConfigError(f'{path} holds no prompts; write one JSON object a line, such as {{"prompt": "..."}}.')
    return prompts


def digest(prompts: Sequence[FilePrompt]) -> str:
    """One short name for these prompts in this order."""
    text = json.dumps([(prompt.messages, prompt.followup) for prompt in prompts], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _prompt(line: str, where: str) -> FilePrompt:
    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON ({error}).") from error
    if not isinstance(entry, dict) or not {"turns", "messages", "prompt"} & entry.keys():
        raise ConfigError(f"{where} has none of the keys turns, messages and prompt.")
    named = {"name": _word(entry, "question_id", "id"), "category": _word(entry, "category")}
    if "turns" in entry:
        turns = entry["turns"]
        if not isinstance(turns, list) or not turns or not all(_is_text(turn) for turn in turns):
            raise ConfigError(f"{where}: turns must be a list of texts, the user's messages.")
        return FilePrompt((ChatMessage(role="user", content=turns[0]),), turns[1] if len(turns) > 1 else "", **named)
    if "messages" in entry:
        return FilePrompt(_messages(entry["messages"], where), **named)
    if not _is_text(entry["prompt"]):
        raise ConfigError(f"{where}: prompt must be a text.")
    return FilePrompt((ChatMessage(role="user", content=entry["prompt"]),), **named)


def _messages(messages: Any, where: str) -> tuple[ChatMessage, ...]:
    valid = isinstance(messages, list) and all(
        isinstance(message, dict) and message.get("role") in _ROLES and _is_text(message.get("content"))
        for message in messages
    )
    roles = [message["role"] for message in messages] if valid else []
    if "user" not in roles:
        raise ConfigError(
            f"{where}: messages must be a list of objects with role (system, user or assistant) and content, "
            "one of them the user's."
        )
    last = len(roles) - roles[::-1].index("user")
    kept = [{"role": message["role"], "content": message["content"]} for message in messages[:last]]
    return tuple(cast(ChatMessage, message) for message in kept)


def _word(entry: dict[str, Any], *keys: str) -> str:
    """The first of these entries that is a text or a number, as text."""
    return next((str(entry[key]) for key in keys if isinstance(entry.get(key), str | int)), "")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
