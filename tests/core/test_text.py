"""From ids to text: increments over any text and any bytes, and pieces that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from medusa_core.text import ChatText
from medusa_core.tiny import END_ID
from tests.core.byte_tokens import BYTES, TINY, ids_of

CLUSTERS = {
    "family": "👩\u200d👩\u200d👧",
    "flag": "🇩🇪",
    "skin tone": "👍🏽",
    "skin tones joined": "🧑🏻\u200d🤝\u200d🧑🏿",
    "heart with its selector": "❤\ufe0f",
    "heart on fire": "❤\ufe0f\u200d🔥",
    "shaking head, with an arrow of mathematics": "🙂\u200d↔\ufe0f",
    "rainbow flag": "🏳\ufe0f\u200d🌈",
    "flag of tags": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "emoji younger than Python's tables": "\U0001fae8\u200d\U0001fae8",
}
FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
TEXTS = [
    "",
    "Plain words.",
    "Größe, naïve, e\u0301, ﬁ",
    "中文和日本語、한국어",
    "हिन्दी العربية עברית",
    "a\ufffdb \ufffd\ufffd",
    "line\r\nline\n\n\tend\u2028\x85\0",
    "  leading and trailing  ",
    "".join(CLUSTERS.values()),
]


def stream(source: ChatText, ids: Sequence[int], every: int = 1) -> tuple[list[str], list[tuple[int, int]], str]:
    """The increments given out after every so many tokens and at the end, the spans, and the text before the end."""
    increments = source.increments()
    spans, given_out = [], []
    for number, token_id in enumerate(ids, 1):
        spans.append(increments.add(token_id))
        if number % every == 0:
            given_out.append(increments.release())
    before_end = increments.text
    given_out.append(increments.flush())
    assert "".join(given_out) == increments.text
    return given_out, spans, before_end


def assert_spans_cover(spans: Sequence[tuple[int, int]], text: str) -> None:
    end = 0
    for span in spans:
        assert span[0] == end
        assert span[1] >= end
        end = span[1]
    assert end == len(text)


@given(st.text(), st.integers(1, 7))
def test_any_text_comes_out_as_it_went_in(text: str, every: int) -> None:
    given_out, spans, before_end = stream(BYTES, ids_of(text), every)
    assert "".join(given_out) == text == before_end
    assert_spans_cover(spans, text)


@given(st.text(min_size=1))
def test_a_character_belongs_to_the_token_of_its_last_byte(text: str) -> None:
    _, spans, _ = stream(BYTES, ids_of(text))
    expected = []
    for place, character in enumerate(text):
        expected += [(place, place)] * (len(character.encode()) - 1) + [(place, place + 1)]
    assert spans == expected


@given(st.lists(st.integers(0, END_ID + 3) | st.sampled_from(ids_of("⟝😀\ufffd")), max_size=60), st.integers(1, 7))
def test_any_bytes_and_special_tokens_come_out_as_the_whole_decodes(ids: list[int], every: int) -> None:
    given_out, spans, before_end = stream(BYTES, ids, every)
    assert "".join(given_out) == BYTES.decode(ids)
    assert_spans_cover(spans, before_end)


def test_bytes_that_never_become_a_character_take_nothing_from_the_next_one() -> None:
    first = ids_of("⟝")[0]
    given_out, spans, _ = stream(BYTES, [first, first, first, *ids_of("⟝a")])
    assert "".join(given_out) == "\ufffd\ufffd\ufffd⟝a"
    assert spans == [(0, 0), (0, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 5)]


def test_half_a_character_is_held_and_comes_out_only_at_the_end() -> None:
    increments = BYTES.increments()
    for token_id in ids_of("a😀")[:-1]:
        increments.add(token_id)
    assert increments.release() == "a"
    assert increments.release() == ""
    assert increments.flush() == "\ufffd"
    assert increments.text == "a\ufffd"


def test_a_replacement_character_that_is_meant_is_not_held_as_half_a_character() -> None:
    _, spans, before_end = stream(BYTES, ids_of("\ufffdx\ufffd"))
    assert before_end == "\ufffdx\ufffd"
    assert spans[2] == (0, 1)
    assert spans[-1] == (2, 3)


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("before", ["", "a", "é ", "😀", "中", "🇫🇷"])
def test_what_is_seen_as_one_is_given_out_as_one(cluster: str, before: str) -> None:
    for after in ("", "!", "😀", "中", "🇫🇷"):
        given_out, _, _ = stream(BYTES, ids_of(before + cluster + after))
        assert any(cluster in increment for increment in given_out), given_out


@given(
    st.lists(
        st.sampled_from(list(CLUSTERS.values()))
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters=FLAG_LETTERS), min_size=1, max_size=4),
        max_size=12,
    ),
    st.integers(1, 9),
)
def test_no_increment_ends_inside_a_cluster_wherever_it_stands(parts: list[str], every: int) -> None:
    given_out, _, _ = stream(BYTES, ids_of("".join(parts)), every)
    ends, position = set(), 0
    for increment in given_out:
        position += len(increment)
        ends.add(position)
    position = 0
    for part in parts:
        if part in CLUSTERS.values():
            assert ends.isdisjoint(range(position + 1, position + len(part)))
        position += len(part)


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_an_endless_row_of_emoji_is_given_out_as_it_comes(cluster: str) -> None:
    increments = BYTES.increments()
    for token_id in ids_of(cluster * 40):
        increments.add(token_id)
        increments.release()
        assert len(increments.text) - increments.released <= len(cluster)
    assert increments.released > 0


def test_plain_text_is_given_out_at_once() -> None:
    increments = BYTES.increments()
    for text in ("a", ".", "é", "中", "ひ", "א"):
        for token_id in ids_of(text):
            increments.add(token_id)
        assert increments.release() == text


class CountingText(ChatText):
    """Counts the tokens that it is asked to decode."""

    decoded = 0

    def decode(self, token_ids: Sequence[int]) -> str:
        self.decoded += len(token_ids)
        return super().decode(token_ids)


@pytest.mark.parametrize("text", ["word ", "é⟝😀", "🇩🇪"])
def test_a_token_costs_the_same_however_long_the_reply_is(text: str) -> None:
    source = CountingText(TINY, [END_ID])
    increments = source.increments()
    ids = ids_of(text * 300)
    costs = []
    for token_id in ids:
        before = source.decoded
        increments.add(token_id)
        costs.append(source.decoded - before)
    assert max(costs[-len(costs) // 2 :]) <= max(costs[: len(ids) // 10])
    assert max(costs) <= 24


def sentencepiece_like() -> Any:
    """Pieces with a marked space, bytes by name, and a decoder that drops a sequence's first space (Llama 2's form)."""
    words = ["\u2581", "\u2581the", "\u2581cat", "s", "é", "\ufffd", "\u2581\ufffd"]
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    vocabulary |= {word: 256 + place for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


PIECES = ChatText(sentencepiece_like(), [])


@given(
    st.lists(st.sampled_from(range(256, 264)).map(lambda i: [i]) | st.characters().map(lambda c: list(c.encode()))),
    st.integers(1, 5),
)
def test_pieces_keep_their_spaces_and_characters_in_bytes_become_whole(parts: list[list[int]], every: int) -> None:
    ids = [token_id for part in parts for token_id in part]
    given_out, spans, before_end = stream(PIECES, ids, every)
    assert "".join(given_out) == before_end == PIECES.decode(ids)
    assert_spans_cover(spans, before_end)


def test_a_special_token_between_two_words_does_not_cost_the_second_its_space() -> None:
    assert PIECES.piece(263) == "</s>"
    given_out, spans, _ = stream(PIECES, [257, 263, 263, 258])
    assert "".join(given_out) == "the cat"
    assert spans == [(0, 3), (3, 3), (3, 3), (3, 7)]


@given(st.lists(st.integers(0, 263), max_size=40))
def test_pieces_in_any_order_have_spans_that_cover_their_text(ids: list[int]) -> None:
    _, spans, before_end = stream(PIECES, ids)
    assert_spans_cover(spans, before_end)


def test_a_piece_for_people() -> None:
    first, second, last = ids_of("⟝")
    assert [BYTES.piece(i) for i in (first, second, last)] == ["<E2>", "<9F>", "<9D>"]
    assert BYTES.piece(ids_of("a")[0]) == "a"
    assert BYTES.piece(ids_of(" ")[0]) == " "
    assert BYTES.piece(END_ID) == "<|end|>"
    assert BYTES.piece(263) == "<263>"  # the output head has more rows than the tokenizer has tokens
    assert [PIECES.piece(i) for i in (0xE2, 0x41, 256, 257, 259, 260, 261, 262)] == [
        "<E2>",
        "A",
        " ",
        " the",
        "s",
        "é",
        "\ufffd",
        " \ufffd",
    ]


def test_a_piece_of_several_bytes_shows_each() -> None:
    alphabet = {TINY.convert_ids_to_tokens(i): i for i in range(256)}
    start, middle, end = (TINY.convert_ids_to_tokens(i) for i in ids_of("⟝"))
    space = TINY.convert_ids_to_tokens(ids_of(" ")[0])
    meant = "".join(TINY.convert_ids_to_tokens(i) for i in ids_of("\ufffd"))
    vocabulary = alphabet | {start + middle: 256, space + start: 257, start + middle + end: 258, meant: 259}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.decoder = decoders.ByteLevel()
    source = ChatText(PreTrainedTokenizerFast(tokenizer_object=tokenizer), [])
    assert [source.piece(i) for i in range(256, 260)] == ["<E2 9F>", "<20 E2>", "⟝", "\ufffd"]
    given_out, spans, _ = stream(source, [257, *ids_of("\x9f")[1:], alphabet[end], 256, alphabet[end], 259])
    assert "".join(given_out) == " ⟝⟝\ufffd"
    assert spans == [(0, 0), (0, 0), (0, 2), (2, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("text", TEXTS)
def test_the_default_models_tokens_give_the_text_back(default_text: ChatText, text: str) -> None:
    ids = default_text.prompt_ids([{"role": "user", "content": text}])
    given_out, spans, before_end = stream(default_text, ids)
    assert "".join(given_out) == before_end == default_text.decode(ids)
    assert text in before_end
    assert_spans_cover(spans, before_end)


@settings(max_examples=40)
@given(data=st.data())
def test_any_ids_of_the_default_model_decode_alike(default_text: ChatText, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, 49_151), max_size=40))
    given_out, spans, before_end = stream(default_text, ids, every=2)
    assert "".join(given_out) == default_text.decode(ids)
    assert_spans_cover(spans, before_end)
