"""The list of conversations: names, order, copies, and what is deleted until it is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.conversations import ConversationStore, Figures, Message, MessageState, Role
from app.conversations.records import title_from
from medusa_core.testing import scripted_reply

Answer = Callable[[Message, str], Message]
Shown = Callable[[ConversationStore, int], list[str]]


def test_a_first_question_makes_a_conversation_named_after_it(store: ConversationStore) -> None:
    question = store.messages.ask("\n  How do   cats\tpurr?\nAnd why?")
    (line,) = store.conversations()
    assert (line.id, line.title) == (question.conversation, "How do cats purr?")
    assert (question.role, question.state, question.parent) == (Role.USER, MessageState.COMPLETE, None)


def test_a_long_title_is_cut_at_a_word() -> None:
    title = title_from("Please explain " + "many words " * 20)
    assert len(title) <= 61
    assert title.endswith(("many…", "words…"))
    assert title_from("x" * 100) == "x" * 60 + "…"
    assert title_from(" \n") == ""


def test_renaming_keeps_the_date_and_takes_no_empty_title(store: ConversationStore) -> None:
    conversation = store.messages.ask("a").conversation
    before = store.get(conversation).updated
    store.rename(conversation, "  Cats\nand dogs ")
    store.rename(conversation, "  ")
    assert (store.get(conversation).title, store.get(conversation).updated) == ("Cats and dogs", before)


def test_pinned_ones_stand_first_then_the_newest(store: ConversationStore) -> None:
    first, second, third = (store.messages.ask(text).conversation for text in "abc")
    store.pin(first, pinned=True)
    store.messages.ask("more", second)
    assert [line.id for line in store.conversations()] == [first, second, third]
    store.pin(first, pinned=False)
    assert [line.id for line in store.conversations()] == [second, third, first]


def test_deleting_can_be_undone_until_it_is_purged(store: ConversationStore, shown: Shown) -> None:
    kept, gone = store.messages.ask("kept").conversation, store.messages.ask("gone").conversation
    store.delete(gone)
    assert [line.id for line in store.conversations()] == [kept]
    assert [line.id for line in store.deleted()] == [gone]
    assert store.search("gone") == []
    store.purge(older_than_seconds=1000)
    store.restore(gone)
    assert shown(store, gone) == ["gone"]
    store.delete(gone)
    store.purge(older_than_seconds=0)
    with pytest.raises(KeyError, match=str(gone)):
        store.get(gone)
    assert store.deleted() == []


def test_deleting_all_can_be_undone(store: ConversationStore) -> None:
    for text in "abc":
        store.messages.ask(text)
    gone = store.delete_all()
    assert store.conversations() == []
    for conversation in gone:
        store.restore(conversation)
    assert {line.title for line in store.conversations()} == set("abc")


def test_a_copy_has_every_branch_and_is_a_conversation_of_its_own(
    store: ConversationStore, answer: Answer, shown: Shown
) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id, Figures(model="m"))
    writer.append("one", scripted_reply(3))
    writer.finish(MessageState.COMPLETE)
    answer(question, "two")
    store.messages.remove(answer(question, "removed").id)
    writing = store.messages.begin_reply(question.id)
    writing.append("half ")
    copy = store.duplicate(question.conversation)
    writing.append("and half")
    writing.finish(MessageState.COMPLETE)
    assert shown(store, copy.id) == ["q", "half "]
    variants = store.messages.variants(store.messages.branch(copy.id)[1].id)
    assert [variant.text for variant in variants] == ["one", "two", "half "]
    assert variants[2].state is MessageState.CUT
    assert variants[0].figures == Figures(model="m")
    assert store.steps(variants[0].id) == store.steps(writer.message) != []
    assert shown(store, question.conversation) == ["q", "half and half"]
    store.messages.ask("more", copy.id)
    assert len(store.messages.branch(question.conversation)) == 2


def test_a_copy_of_a_conversation_with_nothing_left_in_it(store: ConversationStore, shown: Shown) -> None:
    question = store.messages.ask("q")
    store.messages.remove(question.id)
    assert shown(store, store.duplicate(question.conversation).id) == []
