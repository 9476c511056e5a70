"""From messages to ids: the chat template, the tag of thinking it opens, where a user's turn begins, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from medusa_core.errors import NoChatTemplate
from medusa_core.model_info import ChatMessage
from medusa_core.text import ChatText
from medusa_core.tiny import CHAT_TEMPLATE, END_ID, tiny_tokenizer
from tests.core.byte_tokens import BYTES, ids_of

HELLO: list[ChatMessage] = [{"role": "user", "content": "hi"}]


def test_a_prompt_is_the_template_and_its_special_tokens_once() -> None:
    assert BYTES.prompt_ids(HELLO) == [258, *ids_of("hi"), END_ID, 259]
    assert BYTES.user_opening_ids() == [258]
    assert BYTES.prompt_ids(HELLO)[:1] == BYTES.user_opening_ids()


@pytest.mark.parametrize(("pasted", "read"), [("\ud83d\ude00", "😀"), ("a\ud83d", "a\ufffd"), ("\ude00b", "\ufffdb")])
def test_half_a_surrogate_pair_in_a_message_is_no_trouble(pasted: str, read: str) -> None:
    assert BYTES.prompt_ids([{"role": "user", "content": pasted}]) == [258, *ids_of(read), END_ID, 259]


def with_template(template: Any) -> ChatText:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return ChatText(tokenizer, [END_ID])


def test_a_prompt_tells_which_tag_of_thinking_its_template_opens() -> None:
    opening = with_template(CHAT_TEMPLATE.replace("<|assistant|>{%", "<|assistant|><think>\n{%"))
    ids, opened = opening.prompt(HELLO)
    assert opened == "think"
    assert ids == opening.prompt_ids(HELLO) == [*BYTES.prompt_ids(HELLO), *ids_of("<think>\n")]
    assert BYTES.prompt([{"role": "user", "content": "<think>"}])[1] == ""


def test_no_template_is_said_with_the_way_on() -> None:
    for source in (with_template(None), with_template("")):
        with pytest.raises(NoChatTemplate, match=r"has no chat template.*chat_template\.jinja"):
            source.prompt_ids(HELLO)
        with pytest.raises(NoChatTemplate, match="has no chat template"):
            source.user_opening_ids()


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('System role not supported') }}", "System role not supported"),
        ("{% for message in messages %}", "Unexpected end of template"),
        ("{{ messages[0].absent.content }}", "absent"),
        ({"tool_use": CHAT_TEMPLATE}, "no default"),
    ],
)
def test_a_template_that_refuses_is_quoted(template: Any, reason: str) -> None:
    with pytest.raises(NoChatTemplate, match=f"refuses this conversation: .*{reason}"):
        with_template(template).prompt_ids(HELLO)


def test_a_conversation_without_a_message_is_refused() -> None:
    with pytest.raises(NoChatTemplate, match="at least one message"):
        BYTES.prompt_ids([])


def test_an_opening_is_cut_from_the_template_also_where_it_trims() -> None:
    source = with_template("<|system|>Be kind.<|end|>{% for m in messages %}<|user|>{{ m.content | trim }}{% endfor %}")
    assert source.user_opening_ids() == [257, *ids_of("Be kind."), END_ID, 258]


def test_a_template_that_rewrites_the_message_has_no_opening() -> None:
    with pytest.raises(NoChatTemplate, match="rewrites the user's message"):
        with_template("<|user|>{{ messages[0].content | length }}").user_opening_ids()


def test_the_default_models_opening_begins_its_prompts(default_text: ChatText) -> None:
    opening = default_text.user_opening_ids()
    assert "".join(map(default_text.piece, opening)).endswith("<|im_start|>user\n")
    assert default_text.prompt_ids(HELLO)[: len(opening)] == opening
