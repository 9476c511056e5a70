"""Thinking and answer: told apart in whole replies and in every beginning of one, and nothing of the text lost."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medusa_core.thinking import TAGS, Parts, answer_of, opened_by, split

PIECES = [
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<thought>",
    "</",
    "<",
    "think",
    ">",
    "\n",
    " ",
    "so",
    "Ä",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
OPENED = st.sampled_from(["", "think", "reasoning"])


def thought(text: str, opened: str = "") -> str:
    parts = split(text, opened)
    return text[parts.start : parts.end]


@pytest.mark.parametrize("name", TAGS)
def test_a_reply_that_begins_with_a_tag_thinks_up_to_the_end_of_it(name: str) -> None:
    text = f"<{name}>\nSo,\n</{name}>\n\nYes."
    assert thought(text) == "\nSo,\n"
    assert text[split(text).answer :] == "\n\nYes."
    assert answer_of(text) == "Yes."


def test_white_space_may_come_first() -> None:
    assert thought(" \n<think>So</think>Yes") == "So"


def test_an_unclosed_tag_opens_thinking_up_to_the_end() -> None:
    text = "<think>\nSo, what"
    parts = split(text)
    assert thought(text) == "\nSo, what"
    assert not parts.is_closed
    assert parts.answer == len(text)
    assert answer_of(text) == ""


def test_nothing_may_be_thought() -> None:
    text = "<think>\n\n</think>\n\nYes."
    assert split(text).has_thinking
    assert thought(text).strip() == ""
    assert answer_of(text) == "Yes."


@pytest.mark.parametrize(
    "text",
    [
        "Use <think> here. </think>",
        "`<think>` is a tag, </think> ends it",
        "```\n<think>\n</think>\n```",
        "<think",
        "<thinker>no</thinker>",
        "</think>Yes",
        "<Think>no</Think>",
        "",
    ],
)
def test_anything_else_is_the_answer_as_it_stands(text: str) -> None:
    parts = split(text)
    assert (parts.start, parts.end, parts.answer, parts.is_closed) == (0, 0, 0, True)
    assert not parts.has_thinking
    assert answer_of(text) == text


def test_tags_after_the_thinking_are_text() -> None:
    text = "<think>So</think>Write <think>x</think>."
    assert answer_of(text) == "Write <think>x</think>."


def test_another_tag_does_not_close_it() -> None:
    assert thought("<think>a</thinking>b</think>c") == "a</thinking>b"


@pytest.mark.parametrize("text", ["So,\n</think>\n\nYes.", "<think>So,\n</think>\n\nYes."])
def test_where_the_prompt_opened_the_tag_the_reply_begins_inside_it(text: str) -> None:
    assert thought(text, "think") == "So,\n"
    assert answer_of(text, "think") == "Yes."


def test_inside_one_tag_the_beginning_of_another_is_text() -> None:
    assert thought("<reasoning>So</think>Yes", "think") == "<reasoning>So"


@given(TEXTS, OPENED)
def test_tags_and_parts_together_are_the_text(text: str, opened: str) -> None:
    parts = split(text, opened)
    assert 0 <= parts.start <= parts.end <= parts.answer <= len(text)
    assert parts.settled <= len(text)
    opening, closing = text[: parts.start].strip(), text[parts.end : parts.answer]
    assert opening in ("", *(f"<{name}>" for name in TAGS))
    if parts.is_closed and parts.has_thinking:
        assert closing == (f"</{opened}>" if opened else opening.replace("<", "</"))
    else:
        assert closing == ""
    assert text[: parts.start] + thought(text, opened) + closing + text[parts.answer :] == text


@given(TEXTS, OPENED)
@example("<think>a</think", "")
@example(" <think>a</think>b", "")
@example("<thinks", "")
@example("<think>a", "think")
def test_what_is_settled_in_the_beginning_of_a_reply_stays_what_it_is(text: str, opened: str) -> None:
    """Streamed character by character, nothing that was shown in one place has to be taken away again."""
    whole = split(text, opened)
    before = 0
    for length in range(len(text) + 1):
        parts = split(text[:length], opened)
        assert parts.settled >= before  # what was shown is not held back again
        before = parts.settled
        assert roles(parts, parts.settled) == roles(whole, parts.settled), text[:length]


def roles(parts: Parts, length: int) -> list[str]:
    """What each of the first characters is: of the thinking, of the answer, or of a tag."""
    return [
        "thought" if parts.start <= at < parts.end else "answer" if at >= parts.answer else "tag"
        for at in range(length)
    ]


def test_only_what_may_be_half_a_tag_is_held_back() -> None:
    assert split("<think>So").settled == len("<think>So")
    assert split("<think>So</thi").settled == len("<think>So")
    assert split("<think>a < b").settled == len("<think>a < b")
    assert split("<thi").settled == 0
    assert split("<this").settled == len("<this")
    assert split("Yes").settled == 3
    assert split("Yes </thi").settled == len("Yes </thi")


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("<|user|>Hi<|assistant|><think>\n", "think"),
        ("<|assistant|>\n<thought>\n", "thought"),
        ("<|assistant|>\n<think>\n\n</think>\n\n", ""),
        ("<|user|>What is <think>?<|assistant|>\n", ""),
        ("", ""),
    ],
)
def test_the_tag_that_a_prompt_ends_with(prompt: str, name: str) -> None:
    assert opened_by(prompt) == name
