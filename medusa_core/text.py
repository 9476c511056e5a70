"""Between text and token ids: chat prompts in, text increments out.

Increments never split a character, and hold back a cluster that is still open (an emoji sequence, a combining mark).
Each token keeps the span of characters it completed. Knows nothing of models, trees or steps.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from medusa_core.errors import NoChatTemplate
from medusa_core.model_info import ChatMessage

_REPLACEMENT = "\ufffd"
_MARKER = "\u2063marker\u2063"  # invisible separators: no template rewrites them
_LONGEST_CHARACTER = 4  # bytes of UTF-8, so at most this many tokens hold one character


class ChatText:
    """A tokenizer as a chat needs it."""

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self.stop_ids = frozenset(stop_ids)
        self._pieces: dict[int, str] = {}

    def prompt_ids(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The conversation in the model's own chat template, ready for the assistant's turn.

        Raises NoChatTemplate where the tokenizer has none, or its template refuses the messages.
        """
        rendered = self._render(messages, add_generation_prompt=True)
        # The template writes the special tokens itself; adding them again would double the first one.
        ids: list[int] = self._tokenizer.encode(rendered, add_special_tokens=False)
        return ids

    def user_opening_ids(self) -> list[int]:
        """Everything up to the first character of a user's message: found by rendering a marker and cutting there."""
        rendered = self._render([{"role": "user", "content": _MARKER}], add_generation_prompt=False)
        opening, found, _ = rendered.partition(_MARKER)
        if not found:
            raise NoChatTemplate("The model's chat template rewrites the user's message, so its opening is unknown.")
        ids: list[int] = self._tokenizer.encode(opening, add_special_tokens=False)
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a whole sequence, special tokens left out."""
        text: str = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def piece(self, token_id: int) -> str:
        """One token for people: its text, a special token by name, bytes of an incomplete character as <E2 9F>."""
        if token_id not in self._pieces:
            self._pieces[token_id] = self._piece(token_id)
        return self._pieces[token_id]

    def increments(self) -> Increments:
        """A decoder for one reply."""
        return Increments(self)

    def _render(self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool) -> str:
        if not getattr(self._tokenizer, "chat_template", None):
            raise NoChatTemplate(
                "The model's tokenizer has no chat template, so a chat prompt cannot be written. "
                "Add a chat_template.jinja to the model's folder, or choose a chat model."
            )
        from jinja2.exceptions import TemplateError

        try:
            rendered: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except TemplateError as error:
            raise NoChatTemplate(f"The model's chat template refuses this conversation: {error}") from error
        return rendered

    def _piece(self, token_id: int) -> str:
        text: str = self._tokenizer.decode([token_id], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"<{token_id}>"  # a row of the output head beyond the tokenizer's vocabulary
        if token.startswith("\u2581") and not text.startswith(" "):
            return " " + text  # SentencePiece marks the space that decoding a lone token drops
        if _REPLACEMENT in text and (raw := _raw_bytes(token)):
            return "<" + " ".join(f"{byte:02X}" for byte in raw) + ">"
        return text


class Increments:
    """Token ids in, whole characters out; `text` is everything completed, `released` how much was given out."""

    def __init__(self, source: ChatText) -> None:
        self.text = ""
        self.released = 0
        self._source = source
        self._ids: list[int] = []
        self._from = 0  # decoding starts here: late enough to be cheap, early enough to keep its surroundings
        self._done = 0  # tokens whose text is complete

    def add(self, token_id: int) -> tuple[int, int]:
        """Take one token; returns the span of characters [start, end) it completed, empty inside a character."""
        start = len(self.text)
        self._ids.append(token_id)
        before = self._source.decode(self._ids[self._from : self._done])
        now = self._source.decode(self._ids[self._from :])
        waiting = len(self._ids) - self._done
        if now.endswith(_REPLACEMENT) and waiting < _LONGEST_CHARACTER:
            return start, start
        self.text += now[len(before) :]
        self._from, self._done = self._done, len(self._ids)
        return start, len(self.text)

    def release(self) -> str:
        """The text that may be shown now and was not given out before."""
        end = _closed(self.text, self.released)
        increment, self.released = self.text[self.released : end], end
        return increment

    def flush(self) -> str:
        """Whatever is left, at the end of a reply: bytes that never became a character come out as U+FFFD."""
        before = self._source.decode(self._ids[self._from : self._done])
        self.text += self._source.decode(self._ids[self._from :])[len(before) :]
        self._from = self._done = len(self._ids)
        increment, self.released = self.text[self.released :], len(self.text)
        return increment


def _closed(text: str, start: int) -> int:
    """The end of the part of `text` from `start` whose last cluster cannot be half an emoji or a bare mark."""
    end = len(text)
    while end > start and _stays_open(text[end - 1]):
        end -= 1
    return end


def _stays_open(character: str) -> bool:
    """Joiners, marks, modifiers and pictographs: what follows can still belong to the same visible character."""
    if character.isascii():
        return False
    return unicodedata.category(character) in {"Cf", "Mn", "Me", "Mc", "Sk", "So"}


def _raw_bytes(token: str) -> bytes:
    """The bytes behind a token that is no whole character: `<0xE2>` or the byte alphabet of byte-level BPE."""
    if token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:-1], 16)])
    alphabet = _byte_alphabet()
    return bytes(alphabet[character] for character in token if character in alphabet)


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes a printable Latin-1 byte as itself and the others as characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet = {chr(byte): byte for byte in printable}
    hidden = [byte for byte in range(256) if byte not in printable]
    alphabet.update({chr(0x100 + i): byte for i, byte in enumerate(hidden)})
    return alphabet
