"""The messages of a conversation are a tree: nothing is lost by asking again in other words."""

from __future__ import annotations

from collections.abc import Callable

from app.conversations import ConversationStore, Message

Answer = Callable[[Message, str], Message]
Shown = Callable[[ConversationStore, int], list[str]]


def test_editing_a_question_keeps_the_old_branch(store: ConversationStore, answer: Answer, shown: Shown) -> None:
    question = store.messages.ask("q")
    reply = answer(question, "a")
    edited = store.messages.edit(question.id, "q, better")
    answer(edited, "a, better")
    assert shown(store, question.conversation) == ["q, better", "a, better"]
    assert store.messages.beside(edited.id, -1).id == question.id
    assert shown(store, question.conversation) == ["q", "a"]
    assert store.messages.branch(question.conversation)[1].id == reply.id
    assert [(m.variant, m.variants) for m in store.messages.branch(question.conversation)] == [(0, 2), (0, 1)]


def test_trying_again_makes_a_variant_and_the_choice_is_remembered(
    store: ConversationStore, open_store: Callable[[], ConversationStore], answer: Answer, shown: Shown
) -> None:
    question = store.messages.ask("q")
    first, second = answer(question, "one"), answer(question, "two")
    store.messages.ask("and?", question.conversation)
    store.messages.choose(first.id)
    assert shown(store, question.conversation) == ["q", "one"]
    assert store.messages.beside(first.id, -1).id == first.id
    store = open_store()
    assert shown(store, question.conversation) == ["q", "one"]
    assert store.messages.beside(first.id, 1).id == second.id
    assert shown(store, question.conversation) == ["q", "two", "and?"]
    assert store.messages.beside(second.id, 1).id == second.id


def test_revealing_a_message_shows_its_branch(store: ConversationStore, answer: Answer, shown: Shown) -> None:
    question = store.messages.ask("q")
    first = answer(question, "one")
    deep = store.messages.ask("deep", question.conversation)
    answer(question, "two")
    store.messages.edit(question.id, "other")
    assert shown(store, question.conversation) == ["other"]
    store.messages.reveal(deep.id)
    assert shown(store, question.conversation) == ["q", "one", "deep"]
    assert store.messages.get(deep.id).parent == first.id


def test_removing_a_message_takes_what_follows_and_both_come_back(
    store: ConversationStore, answer: Answer, shown: Shown
) -> None:
    question = store.messages.ask("q")
    answer(question, "one")
    two = answer(question, "two")
    more = store.messages.ask("more", question.conversation)
    store.messages.remove(two.id)
    assert shown(store, question.conversation) == ["q", "one"]
    assert store.search("more") == []
    store.messages.restore(two.id)
    assert shown(store, question.conversation) == ["q", "two", "more"]
    store.messages.remove(more.id)
    store.messages.remove(question.id)
    assert shown(store, question.conversation) == []
    store.messages.restore(more.id)  # stays away with the question
    assert shown(store, question.conversation) == []
    store.messages.restore(question.id)
    assert shown(store, question.conversation) == ["q", "two", "more"]
    store.messages.remove(two.id)
    store.purge(older_than_seconds=0)
    assert shown(store, question.conversation) == ["q", "one"]
