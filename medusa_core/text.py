"""Between text and token ids: chat prompts in, text increments out.

Increments never split a character, nor an emoji sequence, a flag or a modified emoji: the last one is held back while
it may go on. Each token keeps the span of characters it completed. Knows nothing of models, trees or steps.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from medusa_core.errors import NoChatTemplate
from medusa_core.model_info import ChatMessage
from medusa_core.thinking import opened_by

_REPLACEMENT = "\ufffd"
_MARKER = "\u2063marker\u2063"  # invisible separators: no template rewrites them
_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Me", "Mc", "Cf"})  # marks, variation selectors, joiners, tags: part of what stands before
# Symbols may be the beginning of an emoji sequence; Cn, because Unicode gains emoji that this Python does not know.
_MAY_GO_ON = _MARKS | {"So", "Sm", "Sk", "Cn"}


class ChatText:
    """A tokenizer as a chat needs it."""

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self.stop_ids = frozenset(stop_ids)
        self._pieces: dict[int, str] = {}
        self._bytes: dict[int, bytes] = {}

    @property
    def has_template(self) -> bool:
        """The tokenizer comes with a chat template; base models have none."""
        return bool(getattr(self._tokenizer, "chat_template", None))

    def use_template(self, template: str) -> None:
        """Write prompts with this chat template from now on, for a model that ships none."""
        self._tokenizer.chat_template = template

    def first_ids(self) -> list[int]:
        """What a text without any prompt begins with: the tokenizer's beginning of text, or else its end of text."""
        for token_id in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token_id is not None:
                return [int(token_id)]
        raise NoChatTemplate(
            "The model's tokenizer has neither a chat template nor a beginning-of-text token, so nothing can be asked. "
            "Add a chat_template.jinja to the model's folder."
        )

    def next_turn_ids(self, message: str) -> list[int]:
        """What follows an assistant's reply when the user goes on with `message`, up to the assistant's next turn."""
        messages = [
            ChatMessage(role="user", content=_MARKER),
            ChatMessage(role="assistant", content=_MARKER),
            ChatMessage(role="user", content=message),
        ]
        _, found, rest = self._render(messages, add_generation_prompt=True).rpartition(_MARKER)
        if not found:
            raise NoChatTemplate("The model's chat template rewrites the assistant's message, so its end is unknown.")
        ids: list[int] = self._tokenizer.encode(rest, add_special_tokens=False)
        return ids

    def prompt_ids(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The conversation in the model's own chat template, ready for the assistant's turn.

        Raises NoChatTemplate where the tokenizer has none, or its template refuses the messages.
        """
        return self.prompt(messages)[0]

    def prompt(self, messages: Sequence[ChatMessage]) -> tuple[list[int], str]:
        """The prompt's ids, and the tag of thinking that the template opens at its end; "" for none."""
        rendered = self._render(messages, add_generation_prompt=True)
        # The template writes the special tokens itself; adding them again would double the first one.
        ids: list[int] = self._tokenizer.encode(rendered, add_special_tokens=False)
        return ids, opened_by(rendered)

    def reply_ids(self, text: str) -> list[int]:
        """A reply that begins with this text, as tokens; for replies whose own tokens are not known any more."""
        ids: list[int] = self._tokenizer.encode(_without_surrogates(text), add_special_tokens=False)
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

    def token_bytes(self, token_id: int) -> bytes:
        """What one token adds to the UTF-8 of a reply; it may begin or end inside a character. A special one: none."""
        if token_id not in self._bytes:
            text = self.decode([token_id])
            raw = _raw_bytes(self._tokenizer.convert_ids_to_tokens(token_id)) if _REPLACEMENT in text else b""
            self._bytes[token_id] = raw or text.encode()
        return self._bytes[token_id]

    def increments(self) -> Increments:
        """A decoder for one reply."""
        return Increments(self)

    def _render(self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool) -> str:
        if not self.has_template:
            raise NoChatTemplate(
                "The model's tokenizer has no chat template, so a chat prompt cannot be written. "
                "Add a chat_template.jinja to the model's folder, or choose a chat model."
            )
        from jinja2.exceptions import TemplateError

        try:
            rendered: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except (TemplateError, ValueError) as error:
            raise NoChatTemplate(f"The model's chat template refuses this conversation: {error}") from error
        return _without_surrogates(rendered)

    def _piece(self, token_id: int) -> str:
        text: str = self._tokenizer.decode([token_id], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"<{token_id}>"  # a row of the output head beyond the tokenizer's vocabulary
        if token.startswith("\u2581") and not text.startswith(" "):
            return " " + text  # SentencePiece marks the space that decoding a lone token drops
        raw = self.token_bytes(token_id)
        try:
            raw.decode()
        except UnicodeDecodeError:
            return "<" + " ".join(f"{byte:02X}" for byte in raw) + ">"
        return text


class Increments:
    """Token ids in, whole characters out; `text` is everything completed, `released` how much was given out.

    A token is decoded together with those just before it, because a tokenizer may drop the space of a sequence's first
    token. Its bytes only tell whether the end is inside a character: a U+FFFD in the text may also be meant.
    """

    def __init__(self, source: ChatText) -> None:
        self.text = ""
        self.released = 0
        self._source = source
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._ids: list[int] = []
        self._from = 0  # decoding starts here: late enough to be cheap, early enough to keep its surroundings
        self._done = 0  # tokens whose text is complete

    def add(self, token_id: int) -> tuple[int, int]:
        """Take one token; returns the span of characters [start, end) it completed, empty inside a character."""
        start = len(self.text)
        self._ids.append(token_id)
        self._utf8.decode(self._source.token_bytes(token_id))
        unfinished = len(self._utf8.getstate()[0])  # bytes of the last character, at most 3
        complete = len(self._ids)
        while unfinished > 0:
            complete -= 1
            unfinished -= len(self._source.token_bytes(self._ids[complete]))
        self._complete(complete)
        return start, len(self.text)

    def begin(self, token_ids: Sequence[int]) -> None:
        """Take the tokens that a reply begins with; their whole characters count as given out."""
        for token_id in token_ids:
            self.add(token_id)
        self.released = len(self.text)  # also what may go on: it was shown when it was written

    def release(self) -> str:
        """The text that may be shown now and was not given out before."""
        end = _closed(self.text, self.released)
        increment, self.released = self.text[self.released : end], end
        return increment

    def flush(self) -> str:
        """Whatever is left, at the end of a reply: bytes that never became a character come out as U+FFFD."""
        self._complete(len(self._ids))
        increment, self.released = self.text[self.released :], len(self.text)
        return increment

    def _complete(self, tokens: int) -> None:
        before = self._source.decode(self._ids[self._from : self._done])
        text = self._source.decode(self._ids[self._from : tokens])[len(before) :]
        if text:  # else the token stays in the window: alone it would be no surroundings for the next
            self.text += text
            self._from = self._done
        self._done = tokens


def _without_surrogates(text: str) -> str:
    """Half a surrogate pair can be pasted into a message, and no tokenizer takes it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _closed(text: str, start: int) -> int:
    """The end of what may be shown of `text` from `start`: all but the last cluster where that one may go on."""
    if start == len(text) or not _may_go_on(text[-1]):
        return len(text)
    cluster, half_flag = start, _is_flag_letter(text[start])
    for index in range(start + 1, len(text)):
        flag_letter = _is_flag_letter(text[index])
        if text[index - 1] == _JOINER or _belongs_to_the_one_before(text[index]) or (half_flag and flag_letter):
            half_flag = False
        else:
            cluster, half_flag = index, flag_letter
    return cluster


def _may_go_on(character: str) -> bool:
    """Whether what follows can belong to the same visible emoji or marked character."""
    return not character.isascii() and unicodedata.category(character) in _MAY_GO_ON


def _belongs_to_the_one_before(character: str) -> bool:
    return unicodedata.category(character) in _MARKS or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"  # a flag is two of these


def _raw_bytes(token: str) -> bytes:
    """The bytes behind a token that is no whole text: `<0xE2>` or the byte alphabet of byte-level BPE; else empty."""
    if len(token) == len("<0x00>") and token.startswith("<0x") and token.endswith(">"):
        return bytes.fromhex(token[3:-1])
    alphabet = _byte_alphabet()
    if any(character not in alphabet for character in token):
        return b""
    return bytes(alphabet[character] for character in token)


@cache
def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes a printable Latin-1 byte as itself and the others as characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet = {chr(byte): byte for byte in printable}
    hidden = [byte for byte in range(256) if byte not in printable]
    alphabet.update({chr(0x100 + i): byte for i, byte in enumerate(hidden)})
    return alphabet
