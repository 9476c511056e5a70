"""Export and import: what was exported comes back, and a damaged file leaves no trace."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversations import ConversationStore, Figures, ImportDamaged, MessageState, from_json, to_json, to_markdown

TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    store = ConversationStore(tmp_path, now=lambda: 1_700_000_000.0)
    yield store
    store.close()


def fill(store: ConversationStore) -> int:
    question = store.messages.ask("How? 世界")
    for text, state in (("One.", MessageState.COMPLETE), ("Two", MessageState.STOPPED)):
        writer = store.messages.begin_reply(question.id, Figures(model="Tiny", rule="greedy", seed=3))
        writer.append(text)
        writer.finish(state, Figures("Tiny", "greedy", 3, 4, 20.0, 2.0, 0.25, "stop"))
    return question.conversation


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_was_exported_comes_back(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        store, copy = ConversationStore(Path(one)), ConversationStore(Path(other))
        messages: list[int] = []
        conversation = None
        for text in data.draw(st.lists(TEXTS, min_size=1, max_size=6)):
            parent = data.draw(st.sampled_from([None, *messages]))
            if parent is None:
                message = store.messages.ask(text, conversation)
                conversation = message.conversation
                messages.append(message.id)
            elif data.draw(st.booleans()):
                messages.append(store.messages.edit(parent, text).id)
            else:
                writer = store.messages.begin_reply(parent, Figures(seed=data.draw(st.none() | st.integers())))
                writer.append(text)
                writer.finish(data.draw(st.sampled_from([MessageState.COMPLETE, MessageState.STOPPED])))
                messages.append(writer.message)
        assert conversation is not None
        store.messages.choose(data.draw(st.sampled_from(messages)))
        exported = to_json(store, [conversation])
        (number,) = from_json(copy, exported)
        again = to_json(copy, [number])
        shown = [[m.text for m in s.messages.branch(c)] for s, c in ((store, conversation), (copy, number))]
        store.close()
        copy.close()
    assert json.loads(again) == json.loads(exported)
    assert shown[0] == shown[1]


def test_an_imported_conversation_is_found_and_goes_on(store: ConversationStore) -> None:
    (number,) = from_json(store, to_json(store, [fill(store)]))
    store.messages.ask("more", number)
    assert [message.text for message in store.messages.branch(number)] == ["How? 世界", "Two", "more"]
    assert len([hit for hit in store.search("How") if hit.conversation == number]) == 2


def test_markdown_shows_the_current_branch(store: ConversationStore) -> None:
    text = to_markdown(store, [fill(store)])
    assert text == (
        "# How? 世界\n\n2023-11-14 22:13\n\n## Question\n\nHow? 世界\n\n## Reply (stopped)\n\nTwo\n\n"
        "*Tiny · 4 tokens · 20.0 tokens/s · 2.00 tokens per step · greedy*\n"
    )


@pytest.mark.parametrize(
    ("text", "opened"),
    [("<think>\nSo,\n\n```\nno end\n</think>\n\nYes.\n", ""), ("So,\n\n```\nno end\n</think>\n\nYes.", "think")],
)
def test_thinking_is_folded_away_in_markdown_and_whole_in_json(
    store: ConversationStore, text: str, opened: str
) -> None:
    question = store.messages.ask("Well, <think>?")
    writer = store.messages.begin_reply(question.id, Figures(opened=opened))
    writer.append(text)
    writer.finish(MessageState.COMPLETE)
    folded = "<details>\n<summary>Thinking</summary>\n\n> So,\n>\n> ```\n> no end\n\n</details>\n\nYes.\n"
    assert to_markdown(store, [question.conversation]).endswith(
        f"## Question\n\nWell, <think>?\n\n## Reply\n\n{folded}"
    )
    (again,) = from_json(store, to_json(store, [question.conversation]))
    _, reply = store.messages.branch(again)
    assert reply.text == text
    assert reply.figures is not None
    assert reply.figures.opened == opened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>\n\n</think>\n\nYes.", "Yes."),
        ("<think>So", "<details>\n<summary>Thinking</summary>\n\n> So\n\n</details>"),
        ("Say <think>So</think>.", "Say <think>So</think>."),
    ],
)
def test_there_may_be_no_thinking_or_no_answer(store: ConversationStore, text: str, shown: str) -> None:
    question = store.messages.ask("Well?")
    writer = store.messages.begin_reply(question.id, Figures())
    writer.append(text)
    writer.finish(MessageState.COMPLETE)
    assert to_markdown(store, [question.conversation]).endswith(f"## Reply\n\n{shown}\n")


def damaged(change: Any) -> Any:
    return pytest.param(change, id=str(change))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), "[]"),
        ((), "{"),
        ((), "[" * 100_000),
        (("format",), "else"),
        (("version",), 2),
        (("conversations",), None),
        (("conversations", 1), 5),
        (("conversations", 1, "title"), 5),
        (("conversations", 1, "created"), float("nan")),
        (("conversations", 1, "updated"), 1e300),
        (("conversations", 1, "pinned"), 1),
        (("conversations", 1, "messages", 1, "parent"), 1),
        (("conversations", 1, "messages", 1, "parent"), -1),
        (("conversations", 1, "messages", 1, "parent"), True),
        (("conversations", 1, "messages", 1, "role"), "robot"),
        (("conversations", 1, "messages", 1, "state"), "streaming"),
        (("conversations", 1, "messages", 1, "chosen"), 2**70),
        (("conversations", 1, "messages", 1, "figures"), "fast"),
        (("conversations", 1, "messages", 1, "figures", "tokens"), "many"),
        (("conversations", 1, "messages", 1, "text"), None),
    ],
)
def test_of_a_damaged_file_nothing_is_taken(store: ConversationStore, path: tuple[Any, ...], value: Any) -> None:
    number = fill(store)
    data = json.loads(to_json(store, [number, number]))
    if path:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    with pytest.raises(ImportDamaged, match=r"nothing was\s?imported|nothing was imported"):
        from_json(store, json.dumps(data) if path else value)
    assert len(store.conversations()) == 1
