"""Search: words from their beginning in titles and texts, and no input that breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversations import ConversationStore, MessageState, StoreDamaged, without_repeats


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConversationStore]:
    store = ConversationStore(tmp_path_factory.mktemp("search"))
    for text in (
        "Naïve cats\nin the garden AND the house",
        "Why C++ and C# differ\nC alone is older",
        "猫はどこですか\n東京の猫",
        "Привет мир\n50% off_today 🙂",
        "שלום עולם",
        "deleted cats",
    ):
        store.messages.ask(text)
    store.delete(store.conversations()[0].id)
    yield store
    store.close()


def titles(store: ConversationStore, words: str) -> set[str]:
    return {hit.title for hit in store.search(words)}


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("naive", "Naïve cats"),
        ("NAÏVE GARD", "Naïve cats"),
        ("gar", "Naïve cats"),
        ("AND", "Naïve cats"),
        ('"the house"', "Naïve cats"),
        ('"the hou', "Naïve cats"),
        ("c++", "Why C++ and C# differ"),
        ("C#", "Why C++ and C# differ"),
        ("東京", "猫はどこですか"),
        ("どこ", "猫はどこですか"),
        ("прив", "Привет мир"),
        ("🙂", "Привет мир"),
        ("50%", "Привет мир"),
        ("של", "שלום עולם"),
    ],
)
def test_finds(store: ConversationStore, words: str, title: str) -> None:
    if words == '"the hou':
        assert titles(store, words) == set()  # a phrase is whole words
    elif words == "AND":
        assert title in titles(store, words)
    else:
        assert titles(store, words) == {title}


@pytest.mark.parametrize("words", ["", " ", "arden", "cats dogs", '"cats naive"', "%", "_x", '""', "deleted"])
def test_does_not_find(store: ConversationStore, words: str) -> None:
    assert titles(store, words) <= ({"Привет мир"} if words == "%" else set())


def test_titles_come_first_and_snippets_mark_the_words(store: ConversationStore) -> None:
    hits = store.search("cat")
    assert [hit.message is None for hit in hits] == [True, False]
    assert hits[1].snippet[:2] == (("Naïve ", False), ("cats", True))
    (hit,) = [hit for hit in store.search("東京") if hit.message]
    assert ("東京", True) in hit.snippet


def test_a_title_found_in_its_message_too_is_told_once(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    question = store.messages.ask("zebra stripes")
    reply = store.messages.begin_reply(question.id)
    reply.append("A zebra has them.")
    reply.finish(MessageState.COMPLETE)
    renamed = store.messages.ask("something else")
    store.rename(renamed.conversation, "zebra")
    hits = without_repeats(store.search("zebra"))
    store.close()
    assert {(hit.conversation, hit.message) for hit in hits[:2]} == {
        (question.conversation, question.id),
        (renamed.conversation, None),
    }
    assert [hit.message for hit in hits[2:]] == [reply.message]


_SYNTAX = [*'"*()^:-+#%_\\\0', "AND ", "NEAR(", "a", " ", "{"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=30) | st.lists(st.sampled_from([*'"*()^:-+#%_\\\0', "AND ", "NEAR(", "a", " ", "{"])).map("".join)
)
def test_no_input_is_an_error(store: ConversationStore, words: str) -> None:
    for hit in store.search(words):
        assert any(is_word for _, is_word in hit.snippet) or not words.strip()


def test_of_equally_good_hits_the_newest_comes_first(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    first = store.messages.ask("zebra stripes")
    second = store.messages.ask("zebra stripes")
    hits = [hit.message for hit in store.search("zebra") if hit.message]
    limited = store.search("zebra", limit=3)
    store.close()
    assert hits == [second.id, first.id]
    assert len(limited) == 3


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    question = store.messages.ask("zebra")
    with store.database.writing() as connection:
        connection.execute("DELETE FROM message_index_data WHERE id > 10")
    found = {hit.message for hit in store.search("zebra")}
    store.close()
    assert found == {None, question.id}


def test_after_damage_was_met_the_next_start_makes_the_index_anew(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    question = store.messages.ask("zebra")
    with store.database.writing() as connection:
        connection.execute("DELETE FROM message_index_data WHERE id > 10")
    match = "SELECT rowid FROM message_index WHERE message_index MATCH 'zebra'"
    with pytest.raises(StoreDamaged):
        store.database.read(match)
    store.close()
    store = ConversationStore(tmp_path)
    found = [row["rowid"] for row in store.database.read(match)]
    kept_aside = store.kept_aside
    store.close()
    assert (found, kept_aside) == ([question.id], None)
